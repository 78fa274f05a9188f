import { now } from './clock.ts'

/** The fence. Seq, token. */
const held = `seq = CAST(? AS INTEGER) AND lease_token = ? AND lease_until > ${now}`

/** Extends a lease. Milliseconds, seq, token. */
export function renewSql(table: string): string {
  return `UPDATE ${table} SET lease_until = ${now} + ? WHERE ${held}`
}

/** Gives a lease back, with the attempt. Seq, token. */
export function releaseSql(table: string): string {
  return `UPDATE ${table} SET lease_token = NULL, lease_until = NULL, attempts = attempts - 1 WHERE ${held}`
}

/** What is published is deleted, or kept with `retain`. Seq, token. */
export function publishedSql(table: string, retain: boolean): string {
  if (!retain) return `DELETE FROM ${table} WHERE ${held}`
  return `UPDATE ${table} SET state = 'published', published_at = ${now}, lease_token = NULL, lease_until = NULL WHERE ${held}`
}

/** Milliseconds until the next attempt, error, seq, token. */
export function failedSql(table: string): string {
  return `UPDATE ${table} SET state = 'waiting', available_at = ${now} + ?, last_error = ?, lease_token = NULL, lease_until = NULL WHERE ${held}`
}

/** Error, seq, token. */
export function parkedSql(table: string): string {
  return `UPDATE ${table} SET state = 'parked', parked_at = ${now}, last_error = ?, lease_token = NULL, lease_until = NULL WHERE ${held}`
}
