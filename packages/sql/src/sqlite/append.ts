import type { AppendTarget } from '../contract/dialect.ts'
import type { Statement } from '../contract/driver.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import { now } from './sql-text.ts'

/** A row has ten parameters, and the lowest limit that SQLite is compiled with is 999. */
const rowsPerStatement = 99

/** For up to this many rows, the text is built once and prepared: a connection should not accumulate dozens of prepared statements. */
const commonRows = 4

/** Inserts all rows in order. More than 99 need more than one statement. */
export function appender({ outbox: table }: AppendTarget): (rows: readonly OutboxRow[]) => readonly Statement[] {
  const texts = new Map<number, string>()

  function textOf(rows: number): string {
    let sql = texts.get(rows)
    if (sql === undefined) {
      sql = appendSql(table, rows)
      texts.set(rows, sql)
    }
    return sql
  }

  function statementOf(rows: readonly OutboxRow[]): Statement {
    const parameters: unknown[] = []
    for (const row of rows) {
      const { destination, id, type, contentType, orderingKey, partition, data, attributes, delay } = row
      const state = delay > 0 ? 'waiting' : 'ready'
      parameters.push(state, destination, id, type, contentType, orderingKey, partition, data, attributes, Math.ceil(delay))
    }
    return { sql: textOf(rows.length), parameters, prepare: rows.length <= commonRows }
  }

  return function append(rows) {
    const statements: Statement[] = []
    for (let start = 0; start < rows.length; start += rowsPerStatement) {
      statements.push(statementOf(rows.slice(start, start + rowsPerStatement)))
    }
    return statements
  }
}

function appendSql(table: string, rows: number): string {
  // node:sqlite of Node 22 binds some empty byte arrays as NULL.
  const values = Array.from({ length: rows }, () => `(?, ?, ?, ?, ?, ?, ?, coalesce(?, zeroblob(0)), ?, ${now} + ?)`)
  return `INSERT INTO ${table} (state, destination, id, type, content_type, ordering_key, partition, data, attributes, available_at)
VALUES ${values.join(', ')}`
}
