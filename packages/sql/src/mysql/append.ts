import { createHash } from 'node:crypto'
import type { Statement } from '../contract/driver.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import type { InsertStatement } from './inbox.ts'

/** A prepared statement has 65,535 parameters at most; a row has ten. */
const rowsPerStatement = 5000

/** What goes into one statement, unless one row is larger: the server takes `max_allowed_packet`, and bytes may be sent as hexadecimal digits. */
const bytesPerStatement = 1024 * 1024

/** A text is made once for each of these numbers of rows, and prepared: a connection should not gather hundreds of them. */
const commonRows = 4

/** Inserts all rows, in their order: numbers are given row by row. What is many or large takes more than one statement, and what has an ordered key one before. */
export function appender(table: string): (rows: readonly OutboxRow[]) => readonly Statement[] {
  const texts = Array.from({ length: commonRows + 1 }, (_, rows) => appendSql(table, rows))

  function statementOf(rows: readonly OutboxRow[]): InsertStatement {
    const parameters = rows.flatMap(({ destination, id, type, contentType, orderingKey, partition, data, attributes, delay }) => {
      const state = delay > 0 ? 'waiting' : 'ready'
      return [state, destination, id, type, contentType, orderingKey, partition, data, attributes, Math.round(delay * 1000)]
    })
    const prepared = texts[rows.length]
    return { sql: prepared ?? appendSql(table, rows.length), parameters, prepare: prepared !== undefined, rows: rows.length }
  }

  return (rows) => [...lockKeys(table, rows), ...portionsOf(rows).map(statementOf)]
}

function portionsOf(rows: readonly OutboxRow[]): readonly (readonly OutboxRow[])[] {
  const portions: OutboxRow[][] = []
  let bytes = 0
  for (const row of rows) {
    const size = row.data.byteLength + row.attributes.length + row.id.length + row.destination.length
    const last = portions.at(-1)
    if (last === undefined || last.length === rowsPerStatement || bytes + size > bytesPerStatement) {
      portions.push([row])
      bytes = size
    } else {
      last.push(row)
      bytes += size
    }
  }
  return portions
}

function appendSql(table: string, rows: number): string {
  const row = `(${'?, '.repeat(9)}UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)`
  return `INSERT INTO ${table}
(state, destination, id, type, content_type, ordering_key, \`partition\`, data, attributes, created_at, available_at)
VALUES ${Array.from({ length: rows }, () => row).join(', ')}`
}

/** In characters. */
const longestName = 64

/** The table of locks that belongs to an outbox, which is beside it. Both names are quoted. */
export function keyLocksOf(outbox: string): string {
  const [, schema = '', name = ''] = /^(`(?:[^`]|``)*`\.)?`((?:[^`]|``)*)`$/s.exec(outbox) ?? []
  const own = `${name}_locks`
  if (own.replaceAll('``', '`').length <= longestName) return `${schema}\`${own}\``
  return `${schema}\`ackord_locks_${createHash('sha256').update(name).digest('hex').slice(0, 32)}\``
}

/**
 * Makes writers of a key wait for each other until they commit: it comes before the number of a row is taken, so that numbers are in the order of the commits. A
 * row per partition is locked, as there is nothing smaller that is there for every key; in their order, so that no two transactions wait for each other in a
 * circle because of one call. An update that changes nothing: it looks at what is there now, whatever the transaction has seen, and gives no rows.
 */
function lockKeys(outbox: string, rows: readonly OutboxRow[]): readonly Statement[] {
  const partitions = new Set(rows.filter(({ ordered }) => ordered).map(({ partition }) => partition))
  if (partitions.size === 0) return []
  const listed = [...partitions].sort((one, other) => one - other).join(', ')
  return [{ sql: `UPDATE ${keyLocksOf(outbox)} SET held = held WHERE \`partition\` IN (${listed}) ORDER BY \`partition\`` }]
}
