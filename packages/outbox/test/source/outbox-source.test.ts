import { getEventListeners } from 'node:events'
import { currentContext, enter, rootContext } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { deferred, failureOf } from '../../../core/test/support/router-world.ts'
import { settlePromises } from '../../../core/test/support/virtual-runtime.ts'
import { type OutboxDelivery, type OutboxSourceOptions, outboxSource } from '../../src/source/outbox-source.ts'
import { ids, openWorld, type World } from '../support/relay-world.ts'

function read(world: World, options: OutboxSourceOptions = {}) {
  const { runtime, logger, metrics } = world
  const source = outboxSource(world.store, { runtime, logger, metrics, backoff: () => 1000, ...options })
  const iterator = source[Symbol.asyncIterator]()
  return {
    source,
    iterator,
    async take(count = 1): Promise<OutboxDelivery[]> {
      const taken: OutboxDelivery[] = []
      while (taken.length < count) {
        const { value } = await iterator.next()
        if (value === undefined) throw new Error('The source has ended.')
        taken.push(value)
      }
      return taken
    },
    async one(): Promise<OutboxDelivery> {
      const { value } = await iterator.next()
      if (value === undefined) throw new Error('The source has ended.')
      return value
    },
  }
}

async function records(world: World) {
  return (await world.memory.list({}, { limit: 1000 })).records
}

