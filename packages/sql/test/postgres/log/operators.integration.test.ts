import { describe, expect, it } from 'vitest'
import type { SqlOutbox } from '../../../src/index.ts'
import { openPg } from '../../support/world.ts'
import { append, drain, logged, openSession, ringOf, rotate } from '../support/log-store.ts'
import { idsOf, keyed, lease, ordered, published, record } from '../support/ordered-store.ts'

/** The ids and states of all records that match, read in pages. */
async function listed(store: SqlOutbox<unknown>, filter: Parameters<typeof store.list>[0] = {}, limit = 2): Promise<unknown[][]> {
  const found: unknown[][] = []
  let after: string | undefined
  do {
    const page = await store.list(filter, { limit, after })
    found.push(...page.records.map(({ message, state }) => [message.id, state]))
    after = page.next
  } while (after !== undefined)
  return found
}

async function seqOf(store: SqlOutbox<unknown>, messageId: string): Promise<string> {
  const { records } = await store.list({ messageId }, { limit: 2 })
  expect(records).toHaveLength(1)
  return records[0]?.id ?? ''
}

/** Every rotation leaves a leaf that has records, and published records are kept for an hour. */
const retained = { maxAge: 0, keep: 3_600_000 }

describe("the operators' functions in log mode", () => {
  it('park a record that a relay is publishing, and no relay can claim it meanwhile', async () => {
    await using world = await openPg({ fresh: true })
    const store = logged(world.database)
    await append(world, record('a'))
    const claimed = await store.claim({ limit: 10, lease })
    expect(idsOf(claimed)).toEqual(['a'])
    await world.query(
      `CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN new; END'`,
    )
    await world.query('CREATE TRIGGER wait BEFORE UPDATE ON ackord_outbox FOR EACH ROW EXECUTE FUNCTION wait()')
    await using session = await openSession(world)
    await session.client.query('SELECT pg_advisory_lock(4711)')
    const parking = store.park([claimed[0]?.id ?? ''], 'by hand')
    await expect
      .poll(() => world.query(`SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'advisory'`, [world.schema]))
      .toHaveLength(1)
    for (let count = 0; count < 5; count += 1) expect(await store.claim({ limit: 10, lease })).toEqual([])
    await session.client.query('SELECT pg_advisory_unlock(4711)')
    expect(await parking).toBe(1)
    await store.settle(claimed.map(published))
    expect(await drain(store)).toEqual([])
    expect(await listed(store)).toEqual([['a', 'parked']])
  })

  it('list, count and find records of the log and of the outbox table together', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('done'))
    expect(await drain(store)).toEqual(['done'])
    await world.database.write((transaction) => ordered(world.database).append(transaction, [record('t1', {}, 'other'), keyed('k', 't2')]))
    await append(world, record('l1', { type: 'order.paid' }), keyed('k', 'l2'), record('l3', {}, 'other'), {
      ...record('later'),
      delay: lease,
    })
    const all = ['t1', 't2', 'l1', 'l2', 'l3'].map((id) => [id, 'ready'])
    for (const limit of [1, 2, 3, 100]) expect(await listed(store, {}, limit)).toEqual([...all, ['later', 'waiting']])
    expect(await listed(store, { state: 'ready' })).toEqual(all)
    expect(await listed(store, { state: 'waiting' })).toEqual([['later', 'waiting']])
    expect(await listed(store, { state: 'parked' })).toEqual([])
    expect(await listed(store, { destination: 'other' })).toEqual([all[0], all[4]])
    expect(await listed(store, { type: 'order.paid' })).toEqual([all[2]])
    expect(await listed(store, { orderingKey: 'k' })).toEqual([all[1], all[3]])
    expect(await listed(store, { messageId: 'l2' })).toEqual([all[3]])
    expect(await listed(store, { minAge: lease })).toEqual([])
    expect(await listed(store, { maxAge: lease })).toHaveLength(6)
    expect(await listed(store, { cause: 'TypeError' })).toEqual([])
    const { records } = await store.list({ messageId: 'l1' }, { limit: 1, payloads: false })
    expect(records[0]?.message.data).toEqual(new Uint8Array(0))
    const found = await store.get(await seqOf(store, 'l1'))
    expect(found).toMatchObject({ state: 'ready', destination: 'events', attempts: 0 })
    expect(new TextDecoder().decode(found?.message.data as Uint8Array)).toBe('l1')
    const counts = (await store.stats()).destinations.map(({ destination, ready, waiting }) => [destination, ready, waiting])
    expect(counts.toSorted()).toEqual([
      ['events', 3, 1],
      ['other', 2, 0],
    ])
    const limited = await store.stats({ limit: 2 })
    expect(limited.destinations.every(({ capped }) => capped)).toBe(true)
    expect(limited.oldestAge).toBeGreaterThan(0)
  })

  it('show a record once while it is being moved to the outbox table', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, keyed('k', 'k1'), keyed('k', 'k2'))
    const [first] = await store.claim({ limit: 1, lease })
    if (first === undefined) throw new Error('Nothing was claimed.')
    await store.settle([{ id: first.id, token: first.token, result: 'failed', error: 'busy', retryAfter: lease }])
    await append(world, keyed('k', 'k3'))
    expect(await store.claim({ limit: 1, lease })).toEqual([])
    expect(await world.outbox()).toBe(3)
    expect(await listed(store, {}, 100)).toEqual([
      ['k1', 'waiting'],
      ['k2', 'ready'],
      ['k3', 'ready'],
    ])
    for (const id of ['k2', 'k3']) expect(await store.history(await seqOf(store, id))).toEqual([])
    expect(await store.history(await seqOf(store, 'k1'))).toMatchObject([{ error: 'busy' }])
    expect((await store.stats()).destinations).toMatchObject([{ ready: 2, waiting: 1 }])
  })

  it('park, re-arm and discard records of the log', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, keyed('k', 'k1'), keyed('k', 'k2'), record('r1'))
    expect(await store.park([await seqOf(store, 'k1'), await seqOf(store, 'r1')], 'by hand')).toBe(2)
    expect(await listed(store)).toEqual([
      ['k1', 'parked'],
      ['k2', 'ready'],
      ['r1', 'parked'],
    ])
    expect(await listed(store, { minParkedAge: 0 })).toEqual([
      ['k1', 'parked'],
      ['r1', 'parked'],
    ])
    expect(await listed(store, { minParkedAge: lease })).toEqual([])
    expect(await store.claim({ limit: 10, lease, behindParked: 'kept' })).toEqual([])
    expect(await store.discard([await seqOf(store, 'r1')], 'not needed')).toBe(1)
    expect(await store.rearm({ ids: [await seqOf(store, 'k1')] })).toBe(1)
    expect(await drain(store)).toEqual(['k1', 'k2'])
    expect(await listed(store)).toEqual([])
  })

  it('park records that a relay has read, but not claimed', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('r1'), keyed('k', 'k1'), keyed('k', 'k2'), record('r2'), record('r3'))
    const claimed = await store.claim({ limit: 1, lease })
    const other = logged(world.database)
    expect(await other.park([await seqOf(other, 'k1'), await seqOf(other, 'r2')], 'by hand')).toBe(2)
    await store.settle(claimed.map(published))
    const rest = await store.claim({ limit: 10, lease, behindParked: 'kept' })
    expect(idsOf([...claimed, ...rest]).toSorted()).toEqual(['r1', 'r3'])
    await store.settle(rest.map(published))
    expect(await store.claim({ limit: 10, lease, behindParked: 'kept' })).toEqual([])
    expect(await listed(store)).toEqual([
      ['k1', 'parked'],
      ['k2', 'ready'],
      ['r2', 'parked'],
    ])
    await store.rearm({ filter: {} })
    expect(await drain(store)).toEqual(['k1', 'k2', 'r2'])
    expect(await listed(store)).toEqual([])
  })

  it('leave a parked record parked when the relay that has read it leaves', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await append(world, record('r1'), record('r2'), record('r3'))
    const claimed = await store.claim({ limit: 1, lease })
    await store.park([await seqOf(store, 'r2')], 'by hand')
    await store.settle(claimed.map(published))
    await store.leave?.()
    expect(await listed(store, {}, 100)).toEqual([
      ['r2', 'parked'],
      ['r3', 'ready'],
    ])
    expect(await world.outbox()).toBe(2)
    expect(await drain(logged(world.database))).toEqual(['r3'])
  })

  it('read what a transaction has appended, in either mode', async () => {
    await using world = await openPg()
    const store = logged(world.database)
    await using session = await openSession(world)
    const { client } = session
    await client.query('BEGIN')
    await store.append(client, [record('l1'), { ...record('later'), delay: lease }])
    await append(world, record('other'))
    expect(await drain(store)).toEqual(['other'])
    await ordered(world.database).append(client, [record('t1')])
    await store.append(client, [record('l2')])
    expect((await store.readAppended(client)).map(({ message }) => message.id)).toEqual(['l1', 'later', 't1', 'l2'])
  })

  it('do not take a retained record for published that was moved to the outbox table, or discarded or cancelled there', async () => {
    await using world = await openPg()
    const store = logged(world.database, { retain: true })
    await append(world, ...['waiting', 'parked', 'discarded', 'cancelled', 'withdrawn', 'published'].map((id) => record(id)))
    const claimed = await store.claim({ limit: 10, lease })
    await store.settle(
      claimed.map((one) => {
        const { id, token } = one
        if (one.message.id === 'published') return published(one)
        if (['waiting', 'cancelled', 'withdrawn'].includes(one.message.id ?? ''))
          return { id, token, result: 'failed', error: 'busy', retryAfter: lease }
        return { id, token, result: 'parked', error: 'bad' }
      }),
    )
    expect(await store.discard([await seqOf(store, 'discarded')], 'not needed')).toBe(1)
    expect(await store.cancelWaiting([await seqOf(store, 'cancelled')], 'not needed')).toBe(1)
    const { destination, message } = record('withdrawn')
    const reference = { destination, source: message.source ?? '', id: 'withdrawn' }
    // The outbox of a writing service keeps nothing itself.
    expect(await world.database.write((transaction) => logged(world.database).cancel(transaction, reference))).toBe(1)
    expect(await listed(store, {}, 100)).toEqual([
      ['waiting', 'waiting'],
      ['parked', 'parked'],
      ['published', 'published'],
    ])
    expect(await listed(store, { state: 'published' })).toEqual([['published', 'published']])
    expect((await store.stats()).destinations).toMatchObject([{ waiting: 1, parked: 1, published: 1 }])
    expect(await store.rearm({ filter: { type: 'order.placed' } }, {}, { state: 'published' })).toBe(1)
    expect(await drain(store)).toEqual(['published'])
  })

  it('list published records and re-arm them if they are retained, until they are deleted', async () => {
    await using world = await openPg()
    const store = logged(world.database, { retain: true })
    await append(world, record('a1'), keyed('k', 'a2'), record('a3'))
    expect(await drain(store)).toEqual(['a1', 'a2', 'a3'])
    await rotate(world, retained)
    await append(world, record('b1'))
    const all = ['a1', 'a2', 'a3'].map((id) => [id, 'published'])
    await rotate(world, retained)
    expect(await ringOf(world)).toEqual({ written: 2, records: [3, 1, 0, 0] })
    expect(await listed(store)).toEqual([...all, ['b1', 'ready']])
    expect(await listed(store, { state: 'published' })).toEqual(all)
    expect(await store.get(await seqOf(store, 'a1'))).toMatchObject({ state: 'published' })
    expect((await store.stats({ limit: 2 })).destinations).toMatchObject([{ ready: 1, published: 2, capped: true }])
    expect((await store.stats()).destinations).toMatchObject([{ ready: 1, published: 3 }])
    expect(await store.rearm({ ids: [await seqOf(store, 'a2')] }, {}, { state: 'published' })).toBe(1)
    expect(await listed(store, { state: 'ready' })).toEqual([
      ['a2', 'ready'],
      ['b1', 'ready'],
    ])
    expect((await drain(store)).toSorted()).toEqual(['a2', 'b1'])
    expect(await listed(store, { state: 'published' })).toEqual([...all, ['b1', 'published']])
    expect(await store.rearm({ filter: { type: 'order.placed' } }, {}, { state: 'published' })).toBe(4)
    expect((await drain(store)).toSorted()).toEqual(['a1', 'a2', 'a3', 'b1'])
    await append(world, record('c1'))
    expect(await drain(store)).toEqual(['c1'])
    await rotate(world, retained)
    await world.query(`UPDATE ackord_log SET created_at = created_at - interval '2 hours' WHERE leaf = 0`)
    await rotate(world, retained)
    expect(await ringOf(world)).toEqual({ written: 3, records: [0, 1, 1, 0] })
    // What was re-armed is kept in the outbox table.
    expect(await store.deletePublished({ olderThan: 0, limit: 100 })).toBe(4)
    expect(await listed(store)).toEqual([['c1', 'published']])
  })

  it('keep published records for as long as the outbox says, and refuse that where it has no effect', async () => {
    await using world = await openPg({ fresh: true })
    const later = () => world.query(`UPDATE ackord_meta SET changed_at = changed_at - interval '2 days' WHERE name = 'log'`)
    const kept = async (keepPublished?: number) => {
      const store = logged(world.database, { retain: true, keepPublished })
      await drain(store)
      await later()
      // A relay that leaves rotates the log.
      await store.leave?.()
      return (await ringOf(world)).records.reduce((sum, count) => sum + count)
    }
    await append(world, record('a'))
    expect(await kept()).toBe(1)
    expect(await kept()).toBe(1)
    expect(await kept(0)).toBe(0)
    for (const options of [{ keepPublished: 1 }, { retain: true, keepPublished: 1, mode: 'table' as const }])
      expect(() => logged(world.database, options)).toThrow(/keepPublished/)
    expect(() => logged(world.database, { retain: true, keepPublished: -1 })).toThrow(/keepPublished/)
  })
})
