import { currentContext, enter, isAckordError, rootContext } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { deferred } from '../../../core/test/support/router-world.ts'
import { Relay } from '../../src/relay/relay.ts'
import { event, ids, openWorld } from '../support/relay-world.ts'

describe('a relay', () => {
  it('publishes committed records once, in order, and leaves nothing in the store', async () => {
    const world = openWorld()
    await world.add('orders', 'e1', 'e2', 'e3')
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual(['e1', 'e2', 'e3'])
    expect(await world.states()).toEqual({})
    await world.runtime.advance(60_000)
    expect(world.sent()).toHaveLength(3)
    await world.relay.stop()
  })

  it('publishes the bytes and attributes as they were stored', async () => {
    const world = openWorld()
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    const [message] = world.publisher.calls[0]?.messages ?? []
    expect(message?.data).toEqual(event('e1').data)
    expect(message?.attributes).toEqual(event('e1').attributes)
    await world.relay.stop()
  })

  it('keeps published records if the store retains them', async () => {
    const world = openWorld({ retain: true })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    expect(await world.states()).toEqual({ published: 1 })
    await world.relay.stop()
  })

  it('makes one claim, one publish per destination and one settle for a batch', async () => {
    const world = openWorld({ batchSize: 100 })
    await world.add('orders', ...ids(30))
    await world.add('stock', ...ids(20, 's'))
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.store.calls).toEqual(['claim', 'settle'])
    expect(world.publisher.calls.map(({ destination, messages }) => [destination, messages.length])).toEqual([
      ['orders', 30],
      ['stock', 20],
    ])
    await world.relay.stop()
  })

  it('publishes to different destinations concurrently', async () => {
    const gate = deferred()
    const world = openWorld({
      answer: async ({ messages }) => {
        await gate.promise
        return messages.map(() => ({ ok: true }))
      },
    })
    await world.add('a', 'a1')
    await world.add('b', 'b1')
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.publisher.calls).toHaveLength(2)
    gate.resolve()
    await world.relay.stop()
    expect(await world.states()).toEqual({})
  })

  it('polls again immediately after a full batch', async () => {
    const world = openWorld({ batchSize: 10 })
    await world.add('orders', ...ids(25))
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.publisher.calls.map(({ messages }) => messages.length)).toEqual([10, 10, 5])
    expect(world.store.count('claim')).toBe(3)
    await world.relay.stop()
  })

  it('works on as many batches concurrently as configured', async () => {
    const gate = deferred()
    const world = openWorld({
      batchSize: 2,
      concurrency: 3,
      answer: async ({ messages }) => {
        await gate.promise
        return messages.map(() => ({ ok: true }))
      },
    })
    await world.add('orders', ...ids(10))
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.publisher.calls).toHaveLength(3)
    gate.resolve()
    await world.runtime.advance(0)
    expect(world.sent().sort()).toEqual(ids(10).sort())
    await world.relay.stop()
    expect(await world.states()).toEqual({})
  })

  it('claims the next batch while one is settled, and sends it when that is done', async () => {
    const settling = deferred()
    const world = openWorld({ batchSize: 2 })
    world.store.before = (call) => (call === 'settle' && world.store.count('settle') === 1 ? settling.promise : undefined)
    await world.add('orders', ...ids(6))
    world.relay.start()
    await world.runtime.advance(0)
    // The third is not even claimed: two batches are enough to keep the store busy.
    expect(world.store.calls).toEqual(['claim', 'settle', 'claim'])
    expect(world.sent()).toEqual(['e1', 'e2'])

    settling.resolve()
    await world.runtime.advance(0)

    expect(world.sent()).toEqual(ids(6))
    await world.relay.stop()
    expect(await world.states()).toEqual({})
  })

  it('claims nothing more for a destination while it sends to it: another relay may claim it meanwhile', async () => {
    const sending = deferred()
    const world = openWorld({
      batchSize: 2,
      answer: async ({ messages }) => {
        await sending.promise
        return messages.map(() => ({ ok: true }))
      },
    })
    await world.add('orders', ...ids(4))
    world.relay.start()
    await world.runtime.advance(1000)
    expect(await world.states()).toEqual({ leased: 2, ready: 2 })
    sending.resolve()
    await world.relay.stop()
  })

  it('drains 100,000 records', async () => {
    const world = openWorld()
    await world.add('orders', ...ids(100_000))
    world.relay.start()
    while (Object.keys(await world.states()).length > 0) await world.runtime.advance(0)
    expect(new Set(world.sent()).size).toBe(100_000)
    expect(world.publisher.calls).toHaveLength(200)
    expect(world.store.count('settle')).toBe(200)
    await world.relay.stop()
  })

  it('publishes a record that is committed while it idles without waiting for the poll', async () => {
    const world = openWorld()
    world.relay.start()
    await world.runtime.advance(60_000)
    await world.add('orders', 'e1')
    await world.runtime.advance(0)
    expect(world.sent()).toEqual(['e1'])
    await world.relay.stop()
  })

  it('polls immediately on wake() where the store sends no notifications', async () => {
    const world = openWorld()
    Object.assign(world.store, { wakeUps: undefined })
    world.relay.start()
    await world.runtime.advance(60_000)
    await world.add('orders', 'e1')
    await world.runtime.advance(0)
    expect(world.sent()).toEqual([])
    world.relay.wake()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual(['e1'])
    await world.relay.stop()
  })

  it('finds records committed during a publish without a notification, and immediately with one', async () => {
    const gate = deferred()
    const world = openWorld({
      answer: async ({ messages }) => {
        await gate.promise
        return messages.map(() => ({ ok: true }))
      },
    })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    await world.add('orders', 'e2')
    gate.resolve()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual(['e1', 'e2'])
    await world.relay.stop()
  })

  it('polls less and less often while there is nothing to do, and never less than every maxPollInterval', async () => {
    const world = openWorld({ pollInterval: 100, maxPollInterval: 1000 })
    world.relay.start()
    await world.runtime.advance(1000)
    const early = world.store.count('claim')
    expect(early).toBeGreaterThanOrEqual(4)
    expect(early).toBeLessThanOrEqual(6)
    await world.runtime.advance(100_000)
    const later = world.store.count('claim') - early
    expect(later).toBeGreaterThanOrEqual(100)
    expect(later).toBeLessThanOrEqual(130)
    await world.relay.stop()
  })

  it('adds jitter to its polls', async () => {
    const at = async (seed: number) => {
      const world = openWorld()
      for (let i = 0; i < seed; i += 1) world.runtime.random()
      world.relay.start()
      await world.runtime.advance(10_000)
      const next = world.runtime.nextTimer
      await world.relay.stop()
      return next
    }
    expect(await at(1)).not.toBe(await at(2))
  })

  it('survives wake-ups that fail, and logs it once', async () => {
    const world = openWorld()
    world.store.wakeUps = () => {
      throw new Error('no LISTEN here')
    }
    world.relay.start()
    await world.runtime.advance(120_000)
    await world.add('orders', 'e1')
    await world.runtime.advance(5000)
    expect(world.sent()).toEqual(['e1'])
    expect(world.logger.at('warn')).toHaveLength(1)
    await world.relay.stop()
    expect(world.runtime.timers).toBe(0)
  })

  it('claims only its configured destinations', async () => {
    const world = openWorld({ destinations: ['orders'] })
    await world.add('stock', 's1')
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(10_000)
    expect(world.sent()).toEqual(['e1'])
    expect(await world.states()).toEqual({ ready: 1 })
    await world.relay.stop()
  })

  it('runs outside of the async context that it was started in', async () => {
    const seen: unknown[] = []
    const world = openWorld({
      answer: async ({ messages }) => {
        seen.push(currentContext())
        return messages.map(() => ({ ok: true }))
      },
    })
    enter(rootContext(), () => world.relay.start())
    await world.runtime.advance(0)
    await enter(rootContext(), () => world.add('orders', 'e1'))
    enter(rootContext(), () => world.relay.wake())
    await world.runtime.advance(0)
    expect(seen).toEqual([undefined])
    await world.relay.stop()
  })

  it('counts its work, in the metrics and in its health', async () => {
    const world = openWorld()
    await world.add('orders', ...ids(3))
    expect(world.relay.health()).toMatchObject({ state: 'idle', published: 0 })
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.relay.health()).toEqual({
      state: 'running',
      store: 'up',
      downDestinations: [],
      inFlight: 0,
      lastStoreError: undefined,
      published: 3,
      failed: 0,
      parked: 0,
      released: 0,
      leasesLost: 0,
      deadLetters: 0,
      deadLettersFailed: 0,
      backlog: undefined,
    })
    expect(world.metrics.sum('ackord.outbox.published')).toBe(3)
    expect(world.metrics.observed.get('ackord.outbox.batch_size')).toEqual([3])
    expect(world.metrics.observed.get('ackord.outbox.publish_duration')).toEqual([0])
    await world.relay.stop()
  })

  it('loses a number rather than a record when the metrics throw', async () => {
    const broken = () => {
      throw new Error('no metrics')
    }
    const world = openWorld({ metrics: { count: broken, observe: broken, gauge: broken } })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    expect(await world.states()).toEqual({})
    await world.relay.stop()
  })
})

