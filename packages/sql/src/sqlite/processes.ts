import type { ProcessChange } from '@ackord/outbox'
import type { ProcessStatements, StoreDialect } from '../contract/store-dialect.ts'
import { now } from './sql-text.ts'

/** One statement per call. The transaction has the one lock for writing since its inbox statement, so no other one can change a row that it has read. */
export const sqliteProcesses: StoreDialect['processes'] = (table): ProcessStatements => ({
  async load(run, { process, id }) {
    return (await run(`SELECT ${stored} FROM ${table} WHERE process = ? AND id = ?`, [process, id])).rows[0]
  },

  async insert(run, { process, id }, change) {
    const sql = `INSERT INTO ${table} (process, id, version, state, state_version, timeouts, expires_at, started_at, changed_at)
VALUES (?, ?, ?, ?, ?, ?, ${expiresAt}, ${now}, ${now}) ON CONFLICT DO NOTHING`
    return (await run(sql, [process, id, ...contentsOf(change)])).count === 1
  },

  async update(run, { process, id }, change) {
    const sql = `UPDATE ${table} SET version = ?, state = ?, state_version = ?, timeouts = ?, expires_at = ${expiresAt},
  ${change.begins ? `started_at = ${now}, ` : ''}changed_at = ${now}
WHERE process = ? AND id = ? AND version = ?`
    return (await run(sql, [...contentsOf(change), process, id, change.version - 1])).count === 1
  },

  async get(run, { process, id }) {
    return (await run(`SELECT ${listed} FROM ${table} WHERE process = ? AND id = ?`, [process, id])).rows[0]
  },

  async list(run, { process, after, limit }) {
    const byProcess = process === undefined ? '' : 'process = ? AND '
    const sql = `SELECT ${listed} FROM ${table} WHERE ${byProcess}(process, id) > (?, ?) ORDER BY process, id LIMIT ?`
    const parameters = [after?.process ?? process ?? '', after?.id ?? '', limit]
    return (await run(sql, process === undefined ? parameters : [process, ...parameters])).rows
  },

  async end(run, { process, id }, keep) {
    const sql = `UPDATE ${table} SET version = version + 1, timeouts = '{}', changed_at = ${now}, expires_at = ${expiresAt}
WHERE process = ? AND id = ? AND expires_at IS NULL`
    return (await run(sql, [keep, process, id])).count === 1
  },
})

export const cleanProcesses: StoreDialect['cleanProcesses'] = async (driver, table, limit) => {
  const sql = `DELETE FROM ${table} WHERE rowid IN (SELECT rowid FROM ${table} WHERE expires_at <= ${now} ORDER BY expires_at LIMIT ?)`
  return (await driver.run(driver.pool, sql, [limit])).count
}

const stored = `version, state, state_version, timeouts,
  CASE WHEN expires_at IS NULL THEN 'running' WHEN expires_at > ${now} THEN 'finished' ELSE 'forgotten' END AS phase`

const listed = `process, id, ${stored}, started_at, changed_at, expires_at, ${now} - changed_at AS idle`

/** A parameter in milliseconds as an instant from now; null for null. */
const expiresAt = `${now} + CAST(round(?) AS INTEGER)`

/** Version, state, version of the state, timeouts, milliseconds to keep it. */
function contentsOf({ version, state, stateVersion, timeouts, keep }: ProcessChange): readonly unknown[] {
  return [version, state, stateVersion, JSON.stringify(timeouts), keep ?? null]
}
