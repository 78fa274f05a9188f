import type { Outcome } from '@ackord/outbox'
import type { Statement } from '../contract/driver.ts'
import { now } from './sql-text.ts'

/** The fence of a lease. Seq, token. */
const leased = `seq = CAST(? AS INTEGER) AND lease_token = ? AND lease_until > ${now}`

/** The condition that a row is still claimed, and the change that counts the attempt. Its parameters come last. */
export interface HeldSql {
  readonly where: string
  readonly counted: string
}

/** By lease, where the claim has counted the attempt. Seq, token. */
export const byLease: HeldSql = { where: leased, counted: '' }

/** By the owner of the partition, whose ownership was checked: only the key is compared. Seq, state, destination. */
export const byOwner: HeldSql = {
  where: 'seq = CAST(? AS INTEGER) AND state = ? AND destination = ?',
  counted: 'attempts = attempts + 1, ',
}

/** Extends a lease. Milliseconds, seq, token. */
export function renewSql(table: string): string {
  return `UPDATE ${table} SET lease_until = ${now} + ? WHERE ${leased}`
}

/** Releases a lease and uncounts the attempt. Seq, token. */
export function releaseSql(table: string): string {
  return `UPDATE ${table} SET lease_token = NULL, lease_until = NULL, attempts = attempts - 1 WHERE ${leased}`
}

/** Published rows are deleted, or kept with `retain`. Parameters of the condition. */
export function publishedSql(table: string, retain: boolean, { where }: HeldSql): string {
  if (!retain) return `DELETE FROM ${table} WHERE ${where}`
  return `UPDATE ${table} SET state = 'published', published_at = ${now}, lease_token = NULL, lease_until = NULL WHERE ${where}`
}

/** Milliseconds until the next attempt, error, parameters of the condition. */
function failedSql(table: string, { where, counted }: HeldSql): string {
  return `UPDATE ${table} SET ${counted}state = 'waiting', available_at = ${now} + ?, last_error = ?, lease_token = NULL, lease_until = NULL
WHERE ${where}`
}

/** Error, parameters of the condition. */
function parkedSql(table: string, { where, counted }: HeldSql): string {
  return `UPDATE ${table} SET ${counted}state = 'parked', parked_at = ${now}, last_error = ?, lease_token = NULL, lease_until = NULL
WHERE ${where}`
}

/** The statement of an outcome, with the parameters of the condition. */
export function settlement(table: string, retain: boolean, held: HeldSql): (outcome: Outcome, by: readonly unknown[]) => Statement {
  const published = publishedSql(table, retain, held)
  const failed = failedSql(table, held)
  const parked = parkedSql(table, held)
  return function settle(outcome, by) {
    switch (outcome.result) {
      case 'published':
        return { sql: published, parameters: by, prepare: true }
      case 'failed':
        return { sql: failed, parameters: [Math.ceil(outcome.retryAfter), outcome.error, ...by], prepare: true }
      case 'parked':
        return { sql: parked, parameters: [outcome.error, ...by], prepare: true }
    }
  }
}
