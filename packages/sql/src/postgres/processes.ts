import type { ProcessChange, ProcessKey } from '@ackord/outbox'
import type { ProcessStatements, StoreDialect } from '../contract/store-dialect.ts'
import { ageOf, instant } from './sql-text.ts'

/** One statement per call. */
export const postgresProcesses: StoreDialect['processes'] = (table): ProcessStatements => ({
  async load(run, { process, id }) {
    return (await run(`SELECT ${stored} FROM ${table} WHERE process = $1::text AND id = $2::text FOR UPDATE`, [process, id])).rows[0]
  },

  async insert(run, key, change) {
    return (await run(insertSql(table), [...keyOf(key), ...contentsOf(change)])).count === 1
  },

  async update(run, key, change) {
    return (await run(updateSql(table, change.begins), [...keyOf(key), ...contentsOf(change)])).count === 1
  },

  async get(run, { process, id }) {
    return (await run(`SELECT ${listed} FROM ${table} WHERE process = $1::text AND id = $2::text`, [process, id])).rows[0]
  },

  async list(run, { process, after, limit }) {
    const sql = `SELECT ${listed} FROM ${table}
WHERE ($1::text IS NULL OR process = $1::text) AND (process, id) > ($2::text, $3::text) ORDER BY process, id LIMIT $4`
    return (await run(sql, [process ?? null, after?.process ?? process ?? '', after?.id ?? '', limit])).rows
  },

  async end(run, { process, id }, keep) {
    const sql = `UPDATE ${table} SET version = version + 1, timeouts = '{}', changed_at = clock_timestamp(), expires_at = ${expiresAt('$3')}
WHERE process = $1::text AND id = $2::text AND expires_at IS NULL`
    return (await run(sql, [process, id, keep])).count === 1
  },
})

export const cleanProcesses: StoreDialect['cleanProcesses'] = async (driver, table, limit) => {
  const sql = `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${table} WHERE expires_at <= (SELECT clock_timestamp()) ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))`
  return (await driver.run(driver.pool, sql, [limit])).count
}

const stored = `version, state, state_version, timeouts,
  CASE WHEN expires_at IS NULL THEN 'running' WHEN expires_at > clock_timestamp() THEN 'finished' ELSE 'forgotten' END AS phase`

const listed = `process, id, ${stored}, ${instant('started_at')} AS started_at, ${instant('changed_at')} AS changed_at,
  ${instant('expires_at')} AS expires_at, ${ageOf('changed_at')} AS idle`

/** A parameter in milliseconds as an instant from now; null for null. */
function expiresAt(parameter: string): string {
  return `clock_timestamp() + ${parameter}::float8 * interval '1 millisecond'`
}

function keyOf({ process, id }: ProcessKey): readonly unknown[] {
  return [process, id]
}

function contentsOf({ version, state, stateVersion, timeouts, keep }: ProcessChange): readonly unknown[] {
  return [version, state, stateVersion, JSON.stringify(timeouts), keep ?? null]
}

/** $1 process, $2 id, $3 version, $4 state, $5 version of the state, $6 timeouts, $7 milliseconds to keep it. Waits for a transaction that inserts the same. */
function insertSql(table: string): string {
  return `INSERT INTO ${table} (process, id, version, state, state_version, timeouts, started_at, changed_at, expires_at)
VALUES ($1::text, $2::text, $3::bigint, $4::text, $5::integer, $6::text, clock_timestamp(), clock_timestamp(), ${expiresAt('$7')})
ON CONFLICT DO NOTHING`
}

/** The same parameters. */
function updateSql(table: string, begins: boolean): string {
  return `UPDATE ${table} SET version = $3::bigint, state = $4::text, state_version = $5::integer, timeouts = $6::text,
  ${begins ? 'started_at = clock_timestamp(), ' : ''}changed_at = clock_timestamp(), expires_at = ${expiresAt('$7')}
WHERE process = $1::text AND id = $2::text AND version = $3::bigint - 1`
}
