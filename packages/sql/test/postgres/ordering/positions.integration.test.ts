import { describe, expect, it } from 'vitest'
import { failureOf, openPg, worldKinds } from '../../support/world.ts'
import { idsOf, keyed, lease, ordered, published, record, skewed } from '../support/ordered-store.ts'

/** SQL that inserts many records without a key directly into the table. */
const fill = (
  from: number,
  to: number,
) => `INSERT INTO ackord_outbox (state, destination, id, type, partition, data, attributes, available_at)
  SELECT 'ready', 'events', 'e' || n, 't', n % 256, '\\x00', '{"id":"e' || n || '","type":"t","source":"/s"}', clock_timestamp()
  FROM generate_series(${from}, ${to}) AS n`

describe('a record that is committed late', () => {
  it('is found by the next claim if it is slightly late', async () => {
    await using world = await openPg()
    const store = ordered(world.database)
    const client = await world.client()
    await client.query('BEGIN')
    await store.append(client as never, [record('late')])
    await world.database.write((transaction) => store.append(transaction, [record('e1'), record('e2')]))
    const first = await store.claim({ limit: 10, lease })
    expect(idsOf(first)).toEqual(['e1', 'e2'])
    await store.settle(first.map(published))
    await client.query('COMMIT')
    client.release()
    expect(idsOf(await store.claim({ limit: 10, lease }))).toEqual(['late'])
  })

  it('is found by a sweep if thousands were read meanwhile, whether or not there are other records', async () => {
    await using world = await openPg()
    let now = Date.now()
    const store = ordered(world.database, { ...skewed(0), now: () => now, monotonic: () => now })
    const client = await world.client()
    await client.query('BEGIN')
    await store.append(client as never, [record('late'), record('later')])
    await world.query(fill(1, 6000))
    const drain = async (limit: number) => {
      const claimed = await store.claim({ limit, lease })
      await store.settle(claimed.map(published))
      return claimed
    }
    for (let round = 0; round < 5; round += 1) expect(await drain(1000)).toHaveLength(1000)
    await client.query('COMMIT')
    client.release()
    // There are enough other records to claim, but a sweep is due.
    now += 5000
    const found = [...(await drain(400)), ...(await drain(400)), ...(await drain(400))]
    expect(idsOf(found)).toContain('late')
    while ((await drain(1000)).length > 0);
    expect(await world.outbox()).toBe(0)
  })

  it('is read once: settled records and those of other members are not read again and again', async () => {
    await using world = await openPg()
    await world.query(fill(1, 20_000))
    const store = ordered(world.database)
    for (let round = 0; round < 20; round += 1) {
      const claimed = await store.claim({ limit: 500, lease })
      expect(claimed).toHaveLength(500)
      expect(new Set(await store.settle(claimed.map(published)))).toEqual(new Set(['applied']))
    }
    expect(await world.outbox()).toBe(10_000)
  })
})

describe.each(worldKinds)('claims in order on $name', ({ open }) => {
  it('return released records immediately, even far below the read position', async () => {
    await using world = await open()
    await world.query(fill(1, 4000))
    const store = ordered(world.database)
    const first = await store.claim({ limit: 10, lease })
    for (let round = 0; round < 3; round += 1) await store.claim({ limit: 1000, lease })
    await store.release(first)
    expect(idsOf(await store.claim({ limit: 10, lease }))).toEqual(idsOf(first))
  })

  it('park unreadable records, and continue with their key', async () => {
    await using world = await open()
    const store = ordered(world.database)
    await world.database.write((transaction) => store.append(transaction, [keyed('a', 'a1'), keyed('a', 'a2'), keyed('a', 'a3')]))
    await world.query(`UPDATE ackord_outbox SET attributes = '[]' WHERE id = 'a2'`)
    const first = await store.claim({ limit: 10, lease, behindParked: 'kept' })
    expect(idsOf(first)).toEqual(['a1'])
    await store.settle(first.map(published))
    expect(idsOf(await store.claim({ limit: 10, lease, behindParked: 'kept' }))).toEqual([])
    expect(idsOf(await store.claim({ limit: 10, lease }))).toEqual(['a3'])
  })

  it('report what is missing when the tables are older', async () => {
    await using world = await open()
    await world.query(`DROP TABLE ackord_relays`)
    expect(await failureOf(ordered(world.database).claim({ limit: 1, lease }))).toMatchObject({ problem: 'missing' })
  })
})
