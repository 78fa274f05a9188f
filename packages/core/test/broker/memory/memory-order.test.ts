import { describe, expect, it } from 'vitest'
import { ids, isPending, MemoryWorld, never, Reader } from './memory-world.ts'

describe('order per key', () => {
  it('has one message of a key in flight at a time, while other keys and messages without a key continue', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders', { orderPerKey: true }))
    await world.publish('orders', 'a:1', 'a:2', 'b:1', 'plain-1', 'a:3', 'plain-2', 'b:2')
    const taken = await reader.takeMany(4)
    expect(ids(taken)).toEqual(['a:1', 'b:1', 'plain-1', 'plain-2'])
    expect(world.broker.stats('orders')).toMatchObject({ blocked: 3, ready: 0, keys: 2 })
    const pulled = reader.pull()
    expect(await isPending(pulled)).toBe(true)

    await taken[0]?.ack()
    expect((await pulled)?.id).toBe('a:2')
  })

  it('delivers a message that its key blocked before messages that were published after it', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders', { orderPerKey: true }))
    await world.publish('orders', 'a:1', 'a:2', 'plain-1', 'plain-2')
    await (await reader.take()).ack()
    expect(ids(await reader.takeMany(3))).toEqual(['a:2', 'plain-1', 'plain-2'])
  })

  it('keeps the order of each key with several consumers', async () => {
    await using world = new MemoryWorld()
    const orders = new Map<string, string[]>()
    const consumers = Array.from({ length: 4 }, async () => {
      const source = world.broker.source('orders', { orderPerKey: true, prefetch: 5 })
      for await (const message of source.messages({ signal: never })) {
        const [key = '', name = ''] = String(message.id).split(':')
        orders.set(key, [...(orders.get(key) ?? []), name])
        await message.ack()
      }
    })
    for (let number = 0; number < 300; number += 1) await world.publish('orders', `k${number % 7}:${number}`)
    await world.broker.idle('orders')
    await world.broker.close()
    await Promise.all(consumers)

    expect([...orders.values()].flat()).toHaveLength(300)
    for (const names of orders.values()) {
      expect(names).toEqual([...names].sort((one, other) => Number(one) - Number(other)))
    }
  })

  it('blocks a key with its nacked message, for the delay too, until that is acked', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders', { orderPerKey: true }))
    await world.publish('orders', 'a:1', 'a:2', 'b:1', 'b:2')
    const [a, b] = await reader.takeMany(2)
    await a?.nack(undefined, { retryAfter: 100 })
    await b?.ack()
    expect((await reader.take()).id).toBe('b:2')
    const pulled = reader.pull()
    expect(await isPending(pulled)).toBe(true)

    await world.runtime.advance(100)
    const again = await pulled
    expect([again?.id, again?.deliveryCount]).toEqual(['a:1', 2])
    await again?.nack()
    const third = await reader.take()
    expect([third.id, third.deliveryCount]).toEqual(['a:1', 3])
    await third.ack()
    expect((await reader.take()).id).toBe('a:2')
  })

  it('does not let a poison message block other keys', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders', { orderPerKey: true, prefetch: 1 }))
    await world.publish('orders', 'poison:1', 'a:1', 'poison:2', 'a:2', 'b:1')
    const acked: string[] = []
    for (let turn = 0; turn < 20 && acked.length < 3; turn += 1) {
      const message = await reader.take()
      if (message.partitionKey === 'poison') await message.nack()
      else if (await message.ack()) acked.push(String(message.id))
    }

    expect(acked.toSorted()).toEqual(['a:1', 'a:2', 'b:1'])
    expect(world.broker.stats('orders')).toMatchObject({ ready: 1, blocked: 1 })
  })

  it('frees the key of a rejected message', async () => {
    await using world = new MemoryWorld()
    const options = { orderPerKey: true, deadLetter: 'letters' }
    const reader = new Reader(world.broker.source('orders', options))
    await world.publish('orders', 'a:1', 'a:2')
    await (await reader.take()).reject(new Error('no'))

    expect((await reader.take()).id).toBe('a:2')
    expect(world.broker.stats('letters').kept).toBe(1)
  })

  it('keeps the key blocked when its source is disposed or its verdict is late', async () => {
    await using world = new MemoryWorld()
    const source = world.broker.source('orders', { orderPerKey: true })
    await world.publish('orders', 'a:1', 'a:2')
    await new Reader(source).take()
    await source[Symbol.asyncDispose]()
    const reader = new Reader(world.broker.source('orders', { ackTimeout: 10 }))
    expect((await reader.take()).deliveryCount).toBe(2)
    await world.runtime.advance(10)
    const third = await reader.take()
    expect([third.id, third.deliveryCount]).toEqual(['a:1', 3])
    await third.ack()

    expect((await reader.take()).id).toBe('a:2')
  })

  it('holds for messages that were published before the group existed', async () => {
    await using world = new MemoryWorld()
    await world.publish('orders', 'a:1', 'a:2')
    const reader = new Reader(world.broker.source('orders', { orderPerKey: true }))
    const first = await reader.take()
    expect(await isPending(reader.pull())).toBe(true)
    expect(first.id).toBe('a:1')
  })

  it('applies within each group', async () => {
    await using world = new MemoryWorld()
    const ordered = new Reader(world.broker.source('orders', { group: 'ordered', orderPerKey: true }))
    const free = new Reader(world.broker.source('orders', { group: 'free' }))
    await world.publish('orders', 'a:1', 'a:2')
    expect(ids(await free.takeMany(2))).toEqual(['a:1', 'a:2'])
    await ordered.take()
    expect(await isPending(ordered.pull())).toBe(true)

    const wrong = { group: 'ordered', orderPerKey: false }
    expect(() => world.broker.source('orders', wrong)).toThrow(
      "orderPerKey must be true, as the first source of group 'ordered' on 'orders' has it.",
    )
    expect(world.broker.stats('orders', 'ordered').sources).toBe(1)
    world.broker.source('orders', { group: 'ordered' })
    world.broker.source('orders', { group: 'ordered', orderPerKey: true })
    expect(world.broker.stats('orders', 'ordered').sources).toBe(3)
  })

  it('keeps no state of a key whose messages are settled', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders', { orderPerKey: true }))
    await world.publish('orders', ...Array.from({ length: 100 }, (_, index) => `k${index % 10}:${index}`))
    for (let index = 0; index < 100; index += 1) await (await reader.take()).ack()

    expect(world.broker.stats('orders')).toMatchObject({ keys: 0, blocked: 0, kept: 0, acked: 100 })
  })
})
