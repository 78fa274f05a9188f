import { rootContext } from '@ackord/core'
import type { ClaimedPlace } from '../claim-token.ts'
import type { Row, Session, Statement } from '../driver.ts'
import type { ClaimRowsOptions, ClaimStatements, StorePort } from '../store-dialect.ts'
import { destinationsSql, leaseSql, type PendingState, pickSql } from './claim-statements.ts'
import { byLease, releaseSql, renewSql, settlement } from './settle-statements.ts'

/** One transaction each, of small statements: in process there is no round trip to be saved. */
export function sqliteClaims({ driver, table, retain }: StorePort): ClaimStatements {
  const alone = <R>(work: (session: Session<unknown>) => Promise<R>) => driver.transaction([], work, rootContext().signal)

  /** Runs the statement of each place, and gives the seqs of those that changed a row. */
  function each<Place extends ClaimedPlace>(
    places: readonly Place[],
    statementOf: (place: Place) => Statement,
  ): Promise<ReadonlySet<string>> {
    return alone(async (session) => {
      const changed = new Set<string>()
      for (const place of places) {
        if ((await session.change({ ...statementOf(place), prepare: true })) === 1) changed.add(place.seq)
      }
      return changed
    })
  }

  const renewing = renewSql(table)
  const releasing = releaseSql(table)
  const settling = settlement(table, retain, byLease)
  return {
    claim: (options) => alone((session) => claim(session, table, options)),
    renew: (places, lease) => each(places, ({ seq, token }) => ({ sql: renewing, parameters: [Math.ceil(lease), seq, token] })),
    async release(places) {
      await each(places, ({ seq, token }) => ({ sql: releasing, parameters: [seq, token] }))
    },
    settle: (outcomes) => each(outcomes, ({ seq, token, outcome }) => settling(outcome, [seq, token])),
  }
}

/** Retries first, as they are older, but not more than half: a wave of them must not stop what is new. */
async function claim({ run }: Session<unknown>, table: string, options: ClaimRowsOptions): Promise<readonly Row[]> {
  const { limit, lease, token, retried } = options
  const places = await placesOf(run, table, options)
  const quota = options.quota ?? Math.ceil(limit / Math.max(1, new Set([...places.ready, ...places.waiting]).size))
  const picked: unknown[] = []

  async function pick(state: PendingState, most: number): Promise<void> {
    const sql = pickSql(table, state, retried)
    for (const destination of places[state]) {
      const left = Math.min(quota, most - picked.length)
      if (left <= 0) return
      for (const { seq } of (await run(sql, [destination, left])).rows) picked.push(seq)
    }
  }

  await pick('waiting', options.quota === undefined && retried === undefined ? Math.ceil(limit / 2) : limit)
  // A ready row that was leased before has not failed: whoever had it is gone.
  if (retried !== 'only') await pick('ready', limit)
  if (picked.length === 0) return []
  const { rows } = await run(leaseSql(table), [token, Math.ceil(lease), JSON.stringify(picked), quota])
  return rows
}

type Places = Readonly<Record<PendingState, readonly unknown[]>>

/** In any order, or the last of many would starve. */
async function placesOf(run: Session<unknown>['run'], table: string, { destinations, except = [] }: ClaimRowsOptions): Promise<Places> {
  const wanted = `SELECT DISTINCT destination FROM (%) WHERE destination NOT IN (SELECT value FROM json_each(?)) ORDER BY random()`
  const find = async (source: string, parameters: readonly unknown[]) => {
    const { rows } = await run(wanted.replace('%', source), [...parameters, JSON.stringify(except)])
    return rows.map(({ destination }) => destination)
  }
  if (destinations !== undefined) {
    const named = await find('SELECT value AS destination FROM json_each(?)', [JSON.stringify(destinations)])
    return { ready: named, waiting: named }
  }
  return { ready: await find(destinationsSql(table, 'ready'), []), waiting: await find(destinationsSql(table, 'waiting'), []) }
}
