import { Message, type PublishResult, silentLogger } from '@ackord/core'
import { afterEach, describe, expect, it } from 'vitest'
import { deferred, recordingPublisher } from '../../../core/test/support/router-world.ts'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore } from '../../src/memory/memory-outbox-store.ts'
import type { RelayOptions } from '../../src/options/relay-options.ts'
import { Relay } from '../../src/relay/relay.ts'
import { answering, ids, openWorld, type StoreCall, WatchedStore, type World } from '../support/relay-world.ts'

const ok: PublishResult = { ok: true }

/** Blocks the first settle until the next batch has been claimed. */
async function openWaiting(options: Parameters<typeof openWorld>[0] = {}) {
  const world = openWorld({ batchSize: 2, lease: 3000, ...options })
  const settling = deferred()
  world.store.before = (call) => (call === 'settle' && world.store.count('settle') === 1 ? settling.promise : undefined)
  await world.add('orders', ...ids(4))
  world.relay.start()
  await world.runtime.advance(0)
  expect(world.store.calls).toEqual(['claim', 'settle', 'claim'])
  return { world, settling }
}

/** Simulates that another relay holds these records in the store. */
function losing({ memory, store }: World, lost: readonly string[]): void {
  store.renew = async (claims, lease) => {
    const kept = await memory.renew(claims, lease)
    return claims.map(({ id }, index) => kept[index] === true && !lost.includes(id))
  }
}

describe('a batch that waits until another one is settled', () => {
  it('has its lease renewed, and is sent although the wait was longer than the lease', async () => {
    const world = openWorld({ batchSize: 2, lease: 3000, concurrency: 2 })
    const settling = deferred()
    world.store.before = (call) => (call === 'settle' ? settling.promise : undefined)
    await world.add('orders', ...ids(8))
    world.relay.start()
    await world.runtime.advance(2900)
    expect(world.relay.health().inFlight).toBe(8)
    expect(world.store.count('renew')).toBe(2)
    await world.runtime.advance(3000)
    // The sent records could not be settled in time; the waiting ones are still owned, and were sent once.
    expect(world.relay.health()).toMatchObject({ leasesLost: 4 })
    expect(world.sent().slice(0, 8)).toEqual(ids(8))
    settling.resolve()
    await world.runtime.advance(20_000)
    expect(await world.states()).toEqual({})
    await world.relay.stop()
    expect(world.runtime.timers).toBe(0)
  })

  it('does not send records that it lost meanwhile', async () => {
    const { world, settling } = await openWaiting()
    losing(world, ['3'])
    await world.runtime.advance(1500)
    expect(world.relay.health().leasesLost).toBe(1)
    settling.resolve()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual(['e1', 'e2', 'e4'])
    expect(await world.states()).toEqual({ leased: 1 })
    await world.relay.stop()
  })

  it('sends nothing if it lost everything', async () => {
    const { world, settling } = await openWaiting()
    losing(world, ['3', '4'])
    await world.runtime.advance(1500)
    settling.resolve()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual(['e1', 'e2'])
    expect(world.relay.health()).toMatchObject({ leasesLost: 2, inFlight: 0 })
    await world.relay.stop()
  })

  it('is not sent at the end of its lease while the store is unavailable', async () => {
    const world = openWorld({
      batchSize: 2,
      lease: 3000,
      answer: async ({ messages }) => {
        await new Promise<void>((resolve) => void world.runtime.setTimeout(resolve, 100))
        return messages.map(() => ok)
      },
    })
    await world.add('orders', ...ids(4))
    world.relay.start()
    const back = world.runtime.now() + 10_000
    world.store.before = (call) => {
      const before = call === 'claim' && world.store.count('claim') <= 2
      if (!before && world.runtime.now() < back) throw new Error('the store is away')
    }
    await world.runtime.advance(5000)
    // The batch would have 100 ms left to be sent and settled, during an outage: a relay that can reach the store claims it soon.
    expect(world.sent()).toEqual(['e1', 'e2'])
    await world.runtime.advance(60_000)
    expect(await world.states()).toEqual({})
    await world.relay.stop()
    expect(world.runtime.timers).toBe(0)
  })

  it('is not claimed while the dead letter is being sent: another relay may claim it meanwhile', async () => {
    const dead = recordingPublisher(() => new Promise(() => {}))
    const world = openWorld({
      batchSize: 2,
      publishTimeout: 1000,
      answer: answering({ bad: { error: new Error('too large'), permanent: true } }),
      deadLetter: { publisher: dead, destination: 'dead' },
    })
    await world.add('orders', 'e1', 'bad', 'e2')
    world.relay.start()
    await world.runtime.advance(500)
    expect(dead.calls).toHaveLength(1)
    expect(await world.states()).toEqual({ leased: 1, ready: 1 })
    await world.runtime.advance(500)
    expect(world.sent()).toEqual(['e1', 'bad', 'e2'])
    expect(await world.states()).toEqual({ parked: 1 })
    await world.relay.stop()
  })

  it.each([
    ['in time', 25_000],
    ['at once', 0],
  ])('is released when the relay is stopped, %s, although the settle hangs', async (_, shutdownTimeout) => {
    const { world } = await openWaiting({ shutdownTimeout, lease: 30_000 })
    const stopped = world.relay.stop()
    await world.runtime.advance(0)
    expect(await world.states()).toEqual({ leased: 2, ready: 2 })
    await world.runtime.advance(30_000)
    await stopped
    expect(world.sent()).toEqual(['e1', 'e2'])
    expect(world.relay.health()).toMatchObject({ released: 2, leasesLost: 2, inFlight: 0 })
    expect(world.runtime.timers).toBe(0)
  })

  it('is one of at most two per slot, however many records there are', async () => {
    const world = openWorld({ batchSize: 2, concurrency: 3, lease: 60_000 })
    world.store.before = (call) => (call === 'settle' ? new Promise(() => {}) : undefined)
    await world.add('orders', ...ids(40))
    world.relay.start()
    await world.runtime.advance(10_000)
    expect(world.store.count('claim')).toBe(6)
    expect(world.relay.health().inFlight).toBe(12)
    expect(world.sent()).toHaveLength(6)
    const stopped = world.relay.stop()
    await world.runtime.advance(100_000)
    await stopped
  })
})

