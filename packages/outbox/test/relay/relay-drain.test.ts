import { isAckordError, type PublishResult } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import { afterEach, describe, expect, it } from 'vitest'
import { deferred, recordingPublisher } from '../../../core/test/support/router-world.ts'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore } from '../../src/memory/memory-outbox-store.ts'
import { Relay } from '../../src/relay/relay.ts'
import { RelayGroup } from '../../src/relay/relay-group.ts'
import { event, ids, openWorld } from '../support/relay-world.ts'

const ok: PublishResult = { ok: true }

let removeProbe = () => {}
afterEach(() => removeProbe())

/** Resolves to the code of the error. */
async function codeOf(work: () => unknown): Promise<string | undefined> {
  try {
    await work()
    return undefined
  } catch (error) {
    return isAckordError(error) ? error.code : String(error)
  }
}

/** A relay on a store that counts its records. */
function openCounting(order: 'none' | 'perKey' = 'none') {
  const runtime = new VirtualRuntime()
  const store = new MemoryOutboxStore({ runtime, order })
  const publisher = recordingPublisher()
  const add = async (destination: string, ...added: readonly string[]) => {
    const transaction = store.begin()
    await store.append(
      transaction,
      added.map((id) => ({ destination, message: event(id) })),
    )
    transaction.commit()
  }
  return { runtime, store, publisher, add, relay: new Relay(store, { publisher, runtime }) }
}

