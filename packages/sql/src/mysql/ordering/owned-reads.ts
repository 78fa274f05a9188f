import type { RunStatement } from '../../contract/driver.ts'
import type { OwnedClaimOptions } from '../../contract/store-dialect.ts'
import type { FoundRow, KeyWalk, OwnedReads, PlainRows } from '../../ordering/owned-claim.ts'
import { compareSeq } from '../../records/claim-token.ts'
import type { Row } from '../../records/row.ts'
import { groupBy, readRow } from '../sql-text.ts'
import { KeyRows, type KeyWalker, runUnion } from './key-walker.ts'
import { contentsSql, freshSql, retriedSql, sweptSql, windowEndSql } from './owned-claim.ts'

export interface OwnedReadsOptions {
  readonly table: string
  readonly walker: KeyWalker
  /** Those that were found, if they were looked for. */
  readonly destinations: readonly string[]
}

/**
 * What a claim with order per key reads. Statement by statement, without a transaction: nobody but the owner changes what is pending in its partitions, and an
 * operator who re-arms something meanwhile is as if he had come later.
 */
export function mysqlOwnedReads(run: RunStatement, options: OwnedClaimOptions, given: OwnedReadsOptions): OwnedReads {
  const { table, walker, destinations } = given
  const opened = new Map<string, KeyRows>()
  return {
    destinations: async () => destinations,

    async walk(places, most) {
      const walks: KeyWalk[] = []
      for (const place of places) {
        const rows = await KeyRows.open(run, table, place.destination, options)
        opened.set(place.destination, rows)
        walks.push(await walker.walk(rows, place, most, options))
      }
      return walks
    },

    async follow(asks) {
      const numbered = asks.map((ask, number) => ({ ask, number }))
      const runs: (readonly FoundRow[])[] = asks.map(() => [])
      for (const group of groupBy(numbered, ({ ask }) => ask.head.destination)) {
        const found = (await opened.get(group[0].ask.head.destination)?.follow(group.map(({ ask }) => ask))) ?? []
        for (const [index, { number }] of group.entries()) runs[number] = found[index] ?? []
      }
      return runs
    },

    async plain(places, most) {
      const selects = places.flatMap((place, number) => [
        freshSql(table, options, place, most, number),
        retriedSql(table, options, place, most, number),
        ...(place.sweep[0] === place.sweep[1] ? [] : [sweptSql(table, options, place, most, number)]),
      ])
      const rows = await runUnion(run, selects)
      const found = (kind: string, number: number) =>
        rows.filter((row) => row['kind'] === kind && Number(row['number']) === number).map(foundOf)
      const all = places.map((_, number) => ({
        fresh: found('fresh', number).sort(bySeq),
        swept: found('swept', number).sort(bySeq),
        retried: found('retried', number),
      }))
      const ends = await runUnion(
        run,
        places.flatMap((place, number) => ((all[number]?.fresh.length ?? 0) < most ? [windowEndSql(table, options, place, number)] : [])),
      )
      return all.map((one, number): PlainRows => ({ ...one, window: windowOf(ends.find((row) => Number(row['number']) === number)) }))
    },

    async contents(found, inline) {
      const { sql, parameters } = contentsSql(table, found, inline)
      const { rows } = await run(sql, parameters)
      return rows.map(readRow)
    },
  }
}

function windowOf(end: Row | undefined): PlainRows['window'] {
  if (end === undefined) return undefined
  return { count: Number(end['count']), last: end['last'] === null ? undefined : String(end['last']) }
}

function foundOf(row: Row): FoundRow {
  return { seq: String(row['seq']), state: String(row['state']), attempts: Number(row['attempts']) }
}

function bySeq(one: FoundRow, other: FoundRow): number {
  return compareSeq(one.seq, other.seq)
}
