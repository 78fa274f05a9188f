import { silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { sqlOutbox } from '../../src/index.ts'
import { claimableSql, leaseSql } from '../../src/mysql/claims.ts'
import { DestinationFinder, destinationsSql, unionSql } from '../../src/mysql/destinations.ts'
import { deleteSql, heldSql } from '../../src/mysql/settle.ts'
import type { SqlPart } from '../../src/mysql/sql-text.ts'
import { fill, readsOf } from './support/large-table.ts'
import { type MysqlWorld, openMysql2 } from './support/mysql-world.ts'

const table = 'ackord_outbox'
const token = '00000000-0000-4000-8000-000000000001'

/** The EXPLAIN output for each table that a statement reads. */
async function plansOf(world: MysqlWorld, { sql, parameters }: SqlPart) {
  const rows = await world.query(`EXPLAIN FORMAT = TRADITIONAL ${sql}`, [...parameters])
  return rows
    .filter((row) => row['table'] === 'o' || row['table'] === table)
    .map((row) => ({ type: row['type'], key: row['key'], extra: String(row['Extra']) }))
}

describe('the claim on a table of 200,000 records', () => {
  it('reads little more than it claims, beside a stalled destination and retries that are not due', {
    timeout: 120_000,
  }, async () => {
    await using world = await openMysql2({ max: 1, fresh: true })
    await fill(world, { state: 'ready', destination: "'stalled'", count: 80_000 })
    await fill(world, { state: 'ready', destination: "'events'", count: 60_000 })
    await fill(world, { state: 'waiting', destination: "'events'", count: 59_990, at: 'UTC_TIMESTAMP(6) + INTERVAL 1 HOUR' })
    await fill(world, { state: 'waiting', destination: "'events'", count: 10, at: 'UTC_TIMESTAMP(6) - INTERVAL 1 HOUR' })
    const store = sqlOutbox(world.database, { logger: silentLogger })

    // First with the statistics that the server gathers by itself, then with those of ANALYZE TABLE.
    for (const analyze of [false, true]) {
      if (analyze) await world.query(`ANALYZE TABLE ${table}`)
      // A26
      if (analyze) {
        expect(await plansOf(world, { sql: destinationsSql(table, ['ready', 'waiting']), parameters: [] })).toEqual([
          { type: 'range', key: 'due', extra: expect.stringContaining('Using index for group-by') },
        ])
      }
      const places = (['ready', 'waiting'] as const).map((state) => ({ state, destination: 'events' }))
      const [ready, waiting] = await plansOf(
        world,
        unionSql(places, 500, (place) => claimableSql(table, place, 250, { retried: undefined, inline: 33_554 })),
      )
      expect(ready).toMatchObject({ type: 'ref', key: 'PRIMARY', extra: expect.not.stringMatching(/filesort|temporary/) })
      expect(waiting).toMatchObject({ type: 'range', key: 'due', extra: expect.not.stringMatching(/filesort|temporary/) })
      const keys = ['140001', '140002', '140003'].map((seq) => ({ state: 'ready', destination: 'events', seq, token }))
      for (const part of [leaseSql(table, keys, 1000, token), deleteSql(table, keys), heldSql(table, keys, { lock: true })]) {
        for (const plan of await plansOf(world, part)) expect(plan).toMatchObject({ type: 'range', key: 'PRIMARY' })
      }
    }

    const seen = new Set<string>()
    for (let round = 1; round <= 10; round += 1) {
      let claimed: Awaited<ReturnType<typeof store.claim>> = []
      const reads = await readsOf(world, async () => {
        claimed = await store.claim({ limit: 500, lease: 60_000, except: ['stalled'] })
      })
      expect(claimed).toHaveLength(500)
      for (const { id } of claimed) seen.add(id)
      // Claimed rows are read, and looked up again for their lease; rows leased by others are skipped.
      expect(reads).toBeLessThan(500 * 3 + 500 * round + 100)
      if (round <= 5) {
        const settling = await readsOf(world, () =>
          store.settle(claimed.map(({ id, token: held }) => ({ id, token: held, result: 'published' }))),
        )
        expect(settling).toBeLessThan(500 * 4 + 100)
      }
    }
    expect(seen.size).toBe(5000)

    // Claims only due retries, and then a destination without records.
    const nothing = await readsOf(world, async () => {
      expect(await store.claim({ limit: 500, lease: 60_000, retried: 'only' })).toEqual([])
      expect(await store.claim({ limit: 500, lease: 60_000, destinations: ['none'] })).toEqual([])
    })
    expect(nothing).toBeLessThan(100)
  })

  it('finds destinations by stepping from one to the next, even before the server has statistics', { timeout: 120_000 }, async () => {
    await using world = await openMysql2({ max: 1, fresh: true })
    await world.query(`ALTER TABLE ${table} STATS_AUTO_RECALC = 0`)
    const finder = new DestinationFinder(table)
    const find = async () => {
      const places = await finder.find((sql, parameters = []) => world.run(sql, [...parameters]).then((rows) => ({ rows, count: 0 })))
      return places.map(({ state, destination }) => `${state} ${destination}`).sort()
    }
    expect(await find()).toEqual([])
    await fill(world, { state: 'ready', destination: "'b'", count: 100_000 })
    await fill(world, { state: 'waiting', destination: "'d'", count: 100_000 })
    const jumping = await readsOf(world, async () => expect(await find()).toEqual(['ready b', 'waiting d']))
    expect(jumping).toBeLessThan(50)
    // New destinations before, between and after the existing ones, some of them adjacent.
    for (const destination of ['a', 'c', 'e', 'e1', 'e2']) await fill(world, { state: 'ready', destination: `'${destination}'`, count: 1 })
    await fill(world, { state: 'waiting', destination: "'c'", count: 1 })
    const all = ['ready a', 'ready b', 'ready c', 'ready e', 'ready e1', 'ready e2', 'waiting c', 'waiting d']
    expect(await find()).toEqual(all)
    expect(await readsOf(world, async () => expect(await find()).toEqual(all))).toBeLessThan(100)
    await world.query(`DELETE FROM ${table} WHERE destination = 'e1'`)
    expect(await find()).toEqual(all.filter((place) => place !== 'ready e1'))
  })

  it('finds 2,000 destinations by stepping too, once the server has statistics', { timeout: 120_000 }, async () => {
    await using world = await openMysql2({ max: 1, fresh: true })
    await fill(world, { state: 'ready', destination: "CONCAT('d', seq MOD 2000)", count: 200_000 })
    await world.query(`ANALYZE TABLE ${table}`)
    const reads = await readsOf(world, () => world.run(destinationsSql(table, ['ready', 'waiting'])))
    expect(reads).toBeLessThan(10_000)
  })
})
