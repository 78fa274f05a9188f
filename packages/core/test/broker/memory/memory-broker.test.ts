import { describe, expect, it } from 'vitest'
import { MemoryBroker } from '../../../src/broker/memory/memory-broker.ts'
import type { Publisher } from '../../../src/broker/publisher.ts'
import { contextKey } from '../../../src/message/context.ts'
import { Message, type RawMessage } from '../../../src/message/message.ts'
import { collectGarbage } from '../../support/garbage.ts'
import { trackedMessage } from '../../support/tracked-message.ts'
import { settlePromises } from '../../support/virtual-runtime.ts'
import { ids, isPending, MemoryWorld, never, Reader, raw } from './memory-world.ts'

const nothing = { kept: 0, ready: 0, blocked: 0, delayed: 0, inFlight: 0, keys: 0, waiting: 0 }

describe('delivery', () => {
  it('delivers messages published before and after a group subscribed to it, once to each group', async () => {
    await using world = new MemoryWorld()
    await world.publish('orders', 'before')
    const mail = new Reader(world.broker.source('orders', { group: 'mail' }))
    const stock = new Reader(world.broker.source('orders', { group: 'stock' }))
    await world.publish('orders', 'after')

    for (const reader of [mail, stock]) {
      expect(ids(await reader.takeMany(2))).toEqual(['before', 'after'])
      expect(await isPending(reader.pull())).toBe(true)
    }
  })

  it('delivers each message to one source of a group, with many publishers and many consumers', async () => {
    await using world = new MemoryWorld()
    const received: string[] = []
    const consumers = Array.from({ length: 4 }, async () => {
      for await (const message of world.broker.source('orders', { prefetch: 3 }).messages({ signal: never })) {
        received.push(String(message.id))
        await message.ack()
      }
    })
    await Promise.all(
      Array.from({ length: 5 }, async (_, publisher) => {
        for (let number = 0; number < 200; number += 1) await world.publish('orders', `${publisher}/${number}`)
      }),
    )
    await world.broker.idle('orders')
    await world.broker.close()
    await Promise.all(consumers)

    expect(received).toHaveLength(1000)
    expect(new Set(received).size).toBe(1000)
  })

  it('spreads messages over the waiting sources', async () => {
    await using world = new MemoryWorld()
    const readers = [1, 2, 3].map(() => new Reader(world.broker.source('orders')))
    const pulls = readers.flatMap((reader) => [reader.pull(), reader.pull()])
    await world.publish('orders', 'a', 'b', 'c')

    const waiting = await Promise.all(pulls.map(isPending))
    expect(waiting).toEqual([false, true, false, true, false, true])
  })

  it('keeps many topics apart', async () => {
    await using world = new MemoryWorld()
    const topics = Array.from({ length: 50 }, (_, index) => `topic-${index}`)
    const readers = topics.map((topic) => new Reader(world.broker.source(topic)))
    await Promise.all(topics.map((topic) => world.publish(topic, `${topic}-1`, `${topic}-2`)))

    for (const [index, topic] of topics.entries()) {
      expect(ids((await readers[index]?.takeMany(2)) ?? [])).toEqual([`${topic}-1`, `${topic}-2`])
      expect(world.broker.stats(topic).ready).toBe(0)
    }
  })

  it('delivers messages to a single reader in the order of their publication', async () => {
    await using world = new MemoryWorld()
    const published = Array.from({ length: 500 }, (_, index) => String(index))
    await world.publish('orders', ...published)

    expect(ids(await new Reader(world.broker.source('orders', { prefetch: Infinity })).takeMany(500))).toEqual(published)
  })

  it.each([
    ['no bytes', new Uint8Array()],
    ['a megabyte', new Uint8Array(1024 * 1024).map((_, index) => index % 251)],
    ['every byte', Uint8Array.from({ length: 256 }, (_, index) => index)],
    ['unicode', new TextEncoder().encode('{"text":"żółć 🦆 \u0000 \u2028"}')],
  ])('carries %s unchanged', async (_, data) => {
    await using world = new MemoryWorld()
    await world.broker.publish('orders', [new Message(data, { id: '1' })], { signal: never })

    const message = await new Reader(world.broker.source('orders')).take()
    expect(Buffer.from(message.data).equals(data)).toBe(true)
  })

  it.each([
    ['no attributes', {}],
    ['200 attributes', Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`header${index}`, `${index}`]))],
    ['exotic names', { 'Häder-ñ': 'x', 'with space': 1, constructor: true, '🦆': 'duck', '': 'empty' }],
  ])('carries %s unchanged', async (_, attributes) => {
    await using world = new MemoryWorld()
    await world.broker.publish('orders', [new Message(new Uint8Array(), attributes)], { signal: never })

    expect((await new Reader(world.broker.source('orders')).take()).attributes).toEqual(attributes)
  })

  it('passes on neither values nor acking nor later changes of the published message', async () => {
    await using world = new MemoryWorld()
    const key = contextKey<string>('test.value')
    const attributes = { id: '1' }
    const { message, calls } = trackedMessage(new Uint8Array([1]), attributes, { deliveryCount: 7 })
    await world.broker.publish('orders', [message.withValue(key, 'secret')], { signal: never })
    attributes.id = 'changed'

    const received = await new Reader(world.broker.source('orders')).take()
    await received.ack()
    expect([received.id, received.value(key), received.deliveryCount]).toEqual(['1', undefined, 1])
    expect(calls).toEqual([])
    expect(message.state).toBe('pending')
  })
})

