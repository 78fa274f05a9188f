import { silentLogger } from '@ackord/core'
import type { OutboxFilter } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { sqlOutbox } from '../../src/index.ts'
import { cancelSql, listSql } from '../../src/postgres/admin.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { openPg } from '../support/world.ts'

const table = 'ackord_outbox'

async function open() {
  const world = await openPg({ fresh: true })
  const store = sqlOutbox(fromPg(world.pool), { logger: silentLogger })
  return { world, store }
}

type World = Awaited<ReturnType<typeof open>>['world']

async function fill(world: World, state: 'ready' | 'waiting' | 'parked', destination: string, count: number): Promise<void> {
  await world.query(
    `INSERT INTO ${table} (state, destination, id, type, partition, data, attributes, available_at, attempts, cause, last_error, parked_at)
     SELECT '${state}', '${destination}', 'e' || n, 'order.placed', 0, decode(repeat('00', 200), 'hex'), '{"id":"e"}', clock_timestamp() + interval '1 hour', 1,
       'cause ' || n % 3, 'error ' || n, ${state === 'parked' ? 'clock_timestamp()' : 'NULL'}
     FROM generate_series(1, ${count}) AS n`,
  )
}

/** The number of rows that `work` reads from the table. */
async function readsOf(world: World, work: () => Promise<unknown>): Promise<number> {
  const count = async () => {
    await world.query('SELECT pg_stat_force_next_flush()')
    const [row] = await world.query(
      `SELECT seq_tup_read + idx_tup_fetch AS rows FROM pg_stat_user_tables WHERE schemaname = current_schema() AND relname = '${table}'`,
    )
    return Number(row?.['rows'])
  }
  // The connection of the pool reports its numbers when it ends a transaction, with the same call.
  const flush = () => world.pool.query('SELECT pg_stat_force_next_flush()')
  await flush()
  const before = await count()
  await work()
  await flush()
  return (await count()) - before
}

describe.each([
  ['without statistics', false],
  ['with statistics', true],
])('on a table of 50,000 parked and 50,000 ready records %s', (_, analyze) => {
  async function openFilled() {
    const opened = await open()
    const { world } = opened
    await world.query(`ALTER TABLE ${table} SET (autovacuum_enabled = false)`)
    await fill(world, 'ready', 'other', 50_000)
    await fill(world, 'parked', 'orders', 30_000)
    await fill(world, 'parked', 'invoices', 20_000)
    await fill(world, 'waiting', 'orders', 3000)
    if (analyze) await world.query(`ANALYZE ${table}`)
    return opened
  }

  it('a message id is found by the index, and so are the records to cancel', async () => {
    const { world, store } = await openFilled()
    await using _world = world
    const { sql, parameters } = listSql(table, { messageId: 'e17' }, true, { payloads: true, maxRead: 100, indexed: true })
    const cancel = cancelSql(table, [{ destination: 'orders', source: '/s', id: 'e17' }])
    for (const [text, values] of [
      [sql, ['0', 1001, ...parameters]],
      [cancel.sql, [...(cancel.parameters ?? [])]],
    ] as const) {
      const [plan] = await world.query(`EXPLAIN (FORMAT JSON) ${text}`, [...values])
      const found = JSON.stringify(plan)
      expect(found).toContain('"Index Name":"ackord_outbox_id_idx"')
      expect(found).not.toContain('"Node Type":"Seq Scan"')
    }
    expect(await readsOf(world, async () => expect(await store.find({ messageId: 'e17' })).toHaveLength(4))).toBeLessThan(20)
  })

  it('a page of list() reads a bounded number of records, and few if few have the state', async () => {
    const { world, store } = await openFilled()
    await using _world = world
    const readsOfPage = async (filter: OutboxFilter, expected: object) =>
      await readsOf(world, async () => expect(await store.list(filter, { limit: 50 })).toMatchObject(expected))
    // Rows of pages that were not vacuumed are read for the index, too.
    const twice = 2 * 32_000 + 200
    const short = { records: [], next: '32000', searchedUntil: expect.any(Number) }
    expect(await readsOfPage({ type: 'rare' }, short)).toBeLessThan(twice)
    expect(await readsOfPage({ state: 'leased' }, short)).toBeLessThan(twice)
    expect(await readsOfPage({ state: 'waiting', type: 'rare' }, { records: [], next: undefined })).toBeLessThan(2 * 3000 + 200)
    expect(await readsOfPage({ state: 'parked', destination: 'orders' }, { next: '50050' })).toBeLessThan(200)
    // Where most records match, few are read.
    expect(await readsOfPage({ type: 'order.placed' }, { next: '50' })).toBeLessThan(2 * 2000 + 200)
  })

  it('groups() and stats() with a limit read a bounded number of records', async () => {
    const { world, store } = await openFilled()
    await using _world = world
    const grouping = await readsOf(world, async () => {
      const { groups, complete } = await store.groups('failure')
      expect(complete).toBe(false)
      expect(groups.reduce((sum, { count }) => sum + count, 0)).toBe(13_000)
    })
    expect(grouping).toBeLessThan(14_000)
    const filtered = await readsOf(world, async () => {
      const { groups, complete } = await store.groups('type', { state: 'waiting', cause: 'cause 1' })
      expect([groups, complete]).toEqual([[expect.objectContaining({ name: 'order.placed', count: 1000 })], true])
    })
    expect(filtered).toBeLessThan(4000)
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
    expect(counting).toBeLessThan(5000)
  })
})
