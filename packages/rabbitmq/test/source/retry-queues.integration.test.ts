import { AckordError, eventHandler, messageKey, type RawMessage, Router, silentLogger } from '@ackord/core'
import { type ConsumeMessage, connect } from 'amqplib'
import { describe, expect, it } from 'vitest'
import { declareTopology } from '../../src/index.ts'
import { events, open, openWorld, pull, pullMany, rabbitmqUrl, until, type World } from '../support/world.ts'

const failure = new Error('not now')

/** Whether the message waits in the retry queue of this level. */
const waitsIn = (world: World, queue: string, level: string) => world.ready(`${queue}.ackord.retry.${level}`)

/** Holds half of a prefetch of 4, so that the next nacked message waits in a retry queue. */
async function fillShare(messages: AsyncIterator<RawMessage>): Promise<void> {
  for (const message of await pullMany(messages, 2)) await message.nack(failure, { retryAfter: 600_000 })
}

describe.each(['classic', 'quorum'] as const)('as many failing messages as the prefetch, on a %s queue', (type) => {
  it('do not block the messages behind them, and are rejected at maxDeliveries', async () => {
    await using world = await openWorld()
    const [queue, dead] = [await world.queue({ type }), await world.queue()]
    await world.fill(queue, [...events(20, 'bad'), ...events(100, 'good')])
    const handled: string[] = []
    const tries = new Map<string, number>()
    const source = world.source(queue, { prefetch: 20, deadLetter: { publisher: world.publisher(), destination: dead } })
    const router = new Router({ concurrency: 20, maxDeliveries: 4, logger: silentLogger }).handle(
      eventHandler({ type: 'test.event' }, async (_data, context) => {
        const { id = '' } = context.get(messageKey) ?? {}
        tries.set(id, (tries.get(id) ?? 0) + 1)
        if (id.startsWith('bad')) throw failure
        handled.push(id)
      }),
    )
    const running = router.run(source)
    await until(async () => handled.length === 100 && (await world.ready(dead)) === 20)
    await router.stop()
    await running
    expect(new Set(handled).size).toBe(100)
    expect([...tries].filter(([id]) => id.startsWith('bad')).map(([, count]) => count)).toEqual(Array(20).fill(4))
    expect(await world.ready(queue)).toBe(0)
  })
})

