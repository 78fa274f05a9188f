import { createHash } from 'node:crypto'
import type { AppendTarget } from '../contract/dialect.ts'
import type { Statement } from '../contract/driver.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import type { InsertStatement } from './inbox.ts'

/** A prepared statement has at most 65,535 parameters; a row has ten. */
const rowsPerStatement = 5000

/**
 * The maximum size of one statement, unless a single row is larger: the server's limit is `max_allowed_packet`, and bytes may be sent as hexadecimal
 * digits.
 */
const bytesPerStatement = 1024 * 1024

/** For up to this many rows, the text is built once and prepared: a connection should not accumulate hundreds of prepared statements. */
const commonRows = 4

/**
 * Inserts all rows in order: the server numbers them row by row. Many or large rows need more than one statement, and rows with an ordered key need
 * one statement before.
 */
export function appender({ outbox: table }: AppendTarget): (rows: readonly OutboxRow[]) => readonly Statement[] {
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
const maxNameLength = 64

/** The lock table that belongs to an outbox, in the same schema. Both names are quoted. */
export function keyLocksOf(outbox: string): string {
  const [, schema = '', name = ''] = /^(`(?:[^`]|``)*`\.)?`((?:[^`]|``)*)`$/s.exec(outbox) ?? []
  const own = `${name}_locks`
  if (own.replaceAll('``', '`').length <= maxNameLength) return `${schema}\`${own}\``
  return `${schema}\`ackord_locks_${createHash('sha256').update(name).digest('hex').slice(0, 32)}\``
}

/**
 * Makes writers of the same key wait for each other until they commit. The lock is taken before a row gets its number, so that numbers follow the
 * order of commits. It is a row per partition, because nothing smaller exists for every key, and rows are locked in order, so that one call cannot
 * cause a deadlock between two transactions. The update changes nothing: it reads the current rows, regardless of the snapshot of the transaction,
 * and returns none.
 */
function lockKeys(outbox: string, rows: readonly OutboxRow[]): readonly Statement[] {
  const partitions = new Set(rows.filter(({ ordered }) => ordered).map(({ partition }) => partition))
  if (partitions.size === 0) return []
  const listed = [...partitions].sort((one, other) => one - other).join(', ')
  return [{ sql: `UPDATE ${keyLocksOf(outbox)} SET held = held WHERE \`partition\` IN (${listed}) ORDER BY \`partition\`` }]
}
