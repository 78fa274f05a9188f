import type { RunStatement } from '../../contract/driver.ts'
import type { KeyLocation, OwnedClaimOptions, ReadPosition } from '../../contract/ownership-statements.ts'
import type { Tables } from '../../contract/tables.ts'
import { type FoundRow, type KeyHead, type KeyWalk, type OwnedReads, readFound } from '../../ordering/owned-claim.ts'
import type { Row } from '../../records/row.ts'
import type { FilterSql } from '../admin.ts'
import { destinationsSql } from '../claims.ts'
import { contentsSql, followSql, freshSql, retriedSql, sweptSql, walkSql, windowEndSql } from './owned-claim.ts'

/** The reads of a claim with order per key, in its transaction. */
export function sqliteOwnedReads(run: RunStatement, tables: Tables, options: OwnedClaimOptions): OwnedReads {
  const rowsOf = async ({ sql, parameters }: FilterSql) => (await run(sql, parameters)).rows
  const find = async (select: FilterSql) => (await rowsOf(select)).map(readFound)

  /** The keys after the end of the last claim, then those from the beginning up to it. */
  async function walkThrough(position: ReadPosition, max: number): Promise<KeyWalk> {
    const seen: Row[] = []
    const heads: KeyHead[] = []
    const parts: readonly (readonly [KeyLocation | undefined, KeyLocation | undefined])[] = position.key
      ? [
          [position.key, undefined],
          [undefined, position.key],
        ]
      : [[undefined, undefined]]
    for (const [after, upTo] of parts) {
      if (heads.length >= max || seen.length >= options.jumps) break
      const part = { position, after, upTo, max: max - heads.length, jumps: options.jumps - seen.length }
      const rows = await rowsOf(walkSql(tables, options, part))
      seen.push(...rows)
      // A head with records to claim increases the count.
      const giving = rows.filter((row, index) => Number(row['heads']) > Number(rows[index - 1]?.['heads'] ?? 0))
      heads.push(...giving.map((row) => headOf(position.destination, row)))
    }
    const last = seen.at(-1)
    return { heads, last: last && keyOf(last), more: heads.length >= max || seen.length >= options.jumps }
  }

  return {
    async destinations() {
      const found = await Promise.all((['ready', 'waiting'] as const).map((state) => run(destinationsSql(tables.outbox, state))))
      return found.flatMap(({ rows }) => rows.map((row) => String(row['destination'])))
    },

    async walk(positions, max) {
      const walks: KeyWalk[] = []
      for (const position of positions) walks.push(await walkThrough(position, max))
      return walks
    },

    async follow(asks) {
      const runs = asks.map((): FoundRow[] => [])
      const after = new Set(asks.map((ask) => ask.after))
      for (const row of await rowsOf(followSql(tables, options, asks))) {
        const found = readFound(row)
        // Each run starts with the row it continues from.
        if (!after.has(found.seq)) runs[Number(row['number'])]?.push(found)
      }
      return runs
    },

    async plain(positions, max) {
      const all = []
      for (const position of positions) {
        const fresh = await find(freshSql(tables, options, position, max))
        const [end] = fresh.length < max ? await rowsOf(windowEndSql(tables, options, position)) : []
        const [after, to] = position.sweep
        all.push({
          fresh,
          window: end && { count: Number(end['count']), last: textOf(end['last']) },
          swept: after === to ? [] : await find(sweptSql(tables, options, position, max)),
          retried: await find(retriedSql(tables, options, position, max)),
        })
      }
      return all
    },

    contents: async (found, inline) => (await run(contentsSql(tables), [inline ?? null, JSON.stringify(found.map(({ seq }) => seq))])).rows,
  }
}

function headOf(destination: string, row: Row): KeyHead {
  return { ...readFound(row), ...keyOf(row), destination, parked: textOf(row['parked']) }
}

function keyOf(row: Row): KeyLocation {
  return { partition: Number(row['partition']), key: String(row['ordering_key']) }
}

function textOf(value: unknown): string | undefined {
  return value === null || value === undefined ? undefined : String(value)
}
