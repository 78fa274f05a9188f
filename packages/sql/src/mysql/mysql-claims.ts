import type { Row, RunStatement } from '../driver.ts'
import type { ClaimRowsOptions, ClaimStatements, StorePort } from '../store-dialect.ts'
import { applyOutcomes } from './apply-outcomes.ts'
import { claimableSql, leaseSql } from './claim-statements.ts'
import { PlaceFinder } from './place-finder.ts'
import { type Place, readPlaces } from './places.ts'
import { keyOf } from './row-keys.ts'
import { heldSql, releaseSql, renewSql } from './settle-statements.ts'
import type { SqlPart } from './sql-part.ts'
import { storeTransaction } from './store-transaction.ts'

/**
 * A claim takes six round trips: the places (one more for a new one), READ COMMITTED, START TRANSACTION, the rows, their leases, COMMIT;
 * one more if retries are due. Settling takes five, renewing and releasing one.
 */
export function mysqlClaims({ driver, table, retain }: StorePort): ClaimStatements {
  const run: RunStatement = (sql, parameters = []) => driver.run(driver.pool, sql, parameters)
  const finder = new PlaceFinder(table)

  /** In any order, or the last of many would starve: the token, which is random, says where to begin. */
  async function placesOf({ destinations, except = [], token }: ClaimRowsOptions): Promise<readonly Place[]> {
    const found = destinations === undefined ? await finder.find(run) : namedPlaces(destinations)
    const places = found.filter(({ destination }) => !except.includes(destination))
    const first = Number.parseInt(token.slice(0, 8), 16) % Math.max(1, places.length)
    return [...places.slice(first), ...places.slice(0, first)]
  }

  return {
    async claim(options) {
      const { limit, lease, token, retried } = options
      const places = await placesOf(options)
      if (places.length === 0) return []
      const quota = options.quota ?? Math.ceil(limit / new Set(places.map(({ destination }) => destination)).size)
      // Retries first, as they are older, but not more than half: a wave of them must not stop what is new.
      const share = retried === undefined && options.quota === undefined ? Math.ceil(limit / 2) : limit
      return await storeTransaction(driver, async (inside) => {
        const take = (state: string, most: number) =>
          readPlaces(inside, placesIn(state, places), most, (place) => claimableSql(table, place, Math.min(quota, most), retried))
        const waiting = await take('waiting', share)
        const ready = retried === 'only' ? [] : await take('ready', limit - waiting.length)
        const rows = [...waiting, ...ready]
        if (rows.length === 0) return []
        await send(inside, leaseSql(table, rows.map(keyOf), lease, token))
        return rows.map((row) => ({ ...row, attempts: Number(row['attempts']) + 1, quota }))
      })
    },

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
