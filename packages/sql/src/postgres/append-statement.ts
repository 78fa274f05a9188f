import type { RunStatement } from '../driver.ts'
import type { OutboxRow } from '../outbox-row.ts'

/** The protocol numbers parameters with 16 bits; a row has nine of them at most. */
const rowsPerStatement = 5000

/** Inserts all rows, in their order: the identity is taken row by row. More than 5000 take more than one statement. */
export async function append(run: RunStatement, table: string, rows: readonly OutboxRow[]): Promise<void> {
  for (let start = 0; start < rows.length; start += rowsPerStatement) {
    const { sql, parameters } = appendStatement(table, rows.slice(start, start + rowsPerStatement))
    await run(sql, parameters)
  }
}

function appendStatement(table: string, rows: readonly OutboxRow[]): { readonly sql: string; readonly parameters: readonly unknown[] } {
  const parameters: unknown[] = []
  const next = (value: unknown) => `$${parameters.push(value)}`
  const values = rows.map((row) => {
    const columns = [
      next(row.destination),
      next(row.id),
      next(row.type),
      next(row.contentType),
      next(row.orderingKey),
      `${next(row.partition)}::smallint`,
      `${next(row.data)}::bytea`,
      next(row.attributes),
    ]
    const available = row.delay > 0 ? `clock_timestamp() + ${next(row.delay)}::float8 * interval '1 millisecond'` : 'clock_timestamp()'
    return `('${row.delay > 0 ? 'waiting' : 'ready'}', ${columns.join(', ')}, ${available})`
  })
  const sql = `INSERT INTO ${table} (state, destination, id, type, content_type, ordering_key, partition, data, attributes, available_at)
VALUES ${values.join(', ')}`
  return { sql, parameters }
}