describe('publishing', () => {
  it('returns one result per message', async () => {
    await using world = new MemoryWorld()
    expect(await world.broker.publish('orders', [raw('1'), raw('2')], { signal: never })).toEqual([{ ok: true }, { ok: true }])
    expect(await world.broker.publish('orders', [], { signal: never })).toEqual([])
  })

  it('rejects data that is not bytes permanently, and accepts the other messages', async () => {
    await using world = new MemoryWorld()
    const publisher: Publisher = world.broker
    // The types forbid it, but a JavaScript caller may pass anything.
    const wrong = new Message({ total: 1 }, {}) as unknown as RawMessage
    const results = await publisher.publish('orders', [raw('1'), wrong, raw('3')], { signal: never })

    expect(results).toMatchObject([{ ok: true }, { ok: false, permanent: true, error: { code: 'ACKORD_WRONG_DATA' } }, { ok: true }])
    expect(ids(await new Reader(world.broker.source('orders')).takeMany(2))).toEqual(['1', '3'])
  })

  it('rejects with the reason of an aborted signal and stores nothing', async () => {
    await using world = new MemoryWorld({ history: 10 })
    const reason = new Error('enough')

    await expect(world.broker.publish('orders', [raw('1')], { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    expect(world.broker.stats('orders')).toMatchObject({ published: 0, kept: 0 })
    expect(world.broker.published('orders')).toEqual([])
  })

  it('reports a failure of the destination during a simulated outage', async () => {
    await using world = new MemoryWorld()
    const error = new Error('down')
    world.broker.fail('orders', error)

    const failed = { ok: false, error, scope: 'destination' }
    expect(await world.broker.publish('orders', [raw('1'), raw('2')])).toEqual([failed, failed])
    expect(await world.broker.publish('others', [raw('1')])).toEqual([{ ok: true }])
    expect(world.broker.stats('orders').kept).toBe(0)

    world.broker.fail('orders', undefined)
    expect(await world.broker.publish('orders', [raw('1')])).toEqual([{ ok: true }])
  })

  it('keeps the last published messages if configured', async () => {
    await using world = new MemoryWorld({ history: 3 })
    await world.publish('orders', '1', '2')
    expect(ids(world.broker.published('orders'))).toEqual(['1', '2'])

    await world.publish('orders', '3', '4', '5', '6', '7')
    const published = world.broker.published('orders')
    expect(ids(published)).toEqual(['5', '6', '7'])
    expect(await published[0]?.ack()).toBe(false)
    expect(world.broker.published('unknown')).toEqual([])
  })

  it('keeps all of them with an infinite history, and none by default', async () => {
    await using all = new MemoryWorld({ history: Infinity })
    await using none = new MemoryWorld()
    for (const world of [all, none]) await world.publish('orders', '1', '2', '3')

    expect(ids(all.broker.published('orders'))).toEqual(['1', '2', '3'])
    expect(none.broker.published('orders')).toEqual([])
  })
})

describe('keeping', () => {
  it('keeps a message until every group has acked it', async () => {
    await using world = new MemoryWorld()
    const readers = ['mail', 'stock'].map((group) => new Reader(world.broker.source('orders', { group })))
    await world.publish('orders', '1', '2')
    const [mail = [], stock = []] = await Promise.all(readers.map((reader) => reader.takeMany(2)))

    for (const message of mail) await message.ack()
    expect(world.broker.stats('orders').kept).toBe(2)
    await stock[1]?.ack()
    expect(world.broker.stats('orders').kept).toBe(1)
    await stock[0]?.ack()
    expect(world.broker.stats('orders')).toMatchObject({ ...nothing, acked: 4, published: 2 })
  })

  it('starts a later group at the oldest message that is still kept', async () => {
    await using world = new MemoryWorld()
    const mail = new Reader(world.broker.source('orders', { group: 'mail' }))
    await world.publish('orders', '1', '2', '3')
    const [first] = await mail.takeMany(2)
    await first?.ack()

    const stock = new Reader(world.broker.source('orders', { group: 'stock' }))
    expect(ids(await stock.takeMany(2))).toEqual(['2', '3'])
  })

  it('starts a group at the next message with from: newest', async () => {
    await using world = new MemoryWorld()
    world.broker.source('orders', { group: 'mail' })
    await world.publish('orders', '1')
    const stock = new Reader(world.broker.source('orders', { group: 'stock', from: 'newest' }))
    await world.publish('orders', '2')

    expect((await stock.take()).id).toBe('2')
    expect(world.broker.stats('orders', 'mail').ready).toBe(2)
  })

  it('frees kept messages when the first group starts at the newest', async () => {
    await using world = new MemoryWorld()
    await world.publish('orders', '1', '2')
    expect(world.broker.stats('orders').kept).toBe(2)

    const source = world.broker.source('orders', { from: 'newest' })
    expect(world.broker.stats('orders').kept).toBe(0)
    await world.publish('orders', '3')
    await (await new Reader(source).take()).ack()
    expect(world.broker.stats('orders')).toMatchObject(nothing)
  })

  it('keeps messages for a group without sources, which continues where the last source stopped', async () => {
    await using world = new MemoryWorld()
    {
      await using source = world.broker.source('orders')
      await world.publish('orders', '1', '2')
      await (await new Reader(source).take()).ack()
    }
    await world.publish('orders', '3')

    expect(ids(await new Reader(world.broker.source('orders')).takeMany(2))).toEqual(['2', '3'])
  })

  it('counts per group and for the whole topic', async () => {
    await using world = new MemoryWorld()
    const mail = new Reader(world.broker.source('orders', { group: 'mail', deadLetter: 'discard' }))
    world.broker.source('orders', { group: 'stock' })
    await world.publish('orders', '1', '2', '3', '4')
    const [one, two, three] = await mail.takeMany(3)
    await one?.ack()
    await two?.nack(undefined, { retryAfter: 10 })
    await three?.reject(new Error('no'))

    const totals = { kept: 4, published: 4, acked: 1, rejected: 1, blocked: 0, keys: 0, waiting: 0 }
    expect(world.broker.stats('orders', 'mail')).toEqual({ ...totals, ready: 1, delayed: 1, inFlight: 0, sources: 1 })
    expect(world.broker.stats('orders')).toEqual({ ...totals, ready: 5, delayed: 1, inFlight: 0, sources: 2 })
    expect(world.broker.stats('orders', 'unknown')).toMatchObject({ kept: 4, ready: 0, sources: 0 })
    expect(world.broker.stats('unknown')).toMatchObject({ ...nothing, published: 0 })
  })

  it('a settled message that is still referenced does not keep later messages in memory', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders', { orderPerKey: true }))
    const later: WeakRef<Uint8Array>[] = []

    async function handleAll(): Promise<RawMessage> {
      await world.publish('orders', 'key:1', 'key:2', 'key:3', '4', '5')
      const [first, ...others] = await reader.takeMany(3)
      if (first === undefined) throw new Error('There is no message.')
      await first.ack()
      for (const message of [...others, await reader.take()]) {
        later.push(new WeakRef(message.data))
        await message.ack()
      }
      await (await reader.take()).ack()
      return first
    }

    const souvenir = await handleAll()
    await settlePromises()
    collectGarbage()
    expect(later.map((reference) => reference.deref())).toEqual([undefined, undefined, undefined])
    expect(souvenir.id).toBe('key:1')
  })

  it('holds nothing after 300,000 messages, and the heap has not grown', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders', { orderPerKey: true, ackTimeout: 1000, prefetch: 50 }))

    let taken = 0
    async function pass(batches: number): Promise<number> {
      for (let batch = 0; batch < batches; batch += 1) {
        await world.publish('orders', ...Array.from({ length: 100 }, (_, index) => `k${(batch * 7 + index) % 80}:${index}`))
        while (world.broker.stats('orders').ready > 0) {
          const message = await reader.pull()
          taken += 1
          // A timer cannot interrupt a loop of promises: without this limit a defective broker would hang the test run.
          if (message === undefined || taken > 400_000) throw new Error('The messages do not end.')
          if (message.deliveryCount === 1 && message.id?.endsWith('0')) await message.nack(null, { retryAfter: batch % 2 })
          else await message.ack()
        }
        if (batch % 2 === 1) await world.runtime.advance(1)
      }
      while (world.broker.stats('orders').ready > 0) await (await reader.take()).ack()
      collectGarbage()
      return process.memoryUsage().heapUsed
    }

    const before = await pass(300)
    const after = await pass(3000)
    expect(world.broker.stats('orders')).toMatchObject({ ...nothing, published: 330_000, acked: 330_000 })
    expect(after - before).toBeLessThan(4 * 1024 * 1024)
    await world.runtime.advance(1000)
    expect(world.runtime.timers).toBe(0)
  }, 60_000)
})

describe('idle', () => {
  it('resolves with the last verdict, also one after a delay', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders'))
    await world.publish('orders', '1', '2')
    const idle = world.broker.idle('orders')
    const [one, two] = await reader.takeMany(2)
    await one?.ack()
    await two?.nack(undefined, { retryAfter: 100 })
    expect(await isPending(idle)).toBe(true)

    await world.runtime.advance(100)
    const again = await reader.take()
    expect(await isPending(idle)).toBe(true)
    await again.ack()
    await idle
  })

  it('resolves immediately when there is nothing to do', async () => {
    await using world = new MemoryWorld()
    await world.broker.idle('orders')
    world.broker.source('orders')
    await world.broker.idle('orders')
  })

  it('waits for a group that does not exist yet', async () => {
    await using world = new MemoryWorld()
    await world.publish('orders', '1')
    const mail = world.broker.idle('orders', 'mail')
    const stock = world.broker.idle('orders', 'stock')
    await (await new Reader(world.broker.source('orders', { group: 'mail' })).take()).ack()
    await mail
    expect(await isPending(stock)).toBe(true)

    world.broker.source('orders', { group: 'stock', from: 'newest' })
    await stock
  })

  it('rejects when it is aborted, or the broker is closed', async () => {
    await using world = new MemoryWorld()
    await world.publish('orders', '1')
    const controller = new AbortController()
    const aborted = world.broker.idle('orders', 'default', { signal: controller.signal })
    const closed = world.broker.idle('orders')
    const reason = new Error('enough')
    controller.abort(reason)
    await expect(aborted).rejects.toBe(reason)
    await expect(world.broker.idle('orders', 'default', { signal: controller.signal })).rejects.toBe(reason)

    await world.broker.close()
    await expect(closed).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
  })
})