describe('an outbox source', () => {
  it('yields records with their destinations, oldest first', async () => {
    const world = openWorld()
    await world.add('orders', 'e1')
    await world.add('stock', 'e2')
    await using reading = read(world).source
    const seen: unknown[] = []
    for await (const { destination, message } of reading) {
      seen.push([destination, message.id, message.deliveryCount])
      await message.ack()
      if (seen.length === 2) break
    }
    expect(seen).toEqual([
      ['orders', 'e1', 1],
      ['stock', 'e2', 1],
    ])
    expect(await world.states()).toEqual({})
    expect(world.metrics.sum('ackord.outbox.published')).toBe(2)
  })

  it('waits for records and yields them as they are committed', async () => {
    const world = openWorld()
    const reading = read(world)
    const next = reading.one()
    await world.runtime.advance(60_000)
    await world.add('orders', 'e1')
    await settlePromises()
    expect((await next).message.id).toBe('e1')
    await reading.source[Symbol.asyncDispose]()
  })

  it('settles a nack as failed, after the back-off or its own delay', async () => {
    const world = openWorld()
    await world.add('orders', 'e1', 'e2')
    const reading = read(world)
    const [first, second] = await reading.take(2)
    await Promise.all([first?.message.nack(new Error('no')), second?.message.nack('later', { retryAfter: 50 })])
    expect((await records(world)).map(({ state, availableAt }) => [state, availableAt - world.runtime.now()])).toEqual([
      ['waiting', 1000],
      ['waiting', 50],
    ])
    await reading.source[Symbol.asyncDispose]()
  })

  it('parks rejected records, and records nacked at their last attempt', async () => {
    const world = openWorld()
    await world.add('orders', 'e1', 'e2')
    const reading = read(world, { maxAttempts: 1 })
    const [first, second] = await reading.take(2)
    await Promise.all([first?.message.reject(new Error('never')), second?.message.nack(new Error('no'))])
    expect(await records(world)).toMatchObject([
      { state: 'parked', lastError: 'never' },
      { state: 'parked', lastError: 'no' },
    ])
    await reading.source[Symbol.asyncDispose]()
  })

  it('parks records that were claimed too often and never settled, without yielding them', async () => {
    const world = openWorld()
    await world.add('orders', 'e1', 'e2')
    await world.memory.claim({ limit: 1, lease: 10 })
    await world.runtime.advance(10)
    const reading = read(world, { maxAttempts: 1 })
    expect((await reading.one()).message.id).toBe('e2')
    await settlePromises()
    expect((await world.memory.get('1'))?.state).toBe('parked')
    await reading.source[Symbol.asyncDispose]()
  })

  it('settles the acks of one tick in one call, and those that arrive meanwhile in the next', async () => {
    const world = openWorld()
    await world.add('orders', ...ids(10))
    const reading = read(world)
    const deliveries = await reading.take(10)
    const gate = deferred()
    world.store.before = (call) => (call === 'settle' ? gate.promise : undefined)
    const acks = deliveries.slice(0, 5).map(({ message }) => message.ack())
    await settlePromises()
    for (const { message } of deliveries.slice(5)) acks.push(message.ack())
    gate.resolve()
    expect(await Promise.all(acks)).toEqual(Array(10).fill(true))
    expect(world.store.count('settle')).toBe(2)
    await reading.source[Symbol.asyncDispose]()
  })

  it('renews the leases of yielded records until they are settled, also after the loop was left', async () => {
    const world = openWorld()
    await world.add('orders', 'e1')
    const reading = read(world, { lease: 3000 })
    const { message } = await reading.one()
    await reading.iterator.return?.()
    await world.runtime.advance(30_000)
    expect(await world.states()).toEqual({ leased: 1 })
    expect(await message.ack()).toBe(true)
    expect(await world.states()).toEqual({})
    expect(world.runtime.timers).toBe(0)
  })

  it('makes ack reject when the lease was lost, and settles nothing', async () => {
    const world = openWorld()
    await world.add('orders', 'e1', 'e2')
    const reading = read(world, { lease: 3000 })
    const [first, second] = await reading.take(2)
    if (first === undefined || second === undefined) return expect.unreachable()
    // The process is suspended past its lease, and another one claims the records.
    world.store.before = (call) => {
      if (call === 'renew') throw new Error('stalled')
    }
    await world.runtime.advance(3000)
    const rivals = await world.memory.claim({ limit: 2, lease: 60_000 })
    expect(rivals).toHaveLength(2)
    const refused = failureOf(first.message.ack(), 'ACKORD_LEASE_LOST')
    world.store.before = () => {}
    await world.runtime.advance(30_000)
    await refused
    await failureOf(second.message.ack(), 'ACKORD_LEASE_LOST')
    expect(await world.states()).toEqual({ leased: 2 })
    expect(world.metrics.sum('ackord.outbox.lease_lost')).toBe(2)
    await reading.source[Symbol.asyncDispose]()
  })

  it('releases records that it claimed and did not yield when the loop is left', async () => {
    const world = openWorld()
    await world.add('orders', ...ids(5))
    for await (const { message } of read(world).source) {
      await message.ack()
      break
    }
    expect((await records(world)).map(({ state, attempts }) => [state, attempts])).toEqual(Array(4).fill(['ready', 0]))
    expect(world.store.count('release')).toBe(1)
    expect(world.runtime.timers).toBe(0)
  })

  it('releases the rest when the loop throws', async () => {
    const world = openWorld()
    await world.add('orders', ...ids(3))
    const loop = async () => {
      for await (const { message } of read(world).source) {
        await message.nack(new Error('no'))
        throw new Error('the reader fails')
      }
    }
    await expect(loop()).rejects.toThrow('the reader fails')
    expect(await world.states()).toEqual({ waiting: 1, ready: 2 })
  })

  it('ends without an error when its signal is aborted, in the loop and while it waits', async () => {
    const world = openWorld()
    await world.add('orders', ...ids(3))
    const controller = new AbortController()
    const seen: (string | undefined)[] = []
    for await (const { message } of read(world, { signal: controller.signal }).source) {
      seen.push(message.id)
      await message.ack()
      controller.abort()
    }
    expect(seen).toEqual(['e1'])
    expect(await world.states()).toEqual({ ready: 2 })

    const waiting = new AbortController()
    const next = read(world, { signal: waiting.signal, destinations: ['stock'] }).iterator.next()
    await world.runtime.advance(10_000)
    waiting.abort()
    expect(await next).toEqual({ done: true, value: undefined })
    expect(await read(world, { signal: waiting.signal }).iterator.next()).toEqual({ done: true, value: undefined })
    expect(getEventListeners(waiting.signal, 'abort')).toEqual([])
    expect(world.runtime.timers).toBe(0)
  })

  it('releases records that were yielded and not settled when it is disposed, and rejects later settlements', async () => {
    const world = openWorld()
    await world.add('orders', ...ids(3))
    const reading = read(world)
    const [first, second] = await reading.take(2)
    const acked = first?.message.ack()
    await reading.source[Symbol.asyncDispose]()
    await reading.source[Symbol.asyncDispose]()
    expect(await acked).toBe(true)
    expect((await records(world)).map(({ state, attempts }) => [state, attempts])).toEqual(Array(2).fill(['ready', 0]))
    if (second !== undefined) await failureOf(second.message.ack(), 'ACKORD_LEASE_LOST')
    expect(await reading.iterator.next()).toEqual({ done: true, value: undefined })
    expect(world.runtime.timers).toBe(0)
  })

  it('waits for a store that is unavailable, with one log line at the start and one at the end of the outage', async () => {
    const world = openWorld()
    await world.add('orders', 'e1')
    let down = true
    world.store.before = () => {
      if (down) throw new Error('away')
    }
    const reading = read(world)
    const next = reading.one()
    await world.runtime.advance(600_000)
    down = false
    await world.runtime.advance(10_000)
    const { message } = await next
    down = true
    const acked = message.ack()
    await world.runtime.advance(1000)
    down = false
    await world.runtime.advance(10_000)
    expect(await acked).toBe(true)
    expect(world.logger.lines.map(({ level }) => level)).toEqual(['error', 'info', 'error', 'info'])
    await reading.source[Symbol.asyncDispose]()
  })

  it("does not run the store's calls in the async context of the message that is settled first", async () => {
    const world = openWorld()
    await world.add('orders', 'e1')
    const reading = read(world)
    const seen: unknown[] = []
    world.store.before = () => void seen.push(currentContext())
    await enter(rootContext(), async () => {
      const { message } = await reading.one()
      await message.ack()
    })
    expect(seen).toEqual([undefined, undefined])
    await reading.source[Symbol.asyncDispose]()
  })

  it('does nothing until it is iterated, and rejects invalid options by name', () => {
    const world = openWorld()
    const { signal } = new AbortController()
    read(world, { signal })
    expect(getEventListeners(signal, 'abort')).toEqual([])
    expect(world.store.calls).toEqual([])
    expect(() => outboxSource(world.store, { batchSize: 0 })).toThrow('batchSize')
    expect(() => outboxSource({} as never)).toThrow('store.claim')
  })
})
