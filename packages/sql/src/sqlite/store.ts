import type { StoreDialect } from '../contract/store-dialect.ts'
import { cancelSql, sqliteAdministration } from './admin.ts'
import { sqliteClaims } from './claims.ts'
import { cleanInboxSql } from './inbox.ts'
import { sqliteOwnership } from './ordering/ownership.ts'
import { sqliteSchema } from './schema.ts'
import { now } from './sql-text.ts'

export const sqliteStore: StoreDialect = {
  schema: sqliteSchema,
  claims: sqliteClaims,
  ownership: sqliteOwnership,
  administration: sqliteAdministration,
  cancel: cancelSql,

  async cleanInbox(driver, table, { window, limit }) {
    const { count } = await driver.run(driver.pool, cleanInboxSql(table), [window, limit])
    return count
  },

  async takeTurn(driver, meta, { name, interval }) {
    const sql = `INSERT INTO ${meta} (name, version, oldest_reader) VALUES (?1, 0, 0)
ON CONFLICT (name) DO UPDATE SET changed_at = ${now} WHERE changed_at <= ${now} - ?2`
    return (await driver.run(driver.pool, sql, [name, interval])).count === 1
  },

  // The driver always knows.
  inTransaction: async () => false,
}
