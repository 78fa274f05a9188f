import type { Tables } from '../../contract/database-options.ts'
import type { RunStatement } from '../../contract/driver.ts'
import type { KeyPlace, OwnedClaimOptions, ReadPosition } from '../../contract/store-dialect.ts'
import type { FoundRow, KeyHead, KeyWalk, OwnedReads } from '../../ordering/owned-claim.ts'
import type { Row } from '../../records/row.ts'
import type { FilterSql } from '../admin.ts'
import { destinationsSql } from '../claims.ts'
import { contentsSql, followSql, freshSql, retriedSql, sweptSql, walkSql, windowEndSql } from './owned-claim.ts'

/** What a claim with order per key reads, in its transaction. */
export function sqliteOwnedReads(run: RunStatement, tables: Tables, options: OwnedClaimOptions): OwnedReads {
  const rowsOf = async ({ sql, parameters }: FilterSql) => (await run(sql, parameters)).rows
  const find = async (select: FilterSql) => (await rowsOf(select)).map(foundOf)

  /** Behind where the last claim ended, then from the beginning up to there. */
  async function walkThrough(place: ReadPosition, most: number): Promise<KeyWalk> {
    const seen: Row[] = []
    const heads: KeyHead[] = []
    const parts: readonly (readonly [KeyPlace | undefined, KeyPlace | undefined])[] = place.key
      ? [
          [place.key, undefined],
          [undefined, place.key],
        ]
      : [[undefined, undefined]]
    for (const [after, upTo] of parts) {
      if (heads.length >= most || seen.length >= options.jumps) break
      const part = { place, after, upTo, most: most - heads.length, jumps: options.jumps - seen.length }
      const rows = await rowsOf(walkSql(tables, options, part))
      seen.push(...rows)
      // One that has something to give raises their number.
      const giving = rows.filter((row, index) => Number(row['heads']) > Number(rows[index - 1]?.['heads'] ?? 0))
      heads.push(...giving.map((row) => headOf(place.destination, row)))
    }
    const last = seen.at(-1)
    return { heads, last: last && keyOf(last), more: heads.length >= most || seen.length >= options.jumps }
  }

  return {
    async destinations() {
      const found = await Promise.all((['ready', 'waiting'] as const).map((state) => run(destinationsSql(tables.outbox, state))))
      return found.flatMap(({ rows }) => rows.map((row) => String(row['destination'])))
    },

    async walk(places, most) {
      const walks: KeyWalk[] = []
      for (const place of places) walks.push(await walkThrough(place, most))
      return walks
    },

    async follow(asks) {
      const runs = asks.map((): FoundRow[] => [])
      const after = new Set(asks.map((ask) => ask.after))
      for (const row of await rowsOf(followSql(tables, options, asks))) {
        const found = foundOf(row)
        // Each run begins with where it was.
        if (!after.has(found.seq)) runs[Number(row['number'])]?.push(found)
      }
      return runs
    },

    async plain(places, most) {
      const all = []
      for (const place of places) {
        const fresh = await find(freshSql(tables, options, place, most))
        const [end] = fresh.length < most ? await rowsOf(windowEndSql(tables, options, place)) : []
        const [after, to] = place.sweep
        all.push({
          fresh,
          window: end && { count: Number(end['count']), last: textOf(end['last']) },
          swept: after === to ? [] : await find(sweptSql(tables, options, place, most)),
          retried: await find(retriedSql(tables, options, place, most)),
        })
      }
      return all
    },

    contents: async (found, inline) => (await run(contentsSql(tables), [inline ?? null, JSON.stringify(found.map(({ seq }) => seq))])).rows,
  }
}

function foundOf(row: Row): FoundRow {
  return { seq: String(row['seq']), state: String(row['state']), attempts: Number(row['attempts']) }
}

function headOf(destination: string, row: Row): KeyHead {
  return { ...foundOf(row), ...keyOf(row), destination, parked: textOf(row['parked']) }
}

function keyOf(row: Row): KeyPlace {
  return { partition: Number(row['partition']), key: String(row['ordering_key']) }
}

function textOf(value: unknown): string | undefined {
  return value === null || value === undefined ? undefined : String(value)
}
