import type { StoreDialect } from '../store-dialect.ts'
import { now } from './clock.ts'
import { cleanInboxSql } from './inbox-statements.ts'
import { sqliteAdministration } from './sqlite-administration.ts'
import { sqliteClaims } from './sqlite-claims.ts'
import { sqliteOwnership } from './sqlite-ownership.ts'
import { sqliteSchema } from './sqlite-schema.ts'

export const sqliteStore: StoreDialect = {
  schema: sqliteSchema,
  claims: sqliteClaims,
  ownership: sqliteOwnership,
  administration: sqliteAdministration,

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
