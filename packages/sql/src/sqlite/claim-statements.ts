import type { ClaimOptions } from '@ackord/outbox'
import { now } from './clock.ts'

export type PendingState = 'ready' | 'waiting'

/** The destinations that have rows in a state, found by jumping from one to the next in the index. */
export function destinationsSql(table: string, state: PendingState): string {
  return `WITH RECURSIVE places(destination) AS (
  SELECT * FROM (SELECT destination FROM ${table} WHERE state = '${state}' ORDER BY destination LIMIT 1)
  UNION ALL
  SELECT (SELECT o.destination FROM ${table} AS o WHERE o.state = '${state}' AND o.destination > before.destination ORDER BY o.destination LIMIT 1)
  FROM places AS before WHERE before.destination IS NOT NULL
)
SELECT destination FROM places WHERE destination IS NOT NULL`
}

/** The seqs of claimable rows of a destination, oldest first. Destination, limit. */
export function pickSql(table: string, state: PendingState, retried: ClaimOptions['retried']): string {
  const due = state === 'waiting' ? `AND available_at <= ${now}` : ''
  const failed = state === 'waiting' && retried !== undefined ? `AND attempts ${retried === 'only' ? '>' : '='} 0` : ''
  return `SELECT CAST(seq AS TEXT) AS seq FROM ${table}
WHERE state = '${state}' AND destination = ? ${due} ${failed} AND (lease_until IS NULL OR lease_until <= ${now})
ORDER BY ${state === 'waiting' ? 'available_at, ' : ''}${table}.seq LIMIT ?`
}

/** Leases rows. Token, milliseconds, seqs as JSON, quota. Gives the rows as they are now. */
export function leaseSql(table: string): string {
  return `UPDATE ${table} SET attempts = attempts + 1, lease_token = ?, lease_until = ${now} + ?
WHERE seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?))
RETURNING CAST(seq AS TEXT) AS seq, state, destination, id, type, data, attributes, attempts, created_at, ? AS quota`
}
