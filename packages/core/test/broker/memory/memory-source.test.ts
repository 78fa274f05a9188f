import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { ids, isPending, MemoryWorld, never, Reader, raw } from './memory-world.ts'

describe('verdicts', () => {
  it('never delivers an acked message again', async () => {
    await using world = new MemoryWorld()
    const source = world.broker.source('orders', { ackTimeout: 100 })
    const reader = new Reader(source)
    await world.publish('orders', '1')
    const message = await reader.take()
    expect(await message.ack()).toBe(true)
    expect(await message.ack()).toBe(true)
    expect(await message.nack()).toBe(false)

    await world.runtime.advance(1000)
    await source[Symbol.asyncDispose]()
    expect(await isPending(new Reader(world.broker.source('orders')).pull())).toBe(true)
  })

  it('delivers a nacked message again at once, at the head, and counts', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders'))
    await world.publish('orders', '1', '2')
    const first = await reader.take()
    expect(first.deliveryCount).toBe(1)
    expect(await first.nack(new Error('later'))).toBe(true)
    expect(await first.ack()).toBe(false)

    const again = await reader.take()
    expect([again.id, again.deliveryCount]).toEqual(['1', 2])
    expect(world.broker.stats('orders')).toMatchObject({ inFlight: 1, ready: 1, acked: 0 })
  })

  it('wakes a reader that waits when a message is nacked', async () => {
    await using world = new MemoryWorld()
    const [one, two] = [new Reader(world.broker.source('orders')), new Reader(world.broker.source('orders'))]
    await world.publish('orders', '1')
    const message = await one.take()
    const pulled = two.pull()
    expect(await isPending(pulled)).toBe(true)
    await message.nack()

    expect(await pulled).toMatchObject({ id: '1', deliveryCount: 2 })
  })

  it('does not let a message that is always nacked block the others', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders', { prefetch: 1 }))
    await world.publish('orders', 'poison-1', 'poison-2', '1', '2', '3')
    const acked: string[] = []
    for (let turn = 0; acked.length < 3 && turn < 20; turn += 1) {
      const message = await reader.take()
      if (message.id?.startsWith('poison')) await message.nack()
      else if (await message.ack()) acked.push(String(message.id))
    }

    expect(acked).toEqual(['1', '2', '3'])
    expect(world.broker.stats('orders').ready).toBe(2)
  })

  it('waits for retryAfter with one timer for all, and delivers in the order in which the delays end', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders'))
    await world.publish('orders', 'a', 'b', 'c', 'd')
    const messages = await reader.takeMany(4)
    for (const [index, retryAfter] of [300, 100, 200, 100].entries()) await messages[index]?.nack(null, { retryAfter })
    expect(world.broker.stats('orders')).toMatchObject({ delayed: 4, ready: 0 })
    expect(world.runtime.timers).toBe(1)

    await world.runtime.advance(99)
    expect(world.broker.stats('orders').ready).toBe(0)
    await world.runtime.advance(201)
    const again = await reader.takeMany(4)
    expect(ids(again)).toEqual(['b', 'd', 'c', 'a'])
    expect(again.map((message) => message.deliveryCount)).toEqual([2, 2, 2, 2])
    expect(world.runtime.timers).toBe(0)
  })

  it('settles only the message it is called on', async () => {
    await using world = new MemoryWorld()
    const source = world.broker.source('orders')
    await world.publish('orders', '1', '2', '3')
    const [, two] = await new Reader(source).takeMany(3)
    await two?.ack()
    await source[Symbol.asyncDispose]()

    expect(ids(await new Reader(world.broker.source('orders')).takeMany(2))).toEqual(['1', '3'])
  })

  it('sends a rejected message to the topic for dead letters, then lets it go', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders', { deadLetter: 'graveyard' }))
    await world.publish('orders', '1')
    expect(await (await reader.take()).reject(new Error('bad order'))).toBe(true)

    const letter = await new Reader(world.broker.source('graveyard')).take()
    expect(letter.attributes).toMatchObject({ id: '1', deadletterreason: 'bad order' })
    expect(new TextDecoder().decode(letter.data)).toBe('1')
    expect(world.broker.stats('orders')).toMatchObject({ kept: 0, acked: 0, rejected: 1 })
    expect(world.runtime.timers).toBe(0)
  })

  it('sends a rejected message to another publisher', async () => {
    await using world = new MemoryWorld()
    await using other = new MemoryWorld({ history: 1 })
    const deadLetter = { publisher: other.broker, destination: 'letters' }
    await world.publish('orders', '1')
    await (await new Reader(world.broker.source('orders', { deadLetter })).take()).reject(new Error('no'))

    expect(ids(other.broker.published('letters'))).toEqual(['1'])
    expect(world.broker.stats('orders').kept).toBe(0)
  })

  it('delivers a rejected message again, later, when the dead letter does not take it', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders', { deadLetter: 'graveyard' }))
    await world.publish('orders', '1')
    world.broker.fail('graveyard', new Error('down'))
    await expect((await reader.take()).reject(new Error('no'))).rejects.toMatchObject({ code: 'ACKORD_PUBLISH_FAILED' })
    expect(world.broker.stats('orders')).toMatchObject({ kept: 1, delayed: 1, rejected: 0 })

    await world.runtime.advance(2000)
    expect((await reader.take()).deliveryCount).toBe(2)
  })

  it('drops a rejected message with deadLetter: discard', async () => {
    await using world = new MemoryWorld()
    await world.publish('orders', '1')
    await (await new Reader(world.broker.source('orders', { deadLetter: 'discard' })).take()).reject(new Error('no'))

    expect(world.broker.stats('orders')).toMatchObject({ kept: 0, rejected: 1 })
  })

  it('delivers a rejected message again when there is no dead letter, and warns once', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders'))
    await world.publish('orders', '1', '2')
    for (const message of await reader.takeMany(2)) await message.reject(new Error('no'))

    expect(world.broker.stats('orders')).toMatchObject({ kept: 2, delayed: 2 })
    expect(world.logger.at('warn')).toHaveLength(1)
  })
})