describe('a drain', () => {
  it('leaves no timer, and a relay that can be started', async () => {
    const world = openWorld()
    await world.add('orders', ...ids(3))
    const drained = world.relay.drain({ deadline: 5000 })
    await world.runtime.advance(0)
    expect(await drained).toMatchObject({ published: 3, reason: 'empty', skipped: [] })
    expect(world.runtime.timers).toBe(0)
    expect(world.relay.health()).toMatchObject({ state: 'idle', inFlight: 0 })
    world.relay.start()
    await world.add('orders', 'e4')
    await world.runtime.advance(10_000)
    expect(world.sent()).toEqual(['e1', 'e2', 'e3', 'e4'])
    await world.relay.stop()
  })

  it('does not poll, and asks an empty store once', async () => {
    const world = openWorld()
    expect(await world.relay.drain()).toMatchObject({ published: 0, reason: 'empty' })
    await world.runtime.advance(60_000)
    expect(world.store.calls).toEqual(['claim'])
  })

  it('is refused by a relay that was started, and a start by a relay that drains', async () => {
    const gate = deferred()
    const world = openWorld({
      answer: async ({ messages }) => {
        await gate.promise
        return messages.map(() => ok)
      },
    })
    world.relay.start()
    expect(await codeOf(() => world.relay.drain())).toBe('ACKORD_ALREADY_STARTED')
    await world.relay.stop()
    await world.add('orders', 'e1')
    const drained = world.relay.drain()
    await world.runtime.advance(0)
    expect(world.relay.health()).toMatchObject({ state: 'running', inFlight: 1 })
    expect(await codeOf(() => world.relay.start())).toBe('ACKORD_ALREADY_STARTED')
    gate.resolve()
    expect(await drained).toMatchObject({ published: 1 })
  })

  it('rejects invalid options', async () => {
    const { relay } = openWorld()
    for (const options of [{ deadline: -1 }, { limit: 0 }, { dedline: 5 }]) {
      expect(await codeOf(() => relay.drain(options))).toBe('ACKORD_INVALID_OPTION')
    }
  })

  it('waits for the drain before it, and finds what was committed meanwhile', async () => {
    const gate = deferred()
    const world = openWorld({
      answer: async ({ messages }) => {
        await gate.promise
        return messages.map(() => ok)
      },
    })
    await world.add('orders', 'e1')
    const first = world.relay.drain({ limit: 1 })
    await world.runtime.advance(0)
    await world.add('orders', 'e2')
    const second = world.relay.drain()
    const late = world.relay.drain({ deadline: 100 })
    await world.runtime.advance(100)
    expect(await late).toMatchObject({ published: 0, reason: 'deadline' })
    gate.resolve()
    expect(await first).toMatchObject({ published: 1, reason: 'limit' })
    expect(await second).toMatchObject({ published: 1, reason: 'empty' })
    expect(world.sent()).toEqual(['e1', 'e2'])
  })

  it('ends with a stop, and so do the drains that wait for it', async () => {
    const gate = deferred()
    const world = openWorld({
      answer: async ({ messages }) => {
        await gate.promise
        return messages.map(() => ok)
      },
    })
    await world.add('orders', 'e1')
    const drains = [world.relay.drain(), world.relay.drain()]
    await world.runtime.advance(0)
    const stopped = world.relay.stop()
    gate.resolve()
    await stopped
    expect(await Promise.all(drains)).toMatchObject([
      { published: 1, reason: 'aborted' },
      { published: 0, reason: 'aborted' },
    ])
    world.relay.start()
    await world.relay.stop()
    expect(world.runtime.timers).toBe(0)
  })

  it('without time claims nothing', async () => {
    const world = openWorld()
    await world.add('orders', 'e1')
    expect(await world.relay.drain({ deadline: 0 })).toMatchObject({ published: 0, reason: 'deadline' })
    expect(world.store.calls).toEqual([])
  })

  it('lets a publish take at most half of the deadline', async () => {
    const world = openWorld({ answer: () => new Promise(() => {}) })
    await world.add('orders', 'e1')
    const drained = world.relay.drain({ deadline: 1000 })
    await world.runtime.advance(0)
    const [call] = world.publisher.calls
    await world.runtime.advance(499)
    expect(call?.signal.aborted).toBe(false)
    await world.runtime.advance(1)
    expect(call?.signal.aborted).toBe(true)
    await world.runtime.advance(500)
    expect(await drained).toMatchObject({ reason: 'deadline' })
    expect(await world.states()).toEqual({ ready: 1 })
  })

  it('tries a store again that failed, and ends if it stays down for ten seconds', async () => {
    const world = openWorld()
    await world.add('orders', 'e1')
    let failing = 1
    world.store.before = (call) => {
      if (call !== 'claim' || failing === 0) return
      failing -= 1
      throw new Error('the connection was closed')
    }
    const first = world.relay.drain()
    await world.runtime.advance(10_000)
    expect(await first).toMatchObject({ published: 1, reason: 'empty', error: undefined })
    failing = Infinity
    const second = world.relay.drain()
    await world.runtime.advance(40_000)
    expect(await second).toMatchObject({ reason: 'down', error: { message: 'the connection was closed' } })
    expect(world.runtime.timers).toBe(0)
  })

  it('skips destinations that are down, and publishes the others', async () => {
    const world = openWorld({
      answer: async ({ destination, messages }) =>
        messages.map(() => (destination === 'dead' ? { ok: false, error: new Error('down'), scope: 'destination' } : ok)),
    })
    await world.add('dead', 'd1')
    await world.add('orders', 'e1')
    const drained = world.relay.drain({ deadline: 60_000 })
    await world.runtime.advance(60_000)
    expect(await drained).toMatchObject({ published: 1, failed: 0, reason: 'down', skipped: ['dead'] })
  })

  it('counts what is left at its destinations, unless it is told not to', async () => {
    const { relay, store, publisher, runtime, add } = openCounting()
    await add('orders', ...ids(3))
    await add('others', 'o1')
    const own = new Relay(store, { publisher, runtime, destinations: ['orders'] })
    expect(await own.drain({ limit: 2 })).toMatchObject({ reason: 'limit', left: { ready: 1, leased: 0, waiting: 0 } })
    expect(await own.drain({ count: false })).toMatchObject({ published: 1, left: undefined })
    expect(await relay.drain()).toMatchObject({ published: 1, left: { ready: 0, leased: 0, waiting: 0 } })
  })

  it('with order per key publishes the later records of a key, too, and leaves the partitions', async () => {
    const { relay, store, add, publisher } = openCounting('perKey')
    const transaction = store.begin()
    const keyed = ids(7).map((id) => ({ destination: 'orders', message: event(id).withAttributes({ partitionkey: 'k' }) }))
    await store.append(transaction, keyed)
    transaction.commit()
    await add('orders', 'plain')
    expect(await relay.drain()).toMatchObject({ published: 8, reason: 'empty' })
    const sent = publisher.calls.flatMap(({ messages }) => messages.map(({ id }) => id)).filter((id) => id !== 'plain')
    expect(sent).toEqual(ids(7))
    expect(store.ownedPartitions?.()).toEqual([])
  })

  it('that is aborted between claim and publish releases the records', async () => {
    const world = openWorld()
    await world.add('orders', ...ids(2))
    const aborting = new AbortController()
    removeProbe = installProbe((point) => {
      if (point === 'relay.claimed') aborting.abort()
      return undefined
    })
    expect(await world.relay.drain({ signal: aborting.signal })).toMatchObject({ published: 0, reason: 'aborted' })
    expect(world.sent()).toEqual([])
    expect(await world.states()).toEqual({ ready: 2 })
  })

  it('reports no suspension for the time between two drains, in which serverless platforms freeze the process', async () => {
    const world = openWorld()
    await world.relay.drain()
    world.runtime.shiftClock(600_000)
    await world.relay.drain()
    expect(world.logger.at('warn')).toEqual([])
  })
})

describe('a group of relays', () => {
  it('drains all stores, and resolves to their results by name', async () => {
    const [one, two] = [openCounting(), openCounting()]
    await one.add('orders', 'e1')
    await two.add('orders', 'e2', 'e3')
    const publisher = recordingPublisher()
    const group = new RelayGroup({ one: one.store, two: two.store }, { publisher })
    expect(await group.drain({ count: false })).toMatchObject({ one: { published: 1 }, two: { published: 2 } })
    expect(publisher.calls.flatMap(({ messages }) => messages.map(({ id }) => id)).toSorted()).toEqual(['e1', 'e2', 'e3'])
  })
})
