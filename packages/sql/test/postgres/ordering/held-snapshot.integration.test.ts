import type { NewOutboxRecord } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { openPg } from '../../support/world.ts'
import { idsOf, keyed, lease, ordered, published, skewed } from '../support/ordered-store.ts'

type PgWorld = Awaited<ReturnType<typeof openPg>>

/** Collects the buffers of the outbox and its indexes that the statements of `work` touch: each is explained in a transaction that is rolled back. */
async function buffersOf(world: PgWorld, work: () => Promise<unknown>): Promise<number> {
  const query = world.pool.query.bind(world.pool)
  let buffers = 0
  Object.assign(world.pool, {
    async query(text: unknown, values: unknown[] = []) {
      if (typeof text === 'string' && text.startsWith('WITH')) {
        const client = await world.client()
        await client.query('BEGIN')
        const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, values)
        const { Plan: plan } = rows[0]['QUERY PLAN'][0]
        buffers += plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
        await client.query('ROLLBACK')
        client.release()
      }
      return await query(text as string, values)
    },
  })
  try {
    await work()
  } finally {
    Object.assign(world.pool, { query })
  }
  return buffers
}

async function holdSnapshot(world: PgWorld): Promise<AsyncDisposable> {
  const client = await world.client()
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await client.query('SELECT 1')
  return {
    async [Symbol.asyncDispose]() {
      await client.query('ROLLBACK')
      client.release()
    },
  }
}

describe('while another transaction holds a snapshot', () => {
  it('claims and settlements of keys touch no more and no more buffers', { timeout: 60_000 }, async () => {
    await using world = await openPg({ max: 4, fresh: true })
    await using _snapshot = await holdSnapshot(world)
    // The clock stands still, so no walk over all keys becomes due meanwhile.
    const store = ordered(world.database, { ...skewed(0), monotonic: () => 0 })
    const append = (count: number) =>
      world.query(
        `INSERT INTO ackord_outbox (state, destination, id, type, ordering_key, partition, data, attributes, available_at)
         SELECT 'ready', 'events', 'e' || n, 't', 'k' || n, hashtext('k' || n) & 255, '\\x00', '{"id":"e","type":"t","source":"/s"}', clock_timestamp()
         FROM generate_series(1, ${count}) AS n`,
      )
    const drain = async (outcome: (one: Parameters<typeof published>[0]) => ReturnType<typeof published>) => {
      const claimed = await store.claim({ limit: 200, lease })
      expect(claimed).toHaveLength(200)
      expect(new Set(await store.settle(claimed.map(outcome)))).toEqual(new Set(['applied']))
    }
    const parked = ({ id, token }: { readonly id: string; readonly token: string }) =>
      ({ id, token, result: 'parked', error: 'no' }) as const
    const mixed = (one: Parameters<typeof published>[0]) => (Number(one.id) % 50 === 0 ? parked(one) : published(one))
    const buffers: number[] = []
    for (let round = 0; round < 30; round += 1) {
      await append(200)
      // The mixed outcomes of the last rounds take another form of the statement.
      const work = () => drain(round < 27 ? published : mixed)
      if (round < 8 || (round > 8 && round < 26)) await work()
      else buffers.push(await buffersOf(world, work))
    }
    const [early = 0, ...late] = buffers
    expect(early).toBeGreaterThan(200)
    expect(Math.max(...late)).toBeLessThan(1.5 * early)
  })
})

describe('a record with a key that is committed late', () => {
  it('is claimed before the next one of its key, even far below the read position', async () => {
    await using world = await openPg()
    const store = ordered(world.database)
    const drain = async () => {
      const claimed = await store.claim({ limit: 1000, lease })
      await store.settle(claimed.map(published))
      return claimed
    }
    const write = (...records: NewOutboxRecord[]) => world.database.write((transaction) => store.append(transaction, records))
    await write(keyed('late', 'l1'))
    expect(idsOf(await drain())).toEqual(['l1'])
    const client = await world.client()
    await client.query('BEGIN')
    await store.append(client as never, [keyed('late', 'l2')])
    for (let round = 0; round < 3; round += 1) {
      await write(...Array.from({ length: 1000 }, (_, index) => keyed(`k${index}`, `e${round}-${index}`)))
      expect(await drain()).toHaveLength(1000)
    }
    await client.query('COMMIT')
    client.release()
    await write(keyed('late', 'l3'))
    expect(idsOf(await drain())).toEqual(['l2', 'l3'])
  })

  it('is found by a walk while there are others to claim', async () => {
    await using world = await openPg()
    let now = Date.now()
    const store = ordered(world.database, { ...skewed(0), now: () => now, monotonic: () => now })
    const write = (...records: NewOutboxRecord[]) => world.database.write((transaction) => store.append(transaction, records))
    const drain = async (limit: number) => {
      const claimed = await store.claim({ limit, lease })
      await store.settle(claimed.map(published))
      return idsOf(claimed)
    }
    const client = await world.client()
    await client.query('BEGIN')
    await store.append(client as never, [keyed('late', 'l1'), keyed('late', 'l2')])
    await write(...Array.from({ length: 4000 }, (_, index) => keyed(`k${index}`, `e${index}`)))
    for (let round = 0; round < 6; round += 1) expect(await drain(500)).toHaveLength(500)
    await client.query('COMMIT')
    client.release()
    now += 5000
    const found = await drain(100)
    expect(found).toContain('l1')
    for (let more = found; more.length > 0; found.push(...more)) more = await drain(1000)
    expect(found.filter((id) => id?.startsWith('l'))).toEqual(['l1', 'l2'])
    expect(await world.outbox()).toBe(0)
  })
})

describe('a record that an operator makes ready again', () => {
  it('is found although later records of its key were published', async () => {
    await using world = await openPg()
    const store = ordered(world.database)
    const write = (...records: NewOutboxRecord[]) => world.database.write((transaction) => store.append(transaction, records))
    await write(keyed('a', 'a1'), keyed('a', 'a2'))
    const [first] = await store.claim({ limit: 1, lease })
    await store.settle([{ id: first?.id ?? '', token: first?.token ?? '', result: 'parked', error: 'no' }])
    // Another member knows nothing of the parked record, and publishes the next ones.
    await store.leave?.()
    const other = ordered(world.database)
    const drain = async () => {
      const claimed = await other.claim({ limit: 10, lease })
      await other.settle(claimed.map(published))
      return idsOf(claimed)
    }
    expect(await drain()).toEqual(['a2'])
    await write(keyed('a', 'a3'))
    expect(await drain()).toEqual(['a3'])
    await other.rearm({ ids: [first?.id ?? ''] })
    expect(await drain()).toEqual(['a1'])
  })
})
