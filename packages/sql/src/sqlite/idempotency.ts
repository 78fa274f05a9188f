import { type IdempotencyStatements, keepAbandoned, type StoreDialect } from '../contract/store-dialect.ts'
import { now } from './sql-text.ts'

/** One statement per call. All but the read wait for the one writer of the file. */
export const sqliteIdempotency: StoreDialect['idempotency'] = (driver, table): IdempotencyStatements => {
  const run = (sql: string, parameters: readonly unknown[]) => driver.run(driver.pool, sql, parameters)
  const reading = `SELECT fingerprint, token, status, headers, body AS data, lease_until - ${now} AS remaining, expires_at <= ${now} AS expired
FROM ${table} WHERE scope = ? AND request_key = ?`
  const inserting = `INSERT INTO ${table} (scope, request_key, fingerprint, token, lease_until, expires_at)
VALUES (?, ?, ?, ?, ${fromNow}, ${fromNow}) ON CONFLICT DO NOTHING`
  const replacing = `UPDATE ${table} SET fingerprint = ?, token = ?, lease_until = ${fromNow}, expires_at = ${fromNow},
  status = NULL, headers = NULL, body = NULL
WHERE scope = ? AND request_key = ? AND token = ? AND (status IS NULL OR expires_at <= ${now})`
  return {
    async read({ scope, key }) {
      return (await run(reading, [scope, key])).rows[0]
    },

    async insert({ scope, key }, { fingerprint, token, lease }) {
      return (await run(inserting, [scope, key, fingerprint, token, lease, lease + keepAbandoned])).count === 1
    },

    async replace({ scope, key }, { fingerprint, token, lease }, former) {
      return (await run(replacing, [fingerprint, token, lease, lease + keepAbandoned, scope, key, former])).count === 1
    },

    async release({ scope, key }, token) {
      await run(`DELETE FROM ${table} WHERE scope = ? AND request_key = ? AND token = ? AND status IS NULL`, [scope, key, token])
    },

    async deleteExpired(limit) {
      const sql = `DELETE FROM ${table} WHERE rowid IN (SELECT rowid FROM ${table} WHERE expires_at <= ${now} ORDER BY expires_at LIMIT ?)`
      return (await run(sql, [limit])).count
    },
  }
}

export const answerStatement: StoreDialect['answer'] = (table) => {
  const sql = `UPDATE ${table} SET status = ?, headers = ?, body = ?, expires_at = ${fromNow}
WHERE scope = ? AND request_key = ? AND token = ? AND status IS NULL`
  return ({ scope, key }, token, { status, headers, body, retention }) => ({
    sql,
    parameters: [status, headers, body, retention, scope, key, token],
    prepare: true,
  })
}

/** A parameter in milliseconds as an instant from now. */
const fromNow = `${now} + CAST(round(?) AS INTEGER)`