describe('a message that waits in a retry queue', () => {
  it('is returned unchanged, with its count, and not before its delay has ended', async () => {
    await using world = await openWorld()
    const [queue, exchange] = [await world.queue(), world.name()]
    await world.admin.assertExchange(exchange, 'topic')
    await world.admin.bindQueue(queue, exchange, 'order.*')
    await world.fill(queue, ['h1', 'h2'])
    const seen: { exchange: string; routingKey: string }[] = []
    const source = world.source(queue, {
      prefetch: 4,
      attributes: ({ fields, properties }) => {
        seen.push({ exchange: fields.exchange, routingKey: fields.routingKey })
        return { id: String(properties.messageId), note: String(properties.headers?.['note']), kind: String(properties.type) }
      },
    })
    const messages = open(source)
    await fillShare(messages)
    const options = { messageId: 'm', type: 'order.placed', headers: { note: 'für', CC: [], bytes: Buffer.from('x') }, priority: 3 }
    world.admin.publish(exchange, 'order.placed', Buffer.from([0, 255, 10]), options)
    const first = await pull(messages)
    const nackedAt = performance.now()
    await first.nack(failure, { retryAfter: 300 })
    const second = await pull(messages)
    expect(performance.now() - nackedAt).toBeGreaterThanOrEqual(299)
    expect(second.data).toEqual(first.data)
    expect(second.attributes).toEqual({ id: 'm', note: 'für', kind: 'order.placed' })
    expect([first.deliveryCount, second.deliveryCount]).toEqual([1, 2])
    await second.nack(failure, { retryAfter: 300 })
    const third = await pull(messages)
    expect(third.deliveryCount).toBe(3)
    await third.ack()
    expect(seen.slice(2)).toEqual(Array(3).fill({ exchange, routingKey: 'order.placed' }))
  })

  it('keeps the user id that RabbitMQ has validated, also where a sender forges the header for it', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['h1', 'h2'])
    const userId = decodeURIComponent(new URL(rabbitmqUrl).username)
    const source = world.source(queue, { prefetch: 4, attributes: ({ properties }) => ({ id: '1', user: String(properties.userId) }) })
    const messages = open(source)
    await fillShare(messages)
    for (const [properties, user] of [
      [{ userId }, userId],
      [{ headers: { 'x-ackord-user-id': 'forged' } }, 'undefined'],
    ] as const) {
      world.admin.sendToQueue(queue, Buffer.from('x'), properties)
      for (const count of [1, 2]) {
        const message = await pull(messages)
        expect(message).toMatchObject({ deliveryCount: count, attributes: { user } })
        await (count === 1 ? message.nack(failure, { retryAfter: 50 }) : message.ack())
      }
    }
  })

  it('does not count towards the prefetch, and one with a short delay does not wait for a long one', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['h1', 'h2', ...events(20, 'slow'), 'quick'])
    const messages = open(world.source(queue, { prefetch: 4 }))
    await fillShare(messages)
    for (let index = 0; index < 20; index += 1) await (await pull(messages)).nack(failure, { retryAfter: 500_000 })
    const quick = await pull(messages)
    expect(quick.id).toBe('quick')
    await quick.nack(failure, { retryAfter: 10 })
    expect((await pull(messages)).id).toBe('quick')
    expect(await waitsIn(world, queue, 'long')).toBe(20)
    expect(world.openChannels()).toBe(2)
    await messages.return?.()
  })

  it('continues to be counted in another process', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['h1', 'h2', 'm'])
    const messages = open(world.source(queue, { prefetch: 4 }))
    await fillShare(messages)
    await (await pull(messages)).nack(failure, { retryAfter: 1 })
    await (await pull(messages)).nack(failure, { retryAfter: 1 })
    await messages.return?.()
    const elsewhere = open(world.source(queue))
    const found = await pullMany(elsewhere, 3)
    expect(found.find(({ id }) => id === 'm')?.deliveryCount).toBeGreaterThanOrEqual(3)
  })

  it('returns to a queue that was deleted and created again meanwhile', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['h1', 'h2', 'm'])
    const messages = open(world.source(queue, { prefetch: 4, declare: { type: 'classic' }, backoff: () => 10 }))
    await fillShare(messages)
    await (await pull(messages)).nack(failure, { retryAfter: 2000 })
    const returning = pull(messages)
    // Deleting the queue also deletes its binding.
    await world.admin.deleteQueue(queue)
    expect((await returning).id).toBe('m')
  }, 30_000)

  it('returns to a retry queue soon after the channels were lost in the middle of it', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['h1', 'h2', 'm', ...events(4, 'n')])
    const messages = open(world.source(queue, { prefetch: 4, backoff: () => 10 }))
    await fillShare(messages)
    await (await pull(messages)).nack(failure, { retryAfter: 300_000 })
    const lost = (await pull(messages)).nack(failure, { retryAfter: 300_000 }).catch(() => {})
    world.breakChannels()
    await lost
    // At most two of these are held in the process.
    const waiting = await waitsIn(world, queue, 'long')
    for (const message of await pullMany(messages, 4)) await message.nack(failure, { retryAfter: 300_000 })
    expect(await waitsIn(world, queue, 'long')).toBeGreaterThanOrEqual(waiting + 2)
  })

  it('is published on retryConnection: RabbitMQ reads no more acks from a connection that publishes during an alarm', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['h1', 'h2', 'm'])
    const retryConnection = await connect(rabbitmqUrl)
    const source = world.source(queue, { prefetch: 4, retryConnection })
    const messages = open(source)
    await fillShare(messages)
    await (await pull(messages)).nack(failure, { retryAfter: 300_000 })
    expect(await waitsIn(world, queue, 'long')).toBe(1)
    // Only the consuming channel is open.
    expect(world.openChannels()).toBe(1)
    await source[Symbol.asyncDispose]()
    await retryConnection.close()
  })

  it('is held in the process if the retry queues exist without a return route', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    // Without a dead-letter exchange, messages would expire in this queue and be lost.
    await world.admin.assertQueue(`${queue}.ackord.retry.1s`, { durable: true })
    await world.fill(queue, ['h1', 'h2', 'm'])
    const messages = open(world.source(queue, { prefetch: 4 }))
    await fillShare(messages)
    await (await pull(messages)).nack(failure, { retryAfter: 50 })
    expect(await pull(messages)).toMatchObject({ id: 'm', deliveryCount: 2 })
    expect(world.logger.at('warn').map(({ text }) => text)).toEqual([expect.stringContaining('cannot wait in the retry queues')])
  })

  it('is held in the process, with one warning, if the queues cannot be created', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    // An exchange of another type already has this name.
    await world.admin.assertExchange(`${queue}.ackord.retry`, 'fanout')
    await world.fill(queue, ['h1', 'h2', 'm1', 'm2', 'm3'])
    const messages = open(world.source(queue, { prefetch: 4 }))
    await fillShare(messages)
    await (await pull(messages)).nack(failure, { retryAfter: 20 })
    await (await pull(messages)).nack(failure, { retryAfter: 20 })
    expect((await pullMany(messages, 2)).map(({ id, deliveryCount }) => [id, deliveryCount])).toEqual([
      ['m1', 2],
      ['m2', 2],
    ])
    expect(world.logger.at('warn').map(({ text }) => text)).toEqual([expect.stringContaining('cannot wait in the retry queues')])
  })

  it('is held in the process if order is kept, and if configured so', async () => {
    await using world = await openWorld()
    const single = { 'x-single-active-consumer': true }
    const cases = [
      [await world.queue(), { prefetch: 4, retryQueues: false }],
      [await world.queue({ type: 'quorum', arguments: single }), { prefetch: 4, declare: { arguments: single } }],
    ] as const
    for (const [queue, options] of cases) {
      await world.fill(queue, events(5))
      const messages = open(world.source(queue, options))
      for (const message of await pullMany(messages, 4)) await message.nack(failure, { retryAfter: 600_000 })
      expect(await world.ready(queue)).toBe(1)
      await messages.return?.()
    }
  })

  it('is held in the process once a router has kept an order per key', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, events(5))
    const messages = open(world.source(queue, { prefetch: 4 }))
    const [first, ...others] = await pullMany(messages, 4)
    await first?.nack(new AckordError('ACKORD_KEY_NACKED', 'an earlier message of its key was nacked'), { retryAfter: 600_000 })
    for (const message of others) await message.nack(failure, { retryAfter: 600_000 })
    expect(await world.ready(queue)).toBe(1)
    expect(world.openChannels()).toBe(1)
    await messages.return?.()
  })

  it('is held in the process if it has a time to live, which would restart', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['h1', 'h2'])
    world.admin.sendToQueue(queue, Buffer.from('x'), { expiration: 60_000, messageId: 'm' })
    const messages = open(world.source(queue, { prefetch: 4 }))
    await fillShare(messages)
    await (await pull(messages)).nack(failure, { retryAfter: 20 })
    expect((await pull(messages)).deliveryCount).toBe(2)
    expect(world.openChannels()).toBe(1)
  })
})

describe('declareTopology', () => {
  it('creates the retry queues', async () => {
    await using world = await openWorld()
    const queue = world.name()
    for (const _ of [1, 2]) await declareTopology(world.connection, { queues: { [queue]: { type: 'classic', retry: true } } })
    for (const level of ['1s', '10s', '1m', 'long']) expect(await waitsIn(world, queue, level)).toBe(0)
    world.admin.sendToQueue(`${queue}.ackord.retry.1s`, Buffer.from('x'), { expiration: 1, messageId: 'm' })
    const got = new Promise<ConsumeMessage | null>((resolve) => void world.admin.consume(queue, resolve))
    expect((await got)?.fields).toMatchObject({ exchange: `${queue}.ackord.retry`, routingKey: queue })
  })
})