describe('the options of a relay', () => {
  const world = openWorld()
  const publisher = world.publisher

  it.each([
    { pollInterval: 0 },
    { maxPollInterval: 100, pollInterval: 200 },
    { batchSize: 0 },
    { batchSize: 1.5 },
    { lease: 0 },
    { lease: Number.NaN },
    { maxAttempts: 0 },
    { publishTimeout: 0 },
    { publishTimeout: Infinity },
    { lease: 10_000 },
    { lease: 5000 },
    { lease: 5000, publishTimeout: 5000 },
    { shutdownTimeout: -1 },
    { shutdownTimeout: Number.NaN },
    { statsInterval: 0 },
    { statsInterval: true as never },
    { map: {} as never },
    { concurrency: 0 },
    { destinations: [] },
    { destinations: [''] },
    { backoff: 5 as never },
    { destinationBackoff: 5 as never },
    { publisher: {} as never },
  ])('are rejected at construction, by name: %o', (options) => {
    const [name = ''] = Object.keys(options)
    try {
      new Relay(world.store, { publisher, ...options })
    } catch (error) {
      expect(isAckordError(error, 'ACKORD_INVALID_OPTION')).toBe(true)
      expect(String(error)).toContain(name)
      return
    }
    expect.unreachable()
  })

  it('say which of lease and publishTimeout is too long for the other', () => {
    const text = 'lease must be longer than publishTimeout (10000), or a publish may outlive it; it is 5000.'
    expect(() => new Relay(world.store, { publisher, lease: 5000 })).toThrow(text)
    expect(() => new Relay(world.store, { publisher, lease: 5000, publishTimeout: 4999 })).not.toThrow()
  })

  it('include a store', () => {
    expect(() => new Relay(undefined as never, { publisher })).toThrow('store.claim')
  })

  it('allow a poll interval above the default maximum', () => {
    expect(() => new Relay(world.store, { publisher, pollInterval: 60_000 })).not.toThrow()
  })

  it('cost nothing until it starts', () => {
    expect(world.store.calls).toEqual([])
    expect(world.runtime.timers).toBe(0)
  })
})
