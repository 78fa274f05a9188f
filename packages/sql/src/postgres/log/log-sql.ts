import { quoteLiteral } from '../sql-text.ts'

/** Parts of the statements of the log mode. */

const columns = ['destination', 'id', 'type', 'content_type', 'ordering_key', 'partition', 'data', 'attributes', 'created_at']

/** The columns that a record of the log and a row of the outbox table have in common. */
export function recordColumns(prefix = ''): string {
  return columns.map((column) => prefix + column).join(', ')
}

/** The last seq that was taken, by a transaction that need not be committed. As a floor, it must be evaluated before the transaction has its id. */
export function lastSeqSql(outbox: string): string {
  return `coalesce(pg_sequence_last_value(pg_get_serial_sequence(${quoteLiteral(outbox)}, 'seq')::regclass), 0)`
}

/** The leaf that is written now. */
export function writtenLeafSql(meta: string): string {
  return `(SELECT version::smallint FROM ${meta} WHERE name = 'log')`
}
