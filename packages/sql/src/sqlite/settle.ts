import type { Outcome } from '@ackord/outbox'
import type { Statement } from '../contract/driver.ts'
import { now } from './sql-text.ts'

/** The fence of a lease. Seq, token. */
const leased = `seq = CAST(? AS INTEGER) AND lease_token = ? AND lease_until > ${now}`

/** What a row must be, to be what was claimed, and what counts the attempt. Its parameters come last. */
export interface HeldSql {
  readonly where: string
  readonly counted: string
}

/** By a lease, which counts when it is taken. Seq, token. */
export const byLease: HeldSql = { where: leased, counted: '' }

/** By the owner of the partition, who has shown that it is: only the place is looked at. Seq, state, destination. */
export const byOwner: HeldSql = {
  where: 'seq = CAST(? AS INTEGER) AND state = ? AND destination = ?',
  counted: 'attempts = attempts + 1, ',
}

/** Extends a lease. Milliseconds, seq, token. */
export function renewSql(table: string): string {
  return `UPDATE ${table} SET lease_until = ${now} + ? WHERE ${leased}`
}

/** Gives a lease back, with the attempt. Seq, token. */
export function releaseSql(table: string): string {
  return `UPDATE ${table} SET lease_token = NULL, lease_until = NULL, attempts = attempts - 1 WHERE ${leased}`
}

/** What is published is deleted, or kept with `retain`. What it is held by. */
export function publishedSql(table: string, retain: boolean, { where }: HeldSql): string {
  if (!retain) return `DELETE FROM ${table} WHERE ${where}`
  return `UPDATE ${table} SET state = 'published', published_at = ${now}, lease_token = NULL, lease_until = NULL WHERE ${where}`
}

/** Milliseconds until the next attempt, error, what it is held by. */
function failedSql(table: string, { where, counted }: HeldSql): string {
  return `UPDATE ${table} SET ${counted}state = 'waiting', available_at = ${now} + ?, last_error = ?, lease_token = NULL, lease_until = NULL
WHERE ${where}`
}

/** Error, what it is held by. */
function parkedSql(table: string, { where, counted }: HeldSql): string {
  return `UPDATE ${table} SET ${counted}state = 'parked', parked_at = ${now}, last_error = ?, lease_token = NULL, lease_until = NULL
WHERE ${where}`
}

/** The statement of an outcome, with the parameters of what it is held by. */
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