describe('ackTimeout', () => {
  it('delivers a message again that was not settled in time, and refuses the late ack', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders', { ackTimeout: 100 }))
    await world.publish('orders', '1')
    const late = await reader.take()
    await world.runtime.advance(99)
    expect(world.broker.stats('orders').inFlight).toBe(1)
    await world.runtime.advance(1)

    const again = await reader.take()
    expect(again.deliveryCount).toBe(2)
    await expect(late.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
    expect(world.broker.stats('orders')).toMatchObject({ inFlight: 1, acked: 0 })
    expect(await again.ack()).toBe(true)
  })

  it('is measured for each message, with one timer for all', async () => {
    await using world = new MemoryWorld()
    const source = world.broker.source('orders', { ackTimeout: 100 })
    const other = new Reader(world.broker.source('orders'))
    const reader = new Reader(source)
    await world.publish('orders', '1', '2', '3')
    const one = await reader.take()
    await world.runtime.advance(40)
    await reader.take()
    await world.runtime.advance(40)
    await reader.take()
    await one.ack()
    expect(world.runtime.timers).toBe(1)

    await world.runtime.advance(59)
    expect(world.broker.stats('orders')).toMatchObject({ ready: 0, inFlight: 2 })
    await world.runtime.advance(1)
    expect((await other.take()).id).toBe('2')
    await world.runtime.advance(40)
    expect((await other.take()).id).toBe('3')
    expect(world.runtime.timers).toBe(0)
  })

  it('delivers expired messages to a waiting reader', async () => {
    await using world = new MemoryWorld()
    const slow = new Reader(world.broker.source('orders', { ackTimeout: 100 }))
    const other = new Reader(world.broker.source('orders'))
    await world.publish('orders', '1')
    await slow.take()
    const pulled = other.pull()
    await world.runtime.advance(100)

    expect(await pulled).toMatchObject({ id: '1', deliveryCount: 2 })
  })
})

