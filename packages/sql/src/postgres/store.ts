import type { StoreDialect } from '../contract/store-dialect.ts'
import { cancelSql, postgresAdministration } from './admin.ts'
import { postgresClaims } from './claims.ts'
import { sqlStateOf } from './errors.ts'
import { cleanInboxSql } from './inbox.ts'
import { postgresOwnership } from './ordering/ownership.ts'
import { postgresSchema } from './schema.ts'

export const postgresStore: StoreDialect = {
  schema: postgresSchema,
  claims: postgresClaims,
  ownership: postgresOwnership,
  administration: postgresAdministration,
  cancel: cancelSql,

  async cleanInbox(driver, table, { window, limit }) {
    const { count } = await driver.run(driver.pool, cleanInboxSql(table), [window, limit])
    return count
  },

  async takeTurn(driver, meta, { name, interval }) {
    const sql = `INSERT INTO ${meta} AS turn (name, version, oldest_reader) VALUES ($1, 0, 0)
ON CONFLICT (name) DO UPDATE SET changed_at = clock_timestamp()
WHERE turn.changed_at <= clock_timestamp() - $2::float8 * interval '1 millisecond'`
    return (await driver.run(driver.pool, sql, [name, interval])).count === 1
  },

  async inTransaction(driver, handle) {
    try {
      // Fails outside of a transaction, on every client, whatever status it hides.
      await driver.run(handle, 'SAVEPOINT ackord_append', [])
      await driver.run(handle, 'RELEASE SAVEPOINT ackord_append', [])
      return true
    } catch (error) {
      if (sqlStateOf(error) === '25P01') return false
      throw error
    }
  },
}
