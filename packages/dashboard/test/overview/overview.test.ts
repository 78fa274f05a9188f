import type { DestinationStats, OutboxAdmin, RelayReport } from '@ackord/outbox'
import { deferred, settlePromises } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import type { Overview, StoreOverview } from '../../src/api/types.ts'
import { append, codeOf, openWorld, settle, type World, withFunctions } from '../support/world.ts'

const parts = ['stats', 'activity', 'rates', 'pauses', 'relays'] as const

/** The store, and the names of the functions that the poller has called. */
function counted(store: OutboxAdmin): { readonly store: OutboxAdmin; readonly calls: string[] } {
  const calls: string[] = []
  const functions = Object.fromEntries(
    parts.map((part) => [
      part,
      (...given: never[]) => {
        calls.push(part)
        return (store[part] as (...given: never[]) => Promise<unknown>).call(store, ...given)
      },
    ]),
  )
  return { store: withFunctions(store, functions), calls }
}

async function overviewOf(world: World): Promise<StoreOverview> {
  const { body } = await world.client.get<Overview>('overview')
  return body.stores[0] as StoreOverview
}

interface Stream {
  /** The next event. */
  next(): Promise<Overview>
  readonly response: Response
  readonly reader: ReadableStreamDefaultReader<Uint8Array>
}

/** Opens a stream of events. */
async function listen(world: World, signal?: AbortSignal): Promise<Stream> {
  const headers = { 'x-user': 'ann', 'x-rights': 'view' }
  const response = await world.dashboard.fetch(new Request('http://x/api/events', { headers, ...(signal && { signal }) }))
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  return {
    response,
    reader,
    async next() {
      const { value } = await reader.read()
      const [, data = ''] = /^event: overview\ndata: (.*)\n\n$/.exec(Buffer.from(value ?? []).toString()) ?? []
      return JSON.parse(data) as Overview
    },
  }
}