describe('prefetch', () => {
  it('limits the unsettled messages of a source, over all its iterations', async () => {
    await using world = new MemoryWorld()
    const source = world.broker.source('orders', { prefetch: 2 })
    await world.publish('orders', '1', '2', '3', '4')
    const [left, right] = [new Reader(source), new Reader(source)]
    const one = await left.take()
    await right.take()
    const waiting = left.pull()
    expect(await isPending(waiting)).toBe(true)
    expect(world.broker.stats('orders')).toMatchObject({ inFlight: 2, ready: 2, waiting: 1 })

    await one.ack()
    expect((await waiting)?.id).toBe('3')
    expect(await isPending(right.pull())).toBe(true)
  })

  it('leaves messages beyond its limit to other sources', async () => {
    await using world = new MemoryWorld()
    const full = new Reader(world.broker.source('orders', { prefetch: 1 }))
    const free = new Reader(world.broker.source('orders'))
    await world.publish('orders', '1')
    await full.take()
    const paused = full.pull()
    await world.publish('orders', '2', '3')

    expect(ids(await free.takeMany(2))).toEqual(['2', '3'])
    expect(await isPending(paused)).toBe(true)
  })

  it('makes room with a nack too', async () => {
    await using world = new MemoryWorld()
    const reader = new Reader(world.broker.source('orders', { prefetch: 1 }))
    await world.publish('orders', '1', '2')
    const one = await reader.take()
    const pulled = reader.pull()
    await one.nack(undefined, { retryAfter: 1000 })

    expect((await pulled)?.id).toBe('2')
  })
})

describe('iterations', () => {
  it('ends without an error when it is aborted before it starts', async () => {
    await using world = new MemoryWorld()
    await world.publish('orders', '1')
    const reader = new Reader(world.broker.source('orders'), AbortSignal.abort())

    expect(await reader.pull()).toBeUndefined()
    expect(world.broker.stats('orders')).toMatchObject({ ready: 1, inFlight: 0 })
  })

  it('ends without an error when it is aborted while it waits', async () => {
    await using world = new MemoryWorld()
    const controller = new AbortController()
    const reader = new Reader(world.broker.source('orders'), controller.signal)
    const pulls = [reader.pull(), reader.pull()]
    controller.abort()

    expect(await Promise.all(pulls)).toEqual([undefined, undefined])
    expect(world.broker.stats('orders').waiting).toBe(0)
    await world.publish('orders', '1')
    expect(await reader.pull()).toBeUndefined()
    expect(world.broker.stats('orders')).toMatchObject({ ready: 1, inFlight: 0 })
  })

  it('ends without an error when it is aborted while prefetch pauses it', async () => {
    await using world = new MemoryWorld()
    const controller = new AbortController()
    const reader = new Reader(world.broker.source('orders', { prefetch: 1 }), controller.signal)
    await world.publish('orders', '1', '2')
    const held = await reader.take()
    const paused = reader.pull()
    controller.abort()
    expect(await paused).toBeUndefined()

    await held.ack()
    expect(world.broker.stats('orders')).toMatchObject({ acked: 1, ready: 1, inFlight: 0 })
  })

  it('ends the pulls of the iteration that is left, and of no other', async () => {
    await using world = new MemoryWorld()
    const source = world.broker.source('orders')
    const [left, right] = [new Reader(source), new Reader(source)]
    const [ended, kept] = [left.pull(), right.pull()]
    await left.leave()
    expect(await ended).toBeUndefined()

    await world.publish('orders', '1')
    expect((await kept)?.id).toBe('1')
  })

  it('takes no message ahead: leaving releases nothing, and no delivery is counted', async () => {
    await using world = new MemoryWorld()
    const source = world.broker.source('orders')
    await world.publish('orders', '1', '2', '3')
    for await (const message of source.messages({ signal: never })) {
      await message.ack()
      break
    }
    await expect(async () => {
      for await (const message of source.messages({ signal: never })) {
        await message.ack()
        throw new Error('handler')
      }
    }).rejects.toThrow('handler')
    expect(world.broker.stats('orders')).toMatchObject({ ready: 1, inFlight: 0 })

    expect(await new Reader(source).take()).toMatchObject({ id: '3', deliveryCount: 1 })
  })

  it('leaves a yielded message to its handler when the iteration ends', async () => {
    await using world = new MemoryWorld()
    const controller = new AbortController()
    const source = world.broker.source('orders')
    await world.publish('orders', '1')
    const held = await new Reader(source, controller.signal).take()
    controller.abort()

    expect(await isPending(new Reader(source).pull())).toBe(true)
    expect(await held.ack()).toBe(true)
    expect(world.broker.stats('orders').kept).toBe(0)
  })

  it('leaves no listener on the signal', async () => {
    await using world = new MemoryWorld()
    const controller = new AbortController()
    const source = world.broker.source('orders')
    const listeners = () => getEventListeners(controller.signal, 'abort').length
    for (let round = 0; round < 20; round += 1) {
      const reader = new Reader(source, controller.signal)
      const pulled = reader.pull()
      expect(listeners()).toBe(1)
      await reader.leave()
      await pulled
      expect(listeners()).toBe(0)
    }
    const pulled = new Reader(source, controller.signal).pull()
    await source[Symbol.asyncDispose]()
    await pulled
    expect(listeners()).toBe(0)
  })
})

