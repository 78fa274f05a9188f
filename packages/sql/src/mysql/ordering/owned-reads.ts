import { groupBy } from '@ackord/core/internal'
import type { RunStatement } from '../../contract/driver.ts'
import type { OwnedClaimOptions } from '../../contract/ownership-statements.ts'
import { type FoundRow, type KeyWalk, type OwnedReads, type PlainRows, readFound } from '../../ordering/owned-claim.ts'
import { bySeq } from '../../records/claimed-record.ts'
import type { Row } from '../../records/row.ts'
import { readRow } from '../sql-text.ts'
import { KeyRows, type KeyWalker, runUnion } from './key-walker.ts'
import { contentsSql, freshSql, retriedSql, sweptSql, windowEndSql } from './owned-claim.ts'

export interface OwnedReadsOptions {
  readonly table: string
  readonly walker: KeyWalker
  /** The discovered destinations; empty if none were queried. */
  readonly destinations: readonly string[]
}

/**
 * The reads of a claim with order per key. Statement by statement, without a transaction: only the owner changes pending rows of its partitions, and
 * an operator who re-arms a row meanwhile is treated as if that happened later.
 */
export function mysqlOwnedReads(run: RunStatement, options: OwnedClaimOptions, given: OwnedReadsOptions): OwnedReads {
  const { table, walker, destinations } = given
  const opened = new Map<string, KeyRows>()
  return {
    destinations: async () => destinations,

    async walk(positions, max) {
      const walks: KeyWalk[] = []
      for (const position of positions) {
        const rows = await KeyRows.open(run, table, position.destination, options)
        opened.set(position.destination, rows)
        walks.push(await walker.walk(rows, position, max, options))
      }
      return walks
    },

    async follow(asks) {
      const numbered = asks.map((ask, number) => ({ ask, number }))
      const runs: (readonly FoundRow[])[] = asks.map(() => [])
      for (const [destination, group] of groupBy(numbered, ({ ask }) => ask.head.destination)) {
        const found = (await opened.get(destination)?.follow(group.map(({ ask }) => ask))) ?? []
        for (const [index, { number }] of group.entries()) runs[number] = found[index] ?? []
      }
      return runs
    },

    async plain(positions, max) {
      const selects = positions.flatMap((position, number) => [
        freshSql(table, options, position, max, number),
        retriedSql(table, options, position, max, number),
        ...(position.sweep[0] === position.sweep[1] ? [] : [sweptSql(table, options, position, max, number)]),
      ])
      const rows = await runUnion(run, selects)
      const found = (kind: string, number: number) =>
        rows.filter((row) => row['kind'] === kind && Number(row['number']) === number).map(readFound)
      const all = positions.map((_, number) => ({
        fresh: found('fresh', number).sort(bySeq),
        swept: found('swept', number).sort(bySeq),
        retried: found('retried', number),
      }))
      const ends = await runUnion(
        run,
        positions.flatMap((position, number) =>
          (all[number]?.fresh.length ?? 0) < max ? [windowEndSql(table, options, position, number)] : [],
        ),
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
