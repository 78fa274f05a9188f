import { maxHistoryLength, type Outcome } from '@ackord/outbox'
import type { Statement } from '../contract/driver.ts'
import { lineOf } from '../records/claimed-record.ts'
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

/** The error, with `failures` also the cause and the line of the history. */
export function failureSql(failures: boolean): string {
  const kept = `, cause = ?, history = substr(coalesce(history || char(10), '') || ${now} || ' ' || ?, -${maxHistoryLength})`
  return `last_error = ?${failures ? kept : ''}`
}

export function failureParameters(error: string, cause: string | undefined, failures: boolean): readonly unknown[] {
  return failures ? [error, cause ?? null, lineOf(error)] : [error]
}

/** Milliseconds until the next attempt, those of the failure, parameters of the condition. */
function failedSql(table: string, { where, counted }: HeldSql, failures: boolean): string {
  return `UPDATE ${table} SET ${counted}state = 'waiting', available_at = ${now} + ?, ${failureSql(failures)}, lease_token = NULL, lease_until = NULL
WHERE ${where}`
}

/** Those of the failure, parameters of the condition. */
function parkedSql(table: string, { where, counted }: HeldSql, failures: boolean): string {
  return `UPDATE ${table} SET ${counted}state = 'parked', parked_at = ${now}, ${failureSql(failures)}, lease_token = NULL, lease_until = NULL
WHERE ${where}`
}

/** The statement of an outcome, with the parameters of the condition. `failures`: whether cause and history are written too. */
export type Settlement = (outcome: Outcome, by: readonly unknown[], failures: boolean) => Statement

export function settlement(table: string, retain: boolean, held: HeldSql): Settlement {
  const published = publishedSql(table, retain, held)
  return function settle(outcome, by, failures) {
    if (outcome.result === 'published') return { sql: published, parameters: by, prepare: true }
    const { error, cause } = outcome
    const parameters = [...failureParameters(error, cause, failures), ...by]
    if (outcome.result === 'parked') return { sql: parkedSql(table, held, failures), parameters, prepare: true }
    return { sql: failedSql(table, held, failures), parameters: [Math.ceil(outcome.retryAfter), ...parameters], prepare: true }
  }
}
