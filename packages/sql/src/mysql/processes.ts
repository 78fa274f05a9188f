import type { ProcessChange } from '@ackord/outbox'
import type { ProcessStatements, StoreDialect } from '../contract/store-dialect.ts'
import { errorNumberOf } from './errors.ts'
import { instant, readRow } from './sql-text.ts'
import { storeTransaction } from './transaction-control.ts'

export const mysqlProcesses: StoreDialect['processes'] = (table): ProcessStatements => ({
  /** Two statements: a locking read of a row that does not exist would lock the gap in which others insert theirs. */
  async load(run, { process, id }) {
    const { rows: found } = await run(`SELECT 1 AS found FROM ${table} WHERE process = ? AND id = ?`, [process, id])
    if (found.length === 0) return undefined
    const [row] = (await run(`SELECT ${stored} FROM ${table} WHERE process = ? AND id = ? FOR UPDATE`, [process, id])).rows
    return row === undefined ? undefined : readRow(row)
  },

  async insert(run, { process, id }, change) {
    try {
      await run(
        `INSERT INTO ${table} (process, id, version, state, state_version, timeouts, expires_at, started_at, changed_at)
VALUES (?, ?, ?, ?, ?, ?, ${expiresAt}, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))`,
        [process, id, ...contentsOf(change)],
      )
      return true
    } catch (error) {
      if (errorNumberOf(error) === 1062) return false
      throw error
    }
  },

  async update(run, { process, id }, change) {
    const sql = `UPDATE ${table} SET version = ?, state = ?, state_version = ?, timeouts = ?, expires_at = ${expiresAt},
  ${change.begins ? 'started_at = UTC_TIMESTAMP(6), ' : ''}changed_at = UTC_TIMESTAMP(6)
WHERE process = ? AND id = ? AND version = ?`
    return (await run(sql, [...contentsOf(change), process, id, change.version - 1])).count === 1
  },

  async get(run, { process, id }) {
    const [row] = (await run(`SELECT ${listed} FROM ${table} WHERE process = ? AND id = ?`, [process, id])).rows
    return row === undefined ? undefined : readRow(row)
  },

  /** Not with a row constructor, which not every optimizer resolves with the index. */
  async list(run, { process, after, limit }) {
    const conditions: string[] = []
    const parameters: unknown[] = []
    if (process !== undefined) {
      conditions.push('process = ?')
      parameters.push(process)
    }
    if (after !== undefined) {
      conditions.push('process >= ? AND (process > ? OR id > ?)')
      parameters.push(after.process, after.process, after.id)
    }
    const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
    const { rows } = await run(`SELECT ${listed} FROM ${table} ${where} ORDER BY process, id LIMIT ${limit}`, parameters)
    return rows.map(readRow)
  },

  async end(run, { process, id }, keep) {
    const sql = `UPDATE ${table} SET version = version + 1, timeouts = '{}', changed_at = UTC_TIMESTAMP(6), expires_at = ${expiresAt}
WHERE process = ? AND id = ? AND expires_at IS NULL`
    return (await run(sql, [Math.round(keep * 1000), process, id])).count === 1
  },
})

export const cleanProcesses: StoreDialect['cleanProcesses'] = (driver, table, limit) =>
  storeTransaction(driver, async (run) => {
    const { rows } = await run(`SELECT process, id FROM ${table} FORCE INDEX (expiry) WHERE expires_at <= UTC_TIMESTAMP(6)
ORDER BY expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED`)
    if (rows.length === 0) return 0
    const keys = rows.map(() => '(p.process = ? AND p.id = ?)').join(' OR ')
    const parameters = rows.flatMap((row) => [row['process'], row['id']])
    return (await run(`DELETE p FROM ${table} AS p FORCE INDEX (PRIMARY) WHERE ${keys}`, parameters)).count
  })

/** As bytes where a character set could change them. Rows must be passed to `readRow`. */
const stored = `CAST(version AS CHAR) AS version, CAST(state AS BINARY) AS state, state_version, CAST(timeouts AS BINARY) AS timeouts,
  CASE WHEN expires_at IS NULL THEN 'running' WHEN expires_at > UTC_TIMESTAMP(6) THEN 'finished' ELSE 'forgotten' END AS phase`

const listed = `process, id, ${stored}, ${instant('started_at')} AS started_at, ${instant('changed_at')} AS changed_at,
  ${instant('expires_at')} AS expires_at, TIMESTAMPDIFF(MICROSECOND, changed_at, UTC_TIMESTAMP(6)) / 1000 AS idle`

/** A parameter in microseconds as an instant from now; null for null. */
const expiresAt = 'UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND'

/** Version, state, version of the state, timeouts, microseconds to keep it. */
function contentsOf({ version, state, stateVersion, timeouts, keep }: ProcessChange): readonly unknown[] {
  return [version, state, stateVersion, JSON.stringify(timeouts), keep === undefined ? null : Math.round(keep * 1000)]
}