describe('a relay with many slow destinations', () => {
  it('has a limited number of records in flight, and publishes all in the end', async () => {
    let sending = 0
    let most = 0
    const world = openWorld({
      batchSize: 10,
      answer: async ({ messages }) => {
        sending += messages.length
        most = Math.max(most, sending)
        await new Promise<void>((resolve) => void world.runtime.setTimeout(resolve, 5000))
        sending -= messages.length
        return messages.map(() => ok)
      },
    })
    for (const id of ids(500)) await world.add(`orders.${id}`, id)
    world.relay.start()
    await world.runtime.advance(4900)
    expect(most).toBeGreaterThan(100)
    expect(most).toBeLessThanOrEqual(170)
    await world.runtime.advance(60_000)
    expect(await world.states()).toEqual({})
    await world.relay.stop()
  })
})

describe('a relay with many batches in flight', () => {
  const warnings: string[] = []
  const warned = (warning: Error) => void warnings.push(warning.message)
  afterEach(() => void process.off('warning', warned))

  it.each([
    ['batches', 40, 1],
    ['destinations', 1, 40],
  ])('causes no MaxListenersExceededWarning for its %s', async (_, concurrency, destinations) => {
    process.on('warning', warned)
    const sending = deferred()
    const world = openWorld({
      concurrency,
      batchSize: destinations,
      answer: async ({ messages }) => {
        await sending.promise
        return messages.map(() => ok)
      },
    })
    for (const id of ids(160)) await world.add(`orders.${Number(id.slice(1)) % destinations}`, id)
    const settling = deferred()
    world.store.before = (call) => (call === 'settle' ? settling.promise : undefined)
    world.relay.start()
    await world.runtime.advance(0)
    sending.resolve()
    await world.runtime.advance(0)
    settling.resolve()
    await world.runtime.advance(0)
    await world.relay.stop()
    expect(await world.states()).toEqual({})
    // The warning is emitted in a later tick.
    await new Promise((resolve) => setImmediate(resolve))
    expect(warnings).toEqual([])
  })
})

