import type { StoreDialect } from '../store-dialect.ts'
import { cleanInboxSql } from './inbox-statements.ts'
import { postgresAdministration } from './postgres-administration.ts'
import { postgresClaims } from './postgres-claims.ts'
import { postgresOwnership } from './postgres-ownership.ts'
import { postgresSchema } from './postgres-schema.ts'
import { sqlStateOf } from './sql-state.ts'

export const postgresStore: StoreDialect = {
  schema: postgresSchema,
  claims: postgresClaims,
  ownership: postgresOwnership,
  administration: postgresAdministration,

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
      // Fails outside of a transaction, on every client, whatever it hides.
      await driver.run(handle, 'SAVEPOINT ackord_append', [])
      await driver.run(handle, 'RELEASE SAVEPOINT ackord_append', [])
      return true
    } catch (error) {
      if (sqlStateOf(error) === '25P01') return false
      throw error
    }
  },
}
