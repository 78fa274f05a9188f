import type { NoteQuery } from '@ackord/outbox'
import type { RunStatement } from '../contract/driver.ts'
import type { NoteStatements, StoreDialect } from '../contract/store-dialect.ts'
import { fromNow, instant, readRow } from './sql-text.ts'
import { retryConflicts } from './transaction-control.ts'

/** Statement by statement, without a transaction: old notes may be deleted later than new ones are written. */
export const mysqlNotes: StoreDialect['notes'] = (driver, table): NoteStatements => {
  const run: RunStatement = (sql, parameters = []) => retryConflicts(() => driver.run(driver.pool, sql, parameters))
  return {
    async put(kind, notes, keep) {
      if (notes.length > 0) {
        const values = notes.map(() => '(?, ?, ?, UTC_TIMESTAMP(6))').join(', ')
        await run(
          `INSERT INTO ${table} (kind, name, value, written_at) VALUES ${values}
ON DUPLICATE KEY UPDATE value = VALUES(value), written_at = VALUES(written_at)`,
          notes.flatMap(({ name, value }) => [kind, name, value]),
        )
      }
      await run(`DELETE FROM ${table} WHERE kind = ? AND written_at < ${fromNow(-keep)}`, [kind])
    },

    async read(queries) {
      const sql = queries.map((query, index) => `SELECT * FROM (${readSql(table, query)}) AS q${index}`).join('\nUNION ALL\n')
      const { rows } = await run(
        sql,
        queries.map(({ kind }) => kind),
      )
      return rows.map(readRow)
    },

    async delete(kind, name) {
      return (await run(`DELETE FROM ${table} WHERE kind = ? AND name = ?`, [kind, name])).count === 1
    },
  }
}

/** The latest notes first. Its parameter is the kind. */
function readSql(table: string, { limit, maxAge }: NoteQuery): string {
  return `SELECT kind, name, CAST(value AS BINARY) AS value, ${instant('written_at')} AS \`at\`,
  TIMESTAMPDIFF(MICROSECOND, written_at, UTC_TIMESTAMP(6)) / 1000 AS age
FROM ${table} WHERE kind = ?${maxAge === undefined ? '' : ` AND written_at >= ${fromNow(-maxAge)}`} ORDER BY written_at DESC LIMIT ${limit}`
}