describe('disposing a source', () => {
  it('delivers unsettled messages again immediately, in order, and refuses the late verdict', async () => {
    await using world = new MemoryWorld()
    const source = world.broker.source('orders', { ackTimeout: 100 })
    await world.publish('orders', '1', '2', '3')
    const [one, two] = await new Reader(source).takeMany(3)
    await two?.ack()
    await source[Symbol.asyncDispose]()
    await source[Symbol.asyncDispose]()
    expect(world.runtime.timers).toBe(0)

    await expect(one?.ack()).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect(await one?.settled).toMatchObject({ verdict: 'acked', failure: { code: 'ACKORD_SHUTDOWN' } })
    const again = await new Reader(world.broker.source('orders')).takeMany(2)
    expect(ids(again)).toEqual(['1', '3'])
    expect(again.map((message) => message.deliveryCount)).toEqual([2, 2])
  })

  it('ends its iterations, and later ones', async () => {
    await using world = new MemoryWorld()
    const source = world.broker.source('orders')
    const reader = new Reader(source)
    const pulled = reader.pull()
    await source[Symbol.asyncDispose]()
    expect(await pulled).toBeUndefined()

    await world.publish('orders', '1')
    expect(await reader.pull()).toBeUndefined()
    expect(await new Reader(source).pull()).toBeUndefined()
    expect(world.broker.stats('orders')).toMatchObject({ ready: 1, sources: 0 })
  })

  it('does not affect delayed messages', async () => {
    await using world = new MemoryWorld()
    const source = world.broker.source('orders')
    await world.publish('orders', '1')
    await (await new Reader(source).take()).nack(undefined, { retryAfter: 100 })
    await source[Symbol.asyncDispose]()
    expect(world.broker.stats('orders')).toMatchObject({ delayed: 1, ready: 0 })

    const pulled = new Reader(world.broker.source('orders')).pull()
    await world.runtime.advance(100)
    expect(await pulled).toMatchObject({ id: '1', deliveryCount: 2 })
  })

  it('delivers a message again that was being rejected, and refuses the end of the rejection', async () => {
    await using world = new MemoryWorld()
    let confirm = () => {}
    const publisher = {
      publish: () =>
        new Promise<[{ ok: true }]>((resolve) => {
          confirm = () => resolve([{ ok: true }])
        }),
    }
    const source = world.broker.source('orders', { deadLetter: { publisher, destination: 'letters' } })
    await world.broker.publish('orders', [raw('1')])
    const rejected = (await new Reader(source).take()).reject(new Error('no'))
    await source[Symbol.asyncDispose]()
    confirm()

    await expect(rejected).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect(world.broker.stats('orders')).toMatchObject({ ready: 1, rejected: 0 })
  })
})
