import { rootContext } from '@ackord/core'
import type { ClaimOptions } from '@ackord/outbox'
import type { Session, Statement } from '../contract/driver.ts'
import type { ClaimRowsOptions, ClaimStatements, StorePort } from '../contract/store-dialect.ts'
import { inAnyOrder, type RowKey, withinBytes } from '../records/claim-bytes.ts'
import { type ClaimedRowKey, settlesFailures } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'
import { byLease, releaseSql, renewSql, settlement } from './settle.ts'
import { now } from './sql-text.ts'

/** One transaction per call, of small statements: in process there is no round trip to save. */
export function sqliteClaims({ driver, table, retain, keepsFailures }: StorePort): ClaimStatements {
  const alone = <R>(work: (session: Session<unknown>) => Promise<R>) => driver.transaction([], work, rootContext().signal)

  /** Runs a statement per row, and returns the seqs of those that changed a row. */
  function each<Claimed extends ClaimedRowKey>(
    rows: readonly Claimed[],
    statementOf: (row: Claimed) => Statement,
  ): Promise<ReadonlySet<string>> {
    return alone(async (session) => {
      const changed = new Set<string>()
      for (const row of rows) {
        if ((await session.change({ ...statementOf(row), prepare: true })) === 1) changed.add(row.seq)
      }
      return changed
    })
  }

  const renewing = renewSql(table)
  const releasing = releaseSql(table)
  const settling = settlement(table, retain, byLease)
  return {
    claim: (options) => alone((session) => claim(session, table, options)),
    contents: (keys) => alone((session) => readContents(session, table, keys)),
    renew: (rows, lease) => each(rows, ({ seq, token }) => ({ sql: renewing, parameters: [Math.ceil(lease), seq, token] })),
    async release(rows) {
      await each(rows, ({ seq, token }) => ({ sql: releasing, parameters: [seq, token] }))
    },
    async settle(outcomes) {
      const failures = await settlesFailures(outcomes, keepsFailures)
      return await each(outcomes, ({ seq, token, outcome }) => settling(outcome, [seq, token], failures))
    },
  }
}

interface Picked {
  readonly seq: unknown
  readonly bytes: number
  /** Its number among the rows of its state and destination. */
  readonly turn: number
}

/** Retries come first, as they are older, but at most half: a wave of retries must not block new records. */
async function claim({ run }: Session<unknown>, table: string, options: ClaimRowsOptions): Promise<readonly Row[]> {
  const { limit, lease, token, retried } = options
  const destinations = await destinationsOf(run, table, options)
  const quota = options.quota ?? Math.ceil(limit / Math.max(1, new Set([...destinations.ready, ...destinations.waiting]).size))

  async function pick(state: PendingState, max: number): Promise<readonly Picked[]> {
    const sql = pickSql(table, state, retried)
    const picked: Picked[] = []
    for (const destination of destinations[state]) {
      const left = Math.min(quota, max - picked.length)
      if (left <= 0) break
      for (const [turn, { seq, bytes }] of (await run(sql, [destination, left])).rows.entries())
        picked.push({ seq, bytes: Number(bytes), turn })
    }
    return picked
  }

  const waiting = await pick('waiting', options.quota === undefined && retried === undefined ? Math.ceil(limit / 2) : limit)
  // A ready row that was leased before has not failed: the relay that leased it is gone.
  const ready = retried === 'only' ? [] : await pick('ready', limit - waiting.length)
  // Takes one row of each state and destination in turn, so that large rows of one leave room for the others.
  const picked = [...inAnyOrder(waiting, ready, token)].sort((one, other) => one.turn - other.turn)
  const taken = withinBytes(picked, options, ({ bytes }) => bytes)
  if (taken.length === 0) return []
  const seqs = taken.map(({ seq }) => seq)
  const { rows } = await run(leaseSql(table), [token, Math.ceil(lease), JSON.stringify(seqs), options.maxBytes ?? null, quota])
  return rows
}

export async function readContents({ run }: Session<unknown>, table: string, keys: readonly RowKey[]): Promise<readonly Row[]> {
  return (await run(contentsSql(table), [JSON.stringify(keys.map(({ seq }) => seq))])).rows
}

type Places = Readonly<Record<PendingState, readonly unknown[]>>

/** In random order, because the last of many destinations would starve otherwise. */
async function destinationsOf(
  run: Session<unknown>['run'],
  table: string,
  { destinations, except = [] }: ClaimRowsOptions,
): Promise<Places> {
  const wanted = `SELECT DISTINCT destination FROM (%) WHERE destination NOT IN (SELECT value FROM json_each(?)) ORDER BY random()`
  const find = async (source: string, parameters: readonly unknown[]) => {
    // A function: in a replacement string `$&` and similar patterns have a meaning, and a table may have such a name.
    const { rows } = await run(
      wanted.replace('%', () => source),
      [...parameters, JSON.stringify(except)],
    )
    return rows.map(({ destination }) => destination)
  }
  if (destinations !== undefined) {
    const named = await find('SELECT value AS destination FROM json_each(?)', [JSON.stringify(destinations)])
    return { ready: named, waiting: named }
  }
  return { ready: await find(destinationsSql(table, 'ready'), []), waiting: await find(destinationsSql(table, 'waiting'), []) }
}

/** The size of the contents of a row. */
export const bytes = 'length(data) + length(CAST(attributes AS BLOB))'

export type PendingState = 'ready' | 'waiting'

/** The destinations that have rows in a state, found by stepping from one to the next in the index. */
export function destinationsSql(table: string, state: PendingState | 'parked'): string {
  return `WITH RECURSIVE destinations(destination) AS (
  SELECT * FROM (SELECT destination FROM ${table} WHERE state = '${state}' ORDER BY destination LIMIT 1)
  UNION ALL
  SELECT (SELECT o.destination FROM ${table} AS o WHERE o.state = '${state}' AND o.destination > before.destination ORDER BY o.destination LIMIT 1)
  FROM destinations AS before WHERE before.destination IS NOT NULL
)
SELECT destination FROM destinations WHERE destination IS NOT NULL`
}

/** The seqs and sizes of claimable rows of a destination, oldest first. Destination, limit. SQLite knows the length of a blob without reading it. */
export function pickSql(table: string, state: PendingState, retried: ClaimOptions['retried']): string {
  const due = state === 'waiting' ? `AND available_at <= ${now}` : ''
  const failed = state === 'waiting' && retried !== undefined ? `AND attempts ${retried === 'only' ? '>' : '='} 0` : ''
  return `SELECT CAST(seq AS TEXT) AS seq, ${bytes} AS bytes FROM ${table}
WHERE state = '${state}' AND destination = ? ${due} ${failed} AND (lease_until IS NULL OR lease_until <= ${now})
ORDER BY ${state === 'waiting' ? 'available_at, ' : ''}${table}.seq LIMIT ?`
}

/** Leases rows. Token, milliseconds, seqs as JSON, the maximum size of data to read inline, or null, quota. Returns the rows as they are now. */
export function leaseSql(table: string): string {
  return `UPDATE ${table} SET attempts = attempts + 1, lease_token = ?, lease_until = ${now} + ?
WHERE seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?))
RETURNING CAST(seq AS TEXT) AS seq, state, destination, id, type, iif(length(data) <= ifnull(?, length(data)), data, NULL) AS data, attributes, attempts, created_at,
  ${now} - created_at AS age, ? AS quota`
}

/** The contents of rows. Seqs as JSON. */
function contentsSql(table: string): string {
  return `SELECT CAST(seq AS TEXT) AS seq, data, attributes FROM ${table} WHERE seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?))`
}
