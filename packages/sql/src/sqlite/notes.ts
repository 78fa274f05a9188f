import { rootContext } from '@ackord/core'
import type { NoteStatements, StoreDialect } from '../contract/store-dialect.ts'
import { now } from './sql-text.ts'

/** One transaction per call, of small statements: in process there is no round trip to save. */
export const sqliteNotes: StoreDialect['notes'] = (driver, table): NoteStatements => {
  // REPLACE gives a note a new rowid: the order of notes that were written in the same millisecond.
  const putting = `REPLACE INTO ${table} (kind, name, value, written_at) SELECT ?1, value ->> 0, value ->> 1, ${now} FROM json_each(?2)`
  return {
    async put(kind, notes, keep) {
      const pairs = notes.map(({ name, value }) => [name, value])
      await driver.transaction(
        [],
        async ({ run }) => {
          await run(putting, [kind, JSON.stringify(pairs)])
          await run(`DELETE FROM ${table} WHERE kind = ? AND written_at < ${now} - ?`, [kind, keep])
        },
        rootContext().signal,
      )
    },

    async read(queries) {
      const sql = queries.map(({ maxAge }) => `SELECT * FROM (${readSql(table, maxAge !== undefined)})`).join('\nUNION ALL\n')
      const parameters = queries.flatMap(({ kind, limit, maxAge }) => (maxAge === undefined ? [kind, limit] : [kind, maxAge, limit]))
      return (await driver.run(driver.pool, sql, parameters)).rows
    },

    async delete(kind, name) {
      return (await driver.run(driver.pool, `DELETE FROM ${table} WHERE kind = ? AND name = ?`, [kind, name])).count === 1
    },
  }
}

/** The latest notes first. Parameters: the kind, with `aged` the maximum age in milliseconds, and the limit. */
function readSql(table: string, aged: boolean): string {
  return `SELECT kind, name, value, written_at AS at, ${now} - written_at AS age FROM ${table}
WHERE kind = ? ${aged ? `AND written_at >= ${now} - ?` : ''} ORDER BY written_at DESC, rowid DESC LIMIT ?`
}
