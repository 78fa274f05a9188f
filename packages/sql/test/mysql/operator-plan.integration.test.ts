import { silentLogger } from '@ackord/core'
import { expect, it } from 'vitest'
import { sqlOutbox } from '../../src/index.ts'
import { fill, readsOf } from './support/large-table.ts'
import { openMysql2 } from './support/mysql-world.ts'

it('groups(), stats() with a limit and a page of list() read a bounded number of 100,000 records', { timeout: 120_000 }, async () => {
  await using world = await openMysql2({ max: 1, fresh: true })
  await fill(world, { state: 'ready', destination: "'other'", count: 50_000 })
  await fill(world, { state: 'parked', destination: "'orders'", count: 30_000 })
  await fill(world, { state: 'parked', destination: "'invoices'", count: 20_000 })
  await fill(world, { state: 'waiting', destination: "'orders'", count: 3000, at: 'UTC_TIMESTAMP(6) + INTERVAL 1 HOUR' })
  await world.query("UPDATE ackord_outbox SET cause = CONCAT('cause ', seq MOD 3), last_error = 'error'")
  await world.query('ANALYZE TABLE ackord_outbox')
  const store = sqlOutbox(world.database, { logger: silentLogger })
  // Reads the version of the tables.
  await store.get('1')
  const grouping = await readsOf(world, async () => {
    const { groups, complete } = await store.groups('failure')
    expect(complete).toBe(false)
    expect(groups.reduce((sum, { count }) => sum + count, 0)).toBe(13_000)
  })
  // Each row is read from the table, from the derived table, and from the table in which groups are collected.
  expect(grouping).toBeLessThan(13_000 * 3 + 100)
  const ofDestination = await readsOf(world, async () => {
    const { groups } = await store.groups('type', { state: 'parked', destination: 'orders' })
    expect(groups).toEqual([expect.objectContaining({ name: 'order.placed', count: 10_000 })])
  })
  expect(ofDestination).toBeLessThan(10_000 * 3 + 100)
  const counting = await readsOf(world, async () => {
    const { destinations } = await store.stats({ limit: 1000 })
    expect(destinations).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ destination: 'other', ready: 1000, capped: true }),
        expect.objectContaining({ destination: 'orders', waiting: 1000, parked: 1000, capped: true }),
        expect.objectContaining({ destination: 'invoices', parked: 1000, capped: true }),
      ]),
    )
  })
  expect(counting).toBeLessThan(4000 * 3 + 500)
  const searching = await readsOf(world, async () => {
    expect(await store.list({ type: 'rare' }, { limit: 50 })).toMatchObject({ records: [], next: '32000' })
  })
  // The index entries that are counted, and the rows.
  expect(searching).toBeLessThan(32_000 * 2 + 500)
  const ofState = await readsOf(world, async () => {
    expect(await store.list({ state: 'waiting', type: 'rare' }, { limit: 50 })).toMatchObject({ records: [], next: undefined })
  })
  // Index entries that are counted, also in a derived table, and rows: for the 2,000 that are searched first, and for all 3,000.
  expect(ofState).toBeLessThan((2000 + 3000) * 3 + 500)
})
