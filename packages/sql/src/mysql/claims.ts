import type { ClaimOptions } from '@ackord/outbox'
import type { RunStatement } from '../contract/driver.ts'
import type { ClaimRowsOptions, ClaimStatements, StorePort } from '../contract/store-dialect.ts'
import { ClaimWidth, inAnyOrder, inlineBytes, withinBytes } from '../records/claim-bytes.ts'
import { settlesFailures } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'
import { DestinationFinder, readEach, type StateAndDestination } from './destinations.ts'
import { contentsSql } from './ordering/owned-claim.ts'
import { applyOutcomes, heldSql, releaseSql, renewSql } from './settle.ts'
import { claimedColumns, fromNow, keyOf, keysSql, type RowKey, readRow, type SqlPart } from './sql-text.ts'
import { storeTransaction } from './transaction-control.ts'

/**
 * A claim takes six round trips: the destinations (one more for a new one), READ COMMITTED, START TRANSACTION, the rows, their leases, COMMIT; one
 * more if retries are due, and one for records of more than a few kilobytes. Settling takes five, renewing and releasing one.
 */
export function mysqlClaims({ driver, table, retain, keepsFailures }: StorePort): ClaimStatements {
  const run: RunStatement = (sql, parameters = []) => driver.run(driver.pool, sql, parameters)
  const finder = new DestinationFinder(table)
  const width = new ClaimWidth()

  /** Starts at a random position, taken from the token, because the last of many destinations would starve otherwise. */
  async function pairsOf({ destinations, except = [], token }: ClaimRowsOptions): Promise<readonly StateAndDestination[]> {
    const found = destinations === undefined ? await finder.find(run) : namedDestinations(destinations)
    const pairs = found.filter(({ destination }) => !except.includes(destination))
    const first = Number.parseInt(token.slice(0, 8), 16) % Math.max(1, pairs.length)
    return [...pairs.slice(first), ...pairs.slice(0, first)]
  }

  return {
    async claim(options) {
      const { lease, token, retried } = options
      const pairs = await pairsOf(options)
      if (pairs.length === 0) return []
      const limit = width.of(options.limit)
      const inline = inlineBytes(options.maxBytes, limit)
      const quota = options.quota ?? Math.ceil(limit / new Set(pairs.map(({ destination }) => destination)).size)
      // Retries come first, as they are older, but at most half: a wave of retries must not block new records.
      const share = retried === undefined && options.quota === undefined ? Math.ceil(limit / 2) : limit
      return await storeTransaction(driver, async (inside) => {
        const take = (state: string, max: number) =>
          readEach(inside, withState(state, pairs), max, (pair) => claimableSql(table, pair, Math.min(quota, max), { retried, inline }))
        const waiting = await take('waiting', share)
        const ready = retried === 'only' ? [] : await take('ready', limit - waiting.length)
        const found = inTurns(inAnyOrder(waiting, ready, token))
        const taken = withinBytes(found, options, (row) => Number(row['bytes']))
        width.record(found.length, taken.length)
        if (taken.length === 0) return []
        await send(inside, leaseSql(table, taken.map(keyOf), lease, token))
        return taken.map((row) => ({ ...row, attempts: Number(row['attempts']) + 1, quota }))
      })
    },

    contents: async (keys) => (await send(run, contentsSql(table, keys))).rows.map(readRow),

    async renew(claimed, lease) {
      const { count } = await send(run, renewSql(table, claimed, lease))
      if (count === claimed.length) return new Set(claimed.map(({ seq }) => seq))
      // Rows whose claim is still valid have kept their token.
      const { rows } = await send(run, heldSql(table, claimed, { lock: false }))
      return seqsOf(rows)
    },

    async release(claimed) {
      await send(run, releaseSql(table, claimed))
    },

    async settle(outcomes) {
      const failures = await settlesFailures(outcomes, keepsFailures)
      return await storeTransaction(driver, async (inside) => {
        const held = seqsOf((await send(inside, heldSql(table, outcomes, { lock: true }))).rows)
        const applied = outcomes.filter(({ seq }) => held.has(seq))
        await applyOutcomes(inside, table, applied, { retain, counts: false, failures })
        return held
      })
    },
  }
}

/** Takes one row of each state and destination in turn, so that large rows of one leave room for the others. */
function inTurns(rows: readonly Row[]): readonly Row[] {
  const counts = new Map<string, number>()
  return rows
    .map((row) => {
      const pair = `${row['state']}/${row['destination']}`
      const turn = counts.get(pair) ?? 0
      counts.set(pair, turn + 1)
      return { row, turn }
    })
    .sort((one, other) => one.turn - other.turn)
    .map(({ row }) => row)
}

function send(run: RunStatement, { sql, parameters }: SqlPart): ReturnType<RunStatement> {
  return run(sql, parameters)
}

function namedDestinations(destinations: readonly string[]): readonly StateAndDestination[] {
  return [...new Set(destinations)].flatMap((destination) => ['ready', 'waiting'].map((state) => ({ state, destination })))
}

function withState(state: string, pairs: readonly StateAndDestination[]): readonly StateAndDestination[] {
  return pairs.filter((pair) => pair.state === state)
}

function seqsOf(rows: readonly Row[]): ReadonlySet<string> {
  return new Set(rows.map((row) => String(row['seq'])))
}

/**
 * The claimable rows of a state and destination, oldest first. Locks the returned rows until the end of the transaction and skips locked ones. The
 * index is named and provides the order, so that no more rows are read and locked than are returned, whatever the optimizer estimates. Contents of
 * more than `inline` bytes are omitted.
 */
export function claimableSql(
  table: string,
  { state, destination }: StateAndDestination,
  quota: number,
  { retried, inline }: { readonly retried: ClaimOptions['retried']; readonly inline: number | undefined },
): SqlPart {
  const waiting = state === 'waiting'
  const due = waiting ? 'AND o.available_at <= UTC_TIMESTAMP(6)' : ''
  // A ready row that was leased before has not failed: the relay that leased it is gone.
  const failed = waiting && retried !== undefined ? `AND o.attempts ${retried === 'only' ? '>' : '='} 0` : ''
  return {
    sql: `SELECT ${claimedColumns(inline)} FROM ${table} AS o FORCE INDEX (${waiting ? 'due' : 'PRIMARY'})
WHERE o.state = '${waiting ? 'waiting' : 'ready'}' AND o.destination = ? ${due} ${failed}
  AND (o.lease_until IS NULL OR o.lease_until <= UTC_TIMESTAMP(6))
ORDER BY ${waiting ? 'o.available_at, o.seq' : 'o.seq'} LIMIT ${quota} FOR UPDATE SKIP LOCKED`,
    parameters: [destination],
  }
}

/** Leases locked rows and counts the attempt. */
export function leaseSql(table: string, keys: readonly RowKey[], lease: number, token: string): SqlPart {
  const { sql, parameters } = keysSql(keys)
  return {
    sql: `UPDATE ${table} AS o FORCE INDEX (PRIMARY)
SET o.attempts = o.attempts + 1, o.lease_token = ?, o.lease_until = ${fromNow(lease)}
WHERE ${sql}`,
    parameters: [token, ...parameters],
  }
}
