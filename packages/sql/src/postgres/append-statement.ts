import type { Statement } from '../driver.ts'
import type { OutboxRow } from '../outbox-row.ts'

/** The protocol numbers parameters with 16 bits; a row has nine of them at most. */
const mostRows = 5000

/** Numbers of rows whose statement is prepared: few, because each connection keeps a plan for each. */
const preparedRows = [32, 16, 8, 4, 3, 2, 1] as const

/**
 * Inserts all rows, in their order: the identity is taken row by row. Where statements are sent together it is several that are prepared,
 * because reading a text with hundreds of parameters is what costs the server most; elsewhere one, unless there are more than 5000.
 */
export function appender(
  table: string,
): (rows: readonly OutboxRow[], session: { readonly sendsTogether: boolean }) => readonly Statement[] {
  const texts = new Map<number, string>(preparedRows.map((rows) => [rows, appendSql(table, rows)]))

  function statementOf(rows: readonly OutboxRow[]): Statement {
    const parameters: unknown[] = []
    for (const row of rows) {
      const { destination, id, type, contentType, orderingKey, partition, data, attributes, delay } = row
      parameters.push(destination, id, type, contentType, orderingKey, partition, data, attributes, delay)
    }
    const prepared = texts.get(rows.length)
    return prepared === undefined ? { sql: appendSql(table, rows.length), parameters } : { sql: prepared, parameters, prepare: true }
  }

  return function append(rows, { sendsTogether }) {
    if (texts.has(rows.length)) return [statementOf(rows)]
    const statements: Statement[] = []
    for (let start = 0; start < rows.length; ) {
      const left = rows.length - start
      const count = sendsTogether ? (preparedRows.find((size) => size <= left) ?? left) : Math.min(left, mostRows)
      statements.push(statementOf(rows.slice(start, start + count)))
      start += count
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
