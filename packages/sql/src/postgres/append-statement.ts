import type { Statement } from '../driver.ts'
import type { OutboxRow } from '../outbox-row.ts'

/** The protocol numbers parameters with 16 bits; a row has nine of them at most. */
const rowsPerStatement = 5000

/** A text is made once for each of these numbers of rows, and prepared: a connection should not gather hundreds of them. */
const commonRows = 4

/** Inserts all rows, in their order: the identity is taken row by row. More than 5000 take more than one statement. */
export function appender(table: string): (rows: readonly OutboxRow[]) => readonly Statement[] {
  const texts = new Map<number, string>()

  function statementOf(rows: readonly OutboxRow[]): Statement {
    const parameters: unknown[] = []
    for (const row of rows) {
      const { destination, id, type, contentType, orderingKey, partition, data, attributes, delay } = row
      parameters.push(destination, id, type, contentType, orderingKey, partition, data, attributes, delay)
    }
    if (rows.length > commonRows) return { sql: appendSql(table, rows.length), parameters }
    let sql = texts.get(rows.length)
    if (sql === undefined) {
      sql = appendSql(table, rows.length)
      texts.set(rows.length, sql)
    }
    return { sql, parameters, prepare: true }
  }

  return function append(rows) {
    if (rows.length <= rowsPerStatement) return [statementOf(rows)]
    const statements: Statement[] = []
    for (let start = 0; start < rows.length; start += rowsPerStatement) {
      statements.push(statementOf(rows.slice(start, start + rowsPerStatement)))
    }
    return statements
  }
}

/** Destination, id, type, content type, ordering key, partition, data, attributes. */
const columnTypes = ['text', 'text', 'text', 'text', 'text', 'smallint', 'bytea', 'text']

function appendSql(table: string, rows: number): string {
  let count = 0
  const next = (type: string) => {
    count += 1
    return `$${count}::${type}`
  }
  const values = Array.from({ length: rows }, () => {
    const columns = columnTypes.map(next)
    const delay = next('float8')
    return `(CASE WHEN ${delay} > 0 THEN 'waiting' ELSE 'ready' END, ${columns.join(', ')}, clock_timestamp() + ${delay} * interval '1 millisecond')`
  })
  return `INSERT INTO ${table} (state, destination, id, type, content_type, ordering_key, partition, data, attributes, available_at)
VALUES ${values.join(', ')}`
}