describe('closing', () => {
  it('ends every iteration without an error, and is idempotent', async () => {
    const world = new MemoryWorld()
    const readers = ['orders', 'orders', 'others'].map((topic) => new Reader(world.broker.source(topic)))
    const pulls = readers.map((reader) => reader.pull())
    await world.broker.close()
    await world.broker.close()
    await world.broker[Symbol.asyncDispose]()

    expect(await Promise.all(pulls)).toEqual([undefined, undefined, undefined])
    expect(await readers[0]?.pull()).toBeUndefined()
  })

  it('rejects later publishes and new sources', async () => {
    const { broker } = new MemoryWorld()
    await broker.close()

    const shutdown = expect.objectContaining({ code: 'ACKORD_SHUTDOWN' })
    await expect(broker.publish('orders', [raw('1')], { signal: never })).rejects.toEqual(shutdown)
    await expect(broker.idle('orders')).rejects.toEqual(shutdown)
    expect(() => broker.source('orders')).toThrow(shutdown)
  })

  it('refuses late verdicts, delivers nothing more and leaves no timer', async () => {
    const { broker, runtime, publish } = bound(new MemoryWorld())
    const reader = new Reader(broker.source('orders', { ackTimeout: 50, orderPerKey: true }))
    await publish('orders', 'a:1', 'b:1', 'a:2')
    const [first, second] = await reader.takeMany(2)
    await second?.nack(undefined, { retryAfter: 10 })
    expect(runtime.timers).toBe(1)

    await broker.close()
    expect(runtime.timers).toBe(0)
    await expect(first?.ack()).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    await runtime.advance(1000)
    expect(await reader.pull()).toBeUndefined()
    expect(broker.stats('orders')).toMatchObject({ ...nothing, sources: 0 })
  })

  it('may come before anything was started', async () => {
    await new MemoryBroker().close()
  })
})

