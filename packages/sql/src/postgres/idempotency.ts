import type { IdempotencyKey } from '@ackord/outbox'
import { type IdempotencyStatements, keepAbandoned, type NewIdempotencyClaim, type StoreDialect } from '../contract/store-dialect.ts'

/** One statement per call. */
export const postgresIdempotency: StoreDialect['idempotency'] = (driver, table): IdempotencyStatements => {
  const run = (sql: string, parameters: readonly unknown[]) => driver.run(driver.pool, sql, parameters)
  return {
    async read({ scope, key }) {
      return (await run(readSql(table), [scope, key])).rows[0]
    },

    async insert(key, claim) {
      return (await run(insertSql(table), claimParameters(key, claim))).count === 1
    },

    async replace(key, claim, token) {
      return (await run(replaceSql(table), [...claimParameters(key, claim), token])).count === 1
    },

    async release({ scope, key }, token) {
      await run(releaseSql(table), [scope, key, token])
    },

    async deleteExpired(limit) {
      return (await run(deleteExpiredSql(table), [limit])).count
    },
  }
}

export const answerStatement: StoreDialect['answer'] = (table) => {
  const sql = `UPDATE ${table} SET status = $4::smallint, headers = $5::text, body = $6::bytea,
  expires_at = clock_timestamp() + $7::float8 * interval '1 millisecond'
WHERE scope = $1::text AND request_key = $2::text AND token = $3::text AND status IS NULL`
  return ({ scope, key }, token, { status, headers, body, retention }) => ({
    sql,
    parameters: [scope, key, token, status, headers, body, retention],
    prepare: true,
  })
}

function claimParameters({ scope, key }: IdempotencyKey, { fingerprint, token, lease }: NewIdempotencyClaim): readonly unknown[] {
  return [scope, key, fingerprint, token, lease, lease + keepAbandoned]
}

function readSql(table: string): string {
  return `SELECT fingerprint, token, status, headers, body AS data, date_part('epoch', lease_until - clock_timestamp()) * 1000 AS remaining,
  CASE WHEN expires_at <= clock_timestamp() THEN 1 ELSE 0 END AS expired
FROM ${table} WHERE scope = $1::text AND request_key = $2::text`
}

const [leaseUntil, expiresAt] = ['$5', '$6'].map((milliseconds) => `clock_timestamp() + ${milliseconds}::float8 * interval '1 millisecond'`)

/** $1 scope, $2 key, $3 fingerprint, $4 token, $5 lease, $6 milliseconds until the row expires. Waits at most for another claim. */
function insertSql(table: string): string {
  return `INSERT INTO ${table} (scope, request_key, fingerprint, token, lease_until, expires_at)
VALUES ($1::text, $2::text, $3::text, $4::text, ${leaseUntil}, ${expiresAt}) ON CONFLICT DO NOTHING`
}

/** The same, and $7 the token of the row. A row that its request is about to commit is locked, and is skipped. */
function replaceSql(table: string): string {
  return `UPDATE ${table} SET fingerprint = $3::text, token = $4::text, lease_until = ${leaseUntil}, expires_at = ${expiresAt},
  status = NULL, headers = NULL, body = NULL
WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${table}
  WHERE scope = $1::text AND request_key = $2::text AND token = $7::text AND (status IS NULL OR expires_at <= clock_timestamp())
  FOR UPDATE SKIP LOCKED))`
}

/** $1 scope, $2 key, $3 token. After a lost connection the server may still hold the lock of the transaction on it. */
function releaseSql(table: string): string {
  return `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${table} WHERE scope = $1::text AND request_key = $2::text AND token = $3::text AND status IS NULL
  FOR UPDATE SKIP LOCKED))`
}

/** $1 limit. */
function deleteExpiredSql(table: string): string {
  return `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${table} WHERE expires_at <= (SELECT clock_timestamp()) ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))`
}
