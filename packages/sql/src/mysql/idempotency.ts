import type { IdempotencyKey } from '@ackord/outbox'
import type { RunStatement } from '../contract/driver.ts'
import { type IdempotencyStatements, keepAbandoned, type StoreDialect } from '../contract/store-dialect.ts'
import { errorNumberOf } from './errors.ts'
import { fromNow, readRow } from './sql-text.ts'
import { retryConflicts, storeTransaction } from './transaction-control.ts'

/** Only a locking read skips locked rows, so that a change of an existing row is a short transaction. */
export const mysqlIdempotency: StoreDialect['idempotency'] = (driver, table): IdempotencyStatements => {
  const run: RunStatement = (sql, parameters = []) => retryConflicts(() => driver.run(driver.pool, sql, parameters))

  /** Locks the row of a key, if it has this token and meets the condition. Resolves to whether it did. */
  async function lock(inside: RunStatement, { scope, key }: IdempotencyKey, token: string, condition: string): Promise<boolean> {
    const sql = `SELECT 1 AS found FROM ${table} WHERE scope = ? AND request_key = ? AND token = ? AND ${condition} FOR UPDATE SKIP LOCKED`
    return (await inside(sql, [scope, key, token])).rows.length > 0
  }

  return {
    async read({ scope, key }) {
      const { rows } = await run(
        `SELECT fingerprint, token, status, CAST(headers AS BINARY) AS headers, body AS data,
  TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease_until) / 1000 AS remaining, IF(expires_at <= UTC_TIMESTAMP(6), 1, 0) AS expired
FROM ${table} WHERE scope = ? AND request_key = ?`,
        [scope, key],
      )
      const [row] = rows
      return row === undefined ? undefined : readRow(row)
    },

    async insert({ scope, key }, { fingerprint, token, lease }) {
      try {
        await run(
          `INSERT INTO ${table} (scope, request_key, fingerprint, token, lease_until, expires_at)
VALUES (?, ?, ?, ?, ${fromNow(lease)}, ${fromNow(lease + keepAbandoned)})`,
          [scope, key, fingerprint, token],
        )
        return true
      } catch (error) {
        if (errorNumberOf(error) === 1062) return false
        throw error
      }
    },

    replace: (key, { fingerprint, token, lease }, former) =>
      storeTransaction(driver, async (inside) => {
        if (!(await lock(inside, key, former, '(status IS NULL OR expires_at <= UTC_TIMESTAMP(6))'))) return false
        await inside(
          `UPDATE ${table} SET fingerprint = ?, token = ?, lease_until = ${fromNow(lease)}, expires_at = ${fromNow(lease + keepAbandoned)},
  status = NULL, headers = NULL, body = NULL WHERE scope = ? AND request_key = ?`,
          [fingerprint, token, key.scope, key.key],
        )
        return true
      }),

    release: (key, token) =>
      storeTransaction(driver, async (inside) => {
        if (!(await lock(inside, key, token, 'status IS NULL'))) return
        await inside(`DELETE FROM ${table} WHERE scope = ? AND request_key = ?`, [key.scope, key.key])
      }),

    deleteExpired: (limit) =>
      storeTransaction(driver, async (inside) => {
        const { rows } = await inside(`SELECT scope, request_key FROM ${table} FORCE INDEX (expiry) WHERE expires_at <= UTC_TIMESTAMP(6)
ORDER BY expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED`)
        if (rows.length === 0) return 0
        const keys = rows.map(() => '(i.scope = ? AND i.request_key = ?)').join(' OR ')
        const parameters = rows.flatMap((row) => [row['scope'], row['request_key']])
        return (await inside(`DELETE i FROM ${table} AS i FORCE INDEX (PRIMARY) WHERE ${keys}`, parameters)).count
      }),
  }
}

export const answerStatement: StoreDialect['answer'] = (table) => {
  const sql = `UPDATE ${table} SET status = ?, headers = ?, body = ?, expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
WHERE scope = ? AND request_key = ? AND token = ? AND status IS NULL`
  return ({ scope, key }, token, { status, headers, body, retention }) => ({
    sql,
    parameters: [status, headers, body, Math.round(retention * 1000), scope, key, token],
    prepare: true,
  })
}