describe('the overview', () => {
  it('has the figures of each store', async () => {
    await using world = await openWorld()
    await append(world.store, { id: 'a' })
    await settle(world.store, { result: 'parked' })
    await append(world.store, { id: 'b' }, { id: 'c', delay: 3_600_000 }, { id: 'd', destination: 'mail' })
    await world.runtime.advance(5000)

    expect(await overviewOf(world)).toEqual({
      store: 'shop',
      at: world.runtime.now(),
      oldestAge: 5000,
      destinations: [
        { destination: 'mail', ready: 1, waiting: 0, leased: 0, parked: 0, published: 0, capped: false, oldestAge: 5000 },
        { destination: 'orders', ready: 1, waiting: 1, leased: 0, parked: 1, published: 0, capped: false, oldestAge: 5000 },
      ],
      omittedDestinations: 0,
      rates: [],
      backlog: [{ at: world.runtime.now(), records: 3, unpublished: 4 }],
    })
  })

  it('has relays, rates, pauses, and destinations that are down', async () => {
    await using world = await openWorld()
    const { notes } = world.store
    const relay: Omit<RelayReport, 'id' | 'age'> = {
      host: 'h',
      pid: 7,
      uptime: 1000,
      destinations: undefined,
      inFlight: 3,
      down: [{ destination: 'mail', downFor: 4000 }],
      partitions: 5,
      published: 10,
      failed: 1,
      parked: 0,
    }
    const names = ['r1', 'r2']
    await notes.put(
      'relay',
      names.map((name) => ({ name, value: JSON.stringify(relay) })),
      30_000,
    )
    const rate = { duration: 60_000, destination: 'orders', published: 5, failed: 1, parked: 0 }
    await notes.put(
      'rate',
      names.map((name) => ({ name, value: JSON.stringify(rate) })),
      3_600_000,
    )
    await world.store.pause('sms', { by: 'bob', reason: 'expensive' })
    await overviewOf(world)
    await world.runtime.advance(2000)
    const overview = await overviewOf(world)

    expect(overview).toMatchObject({
      destinations: [
        { destination: 'mail', ready: 0, downFor: 6000 },
        { destination: 'sms', paused: { by: 'bob', reason: 'expensive' } },
      ],
      relays: [{ host: 'h', partitions: 5, inFlight: 3, age: 2000 }, { id: 'r1' }],
    })
    // Those of the two relays together.
    expect(overview.rates).toEqual([{ ...rate, at: world.runtime.now() - 2000, published: 10, failed: 2 }])
  })

  it('marks numbers that are lower limits', async () => {
    await using world = await openWorld()
    await append(world.store, ...Array.from({ length: 10_001 }, (_, index) => ({ id: `m${index}` })))
    const overview = await overviewOf(world)
    expect(overview).toMatchObject({ destinations: [{ ready: 10_000, capped: true }] })
    expect(overview.backlog[0]).not.toHaveProperty('unpublished')
  })

  it('lists 500 destinations, those that need attention first', async () => {
    await using world = await openWorld()
    const stats = Array.from({ length: 700 }, (_, index): DestinationStats => {
      return { destination: `d${index}`, ready: index, waiting: 0, leased: 0, parked: 0, published: 0, oldestAge: undefined }
    })
    const shop = withFunctions(world.store, {
      stats: async () => ({ destinations: stats, oldestAge: undefined }),
      activity: async () => ({ pauses: [{ destination: 'd1', since: 0, until: undefined }], relays: [], rates: [] }),
    })
    await using other = await openWorld({ stores: { shop } })
    await overviewOf(other)
    await other.runtime.advance(6000)
    const { destinations, omittedDestinations } = await overviewOf(other)
    const names = destinations.map(({ destination }) => destination)

    expect([names.length, omittedDestinations]).toEqual([500, 200])
    expect([names.includes('d1'), names.includes('d2'), names.includes('d699')]).toEqual([true, false, true])
  })

  it('says whether the relays have been read, and whether there are none', async () => {
    await using world = await openWorld()
    expect(await overviewOf(world)).not.toHaveProperty('relays')
    await world.runtime.advance(2000)
    expect((await overviewOf(world)).relays).toEqual([])
  })

  it('asks for relays, rates and pauses one by one where a store has no single call for them', async () => {
    await using world = await openWorld()
    await world.store.pause('sms')
    const { store, calls } = counted(withFunctions(world.store, { activity: undefined }))
    await using other = await openWorld({ stores: { shop: withFunctions(store, { activity: undefined, relays: undefined }) } })
    await overviewOf(other)
    await other.runtime.advance(2000)
    expect(await overviewOf(other)).toMatchObject({ relays: [], rates: [], destinations: [{ destination: 'sms', paused: {} }] })
    expect(calls).toEqual(['stats', 'pauses', 'rates'])
    // Two calls, so the next one comes four seconds later.
    await other.runtime.advance(2000)
    await overviewOf(other)
    expect(calls).toHaveLength(3)
    await other.runtime.advance(2000)
    await overviewOf(other)
    expect(calls).toHaveLength(4)
  })

  it('asks less often where the numbers of a store take several statements', async () => {
    await using world = await openWorld()
    const { calls, store } = counted(world.store)
    const stats: OutboxAdmin['stats'] = async (options) => ({ ...(await store.stats(options)), requests: 8 })
    await using other = await openWorld({ stores: { shop: withFunctions(store, { stats }) } })
    const readAt: number[] = []
    for (let second = 0; second < 200; second += 2) {
      await overviewOf(other)
      while (readAt.length < calls.length) readAt.push(second)
      await other.runtime.advance(2000)
    }
    // Eight for each call of stats(), one for each of activity().
    const requests = calls.reduce((sum, call) => sum + (call === 'stats' ? 8 : 1), 0)
    expect(requests).toBeLessThanOrEqual(200 / 2 + 8)
    expect(requests).toBeGreaterThanOrEqual(200 / 2 - 8)
    expect(calls.slice(0, 4)).toEqual(['stats', 'activity', 'stats', 'activity'])
    expect(readAt.slice(0, 4)).toEqual([0, 16, 18, 34])
  })

  it('keeps the backlog of the last 30 minutes, in steps of at least ten seconds', async () => {
    await using world = await openWorld()
    const stream = await listen(world)
    void (async () => {
      while (!(await stream.reader.read()).done);
    })()
    await world.runtime.advance(60_000)
    await append(world.store, { id: 'a' })
    await world.runtime.advance(9 * 60_000)
    const { backlog } = await overviewOf(world)

    const gaps = backlog.slice(1).map(({ at }, index) => at - (backlog[index]?.at ?? 0))
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(10_000)
    expect(Math.max(...gaps)).toBeLessThanOrEqual(16_000)
    expect([backlog.at(0)?.records, backlog.at(-1)?.records]).toEqual([0, 1])
    expect((backlog.at(-1)?.at ?? 0) - (backlog.at(0)?.at ?? 0)).toBeGreaterThan(9 * 60_000)
    await world.runtime.advance(40 * 60_000)
    expect((await overviewOf(world)).backlog).toHaveLength(1)
  })

  it('shows the error and the last figures of a store that cannot be read', async () => {
    await using world = await openWorld()
    await append(world.store, { id: 'a' })
    let fails = false
    const stats: OutboxAdmin['stats'] = (options) =>
      fails ? Promise.reject(new Error('Cannot reach redis://me:hunter2@cache/')) : world.store.stats(options)
    await using other = await openWorld({ stores: { shop: withFunctions(world.store, { stats }) } })
    const readAt = other.runtime.now()
    expect(await overviewOf(other)).not.toHaveProperty('error')
    fails = true
    await other.runtime.advance(20_000)
    expect(await overviewOf(other)).toMatchObject({ error: 'Cannot reach redis://cache/', destinations: [{ ready: 1 }] })
    expect((await overviewOf(other)).at).toBeGreaterThanOrEqual(readAt)
    fails = false
    await other.runtime.advance(10_000)
    expect(await overviewOf(other)).not.toHaveProperty('error')
  })

  it('does not wait for a slow store', async () => {
    await using world = await openWorld()
    await append(world.store, { id: 'a' })
    const slow = deferred<never>()
    const stores = { slow: withFunctions(world.store, { stats: () => slow.promise }), shop: world.store }
    await using other = await openWorld({ stores })
    const looking = other.client.get<Overview>('overview')
    await settlePromises()
    await other.runtime.advance(500)
    expect((await looking).body.stores).toMatchObject([
      { store: 'slow', error: 'The store has not answered yet.', destinations: [] },
      { store: 'shop', destinations: [{ ready: 1 }] },
    ])
    await other.runtime.advance(4500)

    expect((await other.client.get<Overview>('overview')).body.stores[0]?.error).toBe('The store did not answer within 5 seconds.')
  })

  it('of a closed dashboard leaves no timers, although a store has not answered', async () => {
    await using world = await openWorld()
    const stores = { slow: withFunctions(world.store, { stats: () => new Promise<never>(() => {}) }) }
    const other = await openWorld({ stores })
    const stream = await listen(other)
    await settlePromises()
    expect(other.runtime.timers).toBeGreaterThan(0)
    await other.dashboard.close()
    await settlePromises()

    expect(other.runtime.timers).toBe(0)
    expect(await stream.reader.read()).toEqual({ done: true, value: undefined })
  })
})