describe('with order per key, a batch that is claimed while another one is settled', () => {
  function open(options: Partial<RelayOptions> & { readonly answer?: Parameters<typeof recordingPublisher>[0] } = {}) {
    const { answer, ...given } = options
    const runtime = new VirtualRuntime()
    const memory = new MemoryOutboxStore({ order: 'perKey', runtime })
    const store = new WatchedStore(memory)
    const calls: (StoreCall | 'leave')[] = store.calls
    const leaving = Object.assign(store, {
      async leave() {
        calls.push('leave')
        await memory.leave()
      },
    })
    const publisher = recordingPublisher(answer)
    const relay = new Relay(leaving, { publisher, runtime, logger: silentLogger, batchSize: 2, ...given })
    const add = async (...added: readonly string[]) => {
      const transaction = memory.begin()
      const message = (id: string) => new Message(new Uint8Array(), { id, type: 'order.placed', source: '/orders', partitionkey: id[0] })
      await memory.append(
        transaction,
        added.map((id) => ({ destination: 'orders', message: message(id) })),
      )
      transaction.commit()
    }
    const sent = () => publisher.calls.flatMap(({ messages }) => messages.map(({ id }) => id))
    return { runtime, memory, store, calls, relay, add, sent }
  }

  it.each(['park', 'block', 'parkKey'] as const)(
    'contains no record of a key that the other one may have to try again: %s',
    async (onExhausted) => {
      let failures = 3
      const world = open({
        onExhausted,
        answer: async ({ messages }) =>
          messages.map(({ id }) => {
            if (id !== 'a1' || failures === 0) return ok
            failures -= 1
            return { ok: false, error: 'refused' }
          }),
      })
      const settling = deferred()
      world.store.before = (call) => (call === 'settle' && world.store.count('settle') === 1 ? settling.promise : undefined)
      await world.add('a1', 'b1', 'a2', 'b2', 'c1', 'a3', 'c2', 'b3')
      world.relay.start()
      await world.runtime.advance(1000)
      expect(world.calls).toEqual(['claim', 'settle', 'claim'])
      settling.resolve()
      await world.runtime.advance(60_000)
      const ofKey = (key: string) => world.sent().filter((id) => id?.startsWith(key))
      expect(ofKey('a')).toEqual(['a1', 'a1', 'a1', 'a1', 'a2', 'a3'])
      expect(ofKey('b')).toEqual(['b1', 'b2', 'b3'])
      expect(ofKey('c')).toEqual(['c1', 'c2'])
      await world.relay.stop()
    },
  )

  it('is not claimed repeatedly while there are so few keys that it finds nothing', async () => {
    const world = open({ batchSize: 5 })
    world.store.before = (call) => (call === 'settle' ? new Promise((resolve) => void world.runtime.setTimeout(resolve, 10)) : undefined)
    await world.add(...ids(100).map((id, index) => `${'abc'[index % 3]}${id}`))
    world.relay.start()
    await world.runtime.advance(400)
    expect((await world.memory.stats()).destinations).toEqual([])
    expect(world.store.count('settle')).toBe(20)
    // The relay claims once for each batch, once more because the last batch had too few keys, and once more to find that nothing is left.
    expect(world.store.count('claim')).toBe(22)
    await world.relay.stop()
  })

  it('is followed by no other before the relay has left, if the other could not be settled', async () => {
    const world = open({ lease: 3000, publishTimeout: 2000 })
    let failing = true
    world.store.before = (call) => {
      if (call === 'settle' && failing) throw new Error('the statement was cancelled')
    }
    await world.add('a1', 'b1', 'c1', 'd1', 'e1', 'f1', 'g1', 'h1')
    world.relay.start()
    for (let waited = 0; !world.calls.includes('leave') && waited < 20_000; waited += 100) {
      await world.runtime.advance(100)
      if (world.relay.health().leasesLost > 0) failing = false
    }
    expect(world.calls.slice(0, world.calls.indexOf('leave')).filter((call) => call === 'claim')).toHaveLength(2)
    await world.runtime.advance(20_000)
    expect((await world.memory.stats()).destinations).toEqual([])
    await world.relay.stop()
  })
})