describe('options', () => {
  it.each([
    ['prefetch', { prefetch: 0 }],
    ['prefetch', { prefetch: 1.5 }],
    ['ackTimeout', { ackTimeout: 0 }],
    ['ackTimeout', { ackTimeout: Number.NaN }],
    ['group', { group: '' }],
    ['deadLetter', { deadLetter: '' }],
    ['deadLetter', { deadLetter: 'orders' }],
    ['from', { from: 'middle' as 'oldest' }],
  ])('refuses a wrong %s by name', async (name, options) => {
    await using world = new MemoryWorld()
    expect(() => world.broker.source('orders', options)).toThrow(new RegExp(`^${name} must`))
    expect(world.broker.stats('orders').sources).toBe(0)
  })

  it('rejects an invalid history and an empty topic', async () => {
    expect(() => new MemoryBroker({ history: -1 })).toThrow(/^history must/)
    await using world = new MemoryWorld()
    expect(() => world.broker.source('')).toThrow(/^topic must/)
    await expect(world.broker.publish('', [raw('1')])).rejects.toThrow(/^topic must/)
  })

  it('starts nothing when it is constructed', async () => {
    await using world = new MemoryWorld()
    world.broker.source('orders', { ackTimeout: 10 })
    await settlePromises()
    expect(world.runtime.timers).toBe(0)
  })
})

function bound(world: MemoryWorld) {
  return { broker: world.broker, runtime: world.runtime, publish: world.publish.bind(world) }
}