describe('the cost of the overview', () => {
  const minute = 60_000

  it.each([1, 20])('is one call of each store every two seconds for %i streams', async (streams) => {
    await using world = await openWorld()
    const [shop, mail] = [counted(world.store), counted(world.store)]
    await using other = await openWorld({ stores: { shop: shop.store, mail: mail.store } })
    const events = await Promise.all(
      Array.from({ length: streams }, async () => {
        const stream = await listen(other)
        let count = 0
        void (async () => {
          while (!(await stream.reader.read()).done) count += 1
        })()
        return () => count
      }),
    )
    // Requests for the overview cost nothing more.
    for (let second = 0; second < 60; second += 1) {
      await other.runtime.advance(1000)
      await other.client.get('overview')
    }

    for (const { calls } of [shop, mail]) {
      expect(calls.length).toBeLessThanOrEqual(31)
      expect(calls.length).toBeGreaterThanOrEqual(30)
      const countOf = (part: string) => calls.filter((call) => call === part).length
      // The numbers of records are at most four seconds old, and mostly two.
      expect(countOf('stats')).toBeGreaterThanOrEqual(25)
      expect([5, 6]).toContain(countOf('activity'))
      expect(calls.join(' ')).not.toContain('activity activity')
    }
    for (const count of events) expect(count()).toBeGreaterThanOrEqual(30)
  })

  it('is nothing while no browser has the page open', async () => {
    await using world = await openWorld()
    const shop = counted(world.store)
    await using other = await openWorld({ stores: { shop: shop.store } })
    await other.runtime.advance(minute)
    expect([shop.calls, other.runtime.timers]).toEqual([[], 0])

    await other.client.get('overview')
    await other.runtime.advance(minute)
    // At 0, 2, 4, 6 and 8 seconds.
    expect([shop.calls, other.runtime.timers]).toEqual([['stats', 'activity', 'stats', 'stats', 'stats'], 0])

    const stop = new AbortController()
    await listen(other, stop.signal)
    await other.runtime.advance(minute)
    stop.abort()
    await other.runtime.advance(minute)
    const { length } = shop.calls
    await other.runtime.advance(minute)
    expect([shop.calls.length, other.runtime.timers]).toEqual([length, 0])
  })

  it('is no further call for a store that does not answer', async () => {
    await using world = await openWorld()
    let calls = 0
    const answered = deferred()
    const stats = async () => {
      calls += 1
      await answered.promise
      return await world.store.stats()
    }
    const shop = withFunctions(world.store, { stats, activity: undefined, rates: undefined, pauses: undefined, relays: undefined })
    await using other = await openWorld({ stores: { shop } })
    await listen(other)
    await other.runtime.advance(30_000)
    expect(calls).toBe(1)
    expect((await overviewOf(other)).error).toBe('The store did not answer within 5 seconds.')

    answered.resolve()
    await other.runtime.advance(4000)
    expect(calls).toBeGreaterThan(1)
    expect((await overviewOf(other)).error).toBeUndefined()
  })
})

