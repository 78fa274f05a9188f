import type { ClaimOptions } from '@ackord/outbox'
import type { RunStatement } from '../contract/driver.ts'
import type { ClaimRowsOptions, ClaimStatements, StorePort } from '../contract/store-dialect.ts'
import { ClaimWidth, inAnyOrder, inlineBytes, withinBytes } from '../records/claim-bytes.ts'
import type { Row } from '../records/row.ts'
import { type Place, PlaceFinder, readPlaces } from './destinations.ts'
import { contentsSql } from './ordering/owned-claim.ts'
import { applyOutcomes, heldSql, releaseSql, renewSql } from './settle.ts'
import { claimedColumnsUpTo, fromNow, keyOf, keysSql, type RowKey, readRow, type SqlPart } from './sql-text.ts'
import { storeTransaction } from './store-transaction.ts'

/**
 * A claim takes six round trips: the places (one more for a new one), READ COMMITTED, START TRANSACTION, the rows, their leases, COMMIT;
 * one more if retries are due, and one for records of more than a few kilobytes. Settling takes five, renewing and releasing one.
 */
export function mysqlClaims({ driver, table, retain }: StorePort): ClaimStatements {
  const run: RunStatement = (sql, parameters = []) => driver.run(driver.pool, sql, parameters)
  const finder = new PlaceFinder(table)
  const width = new ClaimWidth()

  /** In any order, or the last of many would starve: the token, which is random, says where to begin. */
  async function placesOf({ destinations, except = [], token }: ClaimRowsOptions): Promise<readonly Place[]> {
    const found = destinations === undefined ? await finder.find(run) : namedPlaces(destinations)
    const places = found.filter(({ destination }) => !except.includes(destination))
    const first = Number.parseInt(token.slice(0, 8), 16) % Math.max(1, places.length)
    return [...places.slice(first), ...places.slice(0, first)]
  }

  return {
    async claim(options) {
      const { lease, token, retried } = options
      const places = await placesOf(options)
      if (places.length === 0) return []
      const limit = width.of(options.limit)
      const inline = inlineBytes(options.maxBytes, limit)
      const quota = options.quota ?? Math.ceil(limit / new Set(places.map(({ destination }) => destination)).size)
      // Retries first, as they are older, but not more than half: a wave of them must not stop what is new.
      const share = retried === undefined && options.quota === undefined ? Math.ceil(limit / 2) : limit
      return await storeTransaction(driver, async (inside) => {
        const take = (state: string, most: number) =>
          readPlaces(inside, placesIn(state, places), most, (place) =>
            claimableSql(table, place, Math.min(quota, most), { retried, inline }),
          )
        const waiting = await take('waiting', share)
        const ready = retried === 'only' ? [] : await take('ready', limit - waiting.length)
        const found = inTurns(inAnyOrder(waiting, ready, token))
        const taken = withinBytes(found, options, (row) => Number(row['bytes']))
        width.note(found.length, taken.length)
        if (taken.length === 0) return []
        await send(inside, leaseSql(table, taken.map(keyOf), lease, token))
        return taken.map((row) => ({ ...row, attempts: Number(row['attempts']) + 1, quota }))
      })
    },

    contents: async (keys) => (await send(run, contentsSql(table, keys))).rows.map(readRow),

    async renew(places, lease) {
      const { count } = await send(run, renewSql(table, places, lease))
      if (count === places.length) return new Set(places.map(({ seq }) => seq))
      // Those that hold still have their token.
      const { rows } = await send(run, heldSql(table, places, { lock: false }))
      return seqsOf(rows)
    },

    async release(places) {
      await send(run, releaseSql(table, places))
    },

    async settle(outcomes) {
      return await storeTransaction(driver, async (inside) => {
        const held = seqsOf((await send(inside, heldSql(table, outcomes, { lock: true }))).rows)
        const applied = outcomes.filter(({ seq }) => held.has(seq))
        await applyOutcomes(inside, table, applied, { retain, counts: false })
        return held
      })
    },
  }
}

/** A row of each place in turn, so that large rows of one leave room for the others. */
function inTurns(rows: readonly Row[]): readonly Row[] {
  const counts = new Map<string, number>()
  return rows
    .map((row) => {
      const place = `${row['state']}/${row['destination']}`
      const turn = counts.get(place) ?? 0
      counts.set(place, turn + 1)
      return { row, turn }
    })
    .sort((one, other) => one.turn - other.turn)
    .map(({ row }) => row)
}

function send(run: RunStatement, { sql, parameters }: SqlPart): ReturnType<RunStatement> {
  return run(sql, parameters)
}

function namedPlaces(destinations: readonly string[]): readonly Place[] {
  return [...new Set(destinations)].flatMap((destination) => ['ready', 'waiting'].map((state) => ({ state, destination })))
}

function placesIn(state: string, places: readonly Place[]): readonly Place[] {
  return places.filter((place) => place.state === state)
}

function seqsOf(rows: readonly Row[]): ReadonlySet<string> {
  return new Set(rows.map((row) => String(row['seq'])))
}

/**
 * The claimable rows of a place, oldest first. Locks what it gives, until the end of the transaction, and skips what is locked. The index
 * is named and has the order, so that no more is read and locked than is given, whatever the optimizer thinks of the table. Contents of more than `inline` bytes
 * are left out.
 */
export function claimableSql(
  table: string,
  { state, destination }: Place,
  quota: number,
  { retried, inline }: { readonly retried: ClaimOptions['retried']; readonly inline: number | undefined },
): SqlPart {
  const waiting = state === 'waiting'
  const due = waiting ? 'AND o.available_at <= UTC_TIMESTAMP(6)' : ''
  // A ready row that was leased before has not failed: whoever had it is gone.
  const failed = waiting && retried !== undefined ? `AND o.attempts ${retried === 'only' ? '>' : '='} 0` : ''
  return {
    sql: `SELECT ${claimedColumnsUpTo(inline)} FROM ${table} AS o FORCE INDEX (${waiting ? 'due' : 'PRIMARY'})
WHERE o.state = '${waiting ? 'waiting' : 'ready'}' AND o.destination = ? ${due} ${failed}
  AND (o.lease_until IS NULL OR o.lease_until <= UTC_TIMESTAMP(6))
ORDER BY ${waiting ? 'o.available_at, o.seq' : 'o.seq'} LIMIT ${quota} FOR UPDATE SKIP LOCKED`,
    parameters: [destination],
  }
}

/** Leases rows that are locked, with the attempt counted. */
export function leaseSql(table: string, keys: readonly RowKey[], lease: number, token: string): SqlPart {
  const { sql, parameters } = keysSql(keys)
  return {
    sql: `UPDATE ${table} AS o FORCE INDEX (PRIMARY)
SET o.attempts = o.attempts + 1, o.lease_token = ?, o.lease_until = ${fromNow(lease)}
WHERE ${sql}`,
    parameters: [token, ...parameters],
  }
}
