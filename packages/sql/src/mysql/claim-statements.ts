import type { ClaimOptions } from '@ackord/outbox'
import { claimedColumns, fromNow } from './outbox-rows.ts'
import type { Place } from './places.ts'
import { keysSql, type RowKey } from './row-keys.ts'
import type { SqlPart } from './sql-part.ts'

/**
 * The claimable rows of a place, oldest first. Locks what it gives, until the end of the transaction, and skips what is locked. The index
 * is named and has the order, so that no more is read and locked than is given, whatever the optimizer thinks of the table.
 */
export function claimableSql(table: string, { state, destination }: Place, quota: number, retried: ClaimOptions['retried']): SqlPart {
  const waiting = state === 'waiting'
  const due = waiting ? 'AND o.available_at <= UTC_TIMESTAMP(6)' : ''
  // A ready row that was leased before has not failed: whoever had it is gone.
  const failed = waiting && retried !== undefined ? `AND o.attempts ${retried === 'only' ? '>' : '='} 0` : ''
  return {
    sql: `SELECT ${claimedColumns} FROM ${table} AS o FORCE INDEX (${waiting ? 'due' : 'PRIMARY'})
WHERE o.state = '${waiting ? 'waiting' : 'ready'}' AND o.destination = ? ${due} ${failed}
  AND (o.lease_until IS NULL OR o.lease_until <= UTC_TIMESTAMP(6))
ORDER BY ${waiting ? 'o.available_at, o.seq' : 'o.seq'} LIMIT ${quota} FOR UPDATE SKIP LOCKED`,
    parameters: [destination],
  }
}

/** Leases rows that are locked, with the attempt counted. */
export function leaseSql(table: string, keys: readonly RowKey[], lease: number, token: string): SqlPart {
  const { sql, parameters } = keysSql(keys)
  return {
    sql: `UPDATE ${table} AS o FORCE INDEX (PRIMARY)
SET o.attempts = o.attempts + 1, o.lease_token = ?, o.lease_until = ${fromNow(lease)}
WHERE ${sql}`,
    parameters: [token, ...parameters],
  }
}