describe('a stream of events', () => {
  it('begins with the figures, and has those of each round', async () => {
    await using world = await openWorld()
    const stream = await listen(world)
    expect(stream.response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(stream.response.headers.get('cache-control')).toBe('no-store, no-transform')
    expect(await stream.next()).toMatchObject({ stores: [{ destinations: [] }] })
    await append(world.store, { id: 'a' })
    const ready: (number | undefined)[] = []
    for (let round = 1; round <= 4; round += 1) {
      await world.runtime.advance(2000)
      ready.push((await stream.next()).stores[0]?.destinations[0]?.ready)
    }
    // The round between reads the relays.
    expect(ready).toEqual([undefined, 1, 1, 1])
  })

  it('skips events that a slow client has not read', async () => {
    await using world = await openWorld()
    const stream = await listen(world)
    await append(world.store, { id: 'a' })
    await world.runtime.advance(60_000)
    expect(await stream.next()).toMatchObject({ stores: [{ destinations: [] }] })
    await world.runtime.advance(4000)
    expect(await stream.next()).toMatchObject({ stores: [{ destinations: [{ ready: 1 }] }] })
  })

  it('contains hostile texts as JSON in one line', async () => {
    await using world = await openWorld()
    const destination = 'x\n\nevent: overview\ndata: {"stores":[]}\r\n'
    await append(world.store, { id: 'a', destination })
    expect(await (await listen(world)).next()).toMatchObject({ stores: [{ destinations: [{ destination }] }] })
  })

  it.each(['cancels it', 'disconnects'])('ends when the client %s', async (how) => {
    await using world = await openWorld()
    const client = new AbortController()
    const stream = await listen(world, client.signal)
    await stream.next()
    if (how === 'disconnects') client.abort()
    else await stream.reader.cancel()
    await world.runtime.advance(20_000)
    expect(world.runtime.timers).toBe(0)
  })

  it('of a client that has already disconnected ends at once', async () => {
    await using world = await openWorld()
    expect(await (await listen(world, AbortSignal.abort())).reader.read()).toEqual({ done: true, value: undefined })
    expect(world.runtime.timers).toBe(0)
  })

  it('ends after ten minutes, so that the rights of its user are checked again', async () => {
    await using world = await openWorld()
    const { reader } = await listen(world)
    let ended = false
    void (async () => {
      while (!(await reader.read()).done);
      ended = true
    })()
    await world.runtime.advance(599_000)
    expect(ended).toBe(false)
    await world.runtime.advance(1000)
    expect(ended).toBe(true)
  })

  it('is refused if there are 200', async () => {
    await using world = await openWorld()
    const streams = await Promise.all(Array.from({ length: 200 }, () => listen(world)))
    expect(codeOf(await world.client.get('events'))).toBe('429 too_many')
    await streams[0]?.reader.cancel()
    expect((await listen(world)).response.status).toBe(200)
  })
})
