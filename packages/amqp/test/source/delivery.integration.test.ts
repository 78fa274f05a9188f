import { AckordError, publishAll } from '@ackord/core'
import { connect } from 'amqplib'
import { describe, expect, it } from 'vitest'
import { rabbitmqPublisher, rabbitmqSource } from '../../../rabbitmq/src/index.ts'
import { exchangeAddress, queueAddress } from '../../src/index.ts'
import { amqpUrl, event, numbered, openWorld, pull, pullMany, read, serverVersion, until } from '../support/world.ts'

const [major, minor] = await serverVersion()
/** Quorum queues delay a returned message from RabbitMQ 4.3 on. */
const queueDelays = major > 4 || minor >= 3
const failure = new Error('it makes no sense')
const shutdown = new AckordError('ACKORD_SHUTDOWN', 'it stops')

describe('the delivery count', () => {
  it.concurrent('grows with a failure, and not with a return of a message that was not handled', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['a'])
    const messages = read(world.source(queue))
    const counts: (number | undefined)[] = []
    for (const error of [undefined, shutdown, failure, shutdown]) {
      const message = await pull(messages)
      counts.push(message.deliveryCount)
      await message.nack(error)
    }
    const last = await pull(messages)
    expect([...counts, last.deliveryCount]).toEqual([1, 2, 2, 3, 3])
    await last.ack()
  })
})

describe('a rejected message', () => {
  it.concurrent.each(['rejected', 'undeliverable'] as const)(
    'with %s is moved by the dead-letter exchange of its queue',
    async (deadLetter) => {
      await using world = await openWorld()
      const dead = await world.queue()
      const queue = await world.queue({ arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead } })
      await world.fill(queue, ['a', 'b'])
      const messages = read(world.source(queue, { deadLetter }))
      const [first, second] = await pullMany(messages, 2)
      expect(await first?.reject(failure)).toBe(true)
      expect(await second?.ack()).toBe(true)
      const letter = await pull(read(world.source(dead)))
      expect(letter.id).toBe('a')
      await letter.ack()
      expect(await world.ready(queue)).toBe(0)
    },
  )
})

describe('a nack with a delay', () => {
  it.concurrent('holds a place of the prefetch with `local`, and none where the queue delays', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['a', 'b'])
    const order: unknown[] = []
    const messages = read(world.source(queue, { prefetch: 1, delay: 'broker' }))
    const first = await pull(messages)
    await first.nack(failure, { retryAfter: 200 })
    for (let count = 0; count < 2; count += 1) {
      const message = await pull(messages)
      order.push([message.id, message.deliveryCount])
      await message.ack()
    }
    const [late, next] = [
      ['a', 2],
      ['b', 1],
    ]
    expect(order).toEqual(queueDelays ? [next, late] : [late, next])
  })

  it.concurrent('is shortened to maxDelay', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['a'])
    const messages = read(world.source(queue, { maxDelay: 20 }))
    await (await pull(messages)).nack(failure, { retryAfter: 3_600_000 })
    expect((await pull(messages)).deliveryCount).toBe(2)
  })
})

describe('the prefetch', () => {
  it.concurrent('is how many messages a slow consumer holds, and another one gets the rest', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, numbered(10))
    const slow = read(world.source(queue, { prefetch: 3 }))
    const held = [await pull(slow)]
    await until(async () => (await world.ready(queue)) === 7)
    const rest = await pullMany(read(world.source(queue, { prefetch: 7 })), 7)
    await Promise.all(rest.map((message) => message.ack()))
    held.push(...(await pullMany(slow, 2)))
    await Promise.all(held.map((message) => message.ack()))
    expect(new Set([...held, ...rest].map(({ id }) => id))).toEqual(new Set(numbered(10)))
  })
})

describe('order per key', () => {
  it.concurrent('is kept when a source is disposed with a message that was nacked before', async () => {
    await using world = await openWorld()
    const queue = await world.queue({ arguments: { 'x-single-active-consumer': true } })
    const ids = numbered(6)
    await publishAll(
      world.publisher(),
      queue,
      ids.map((id) => event(id, { partitionkey: 'k' })),
    )
    const source = world.source(queue, { order: 'perKey' })
    const messages = read(source)
    await (await pull(messages)).nack(failure, { retryAfter: 1 })
    expect((await pull(messages)).id).toBe('m0')
    await source[Symbol.asyncDispose]()

    const next = read(world.source(queue, { order: 'perKey' }))
    const seen: unknown[] = []
    while (seen.length < ids.length) {
      const message = await pull(next)
      seen.push(message.id)
      await message.ack()
    }
    expect(seen).toEqual(ids)
  })

  it.concurrent('keeps later messages back until the one in hand is settled after the loop has ended', async () => {
    await using world = await openWorld()
    const queue = await world.queue({ arguments: { 'x-single-active-consumer': true } })
    await publishAll(
      world.publisher(),
      queue,
      numbered(4).map((id) => event(id, { partitionkey: 'k' })),
    )
    const stop = new AbortController()
    const messages = read(world.source(queue, { order: 'perKey' }), stop.signal)
    const first = await pull(messages)
    stop.abort()
    expect((await messages.next()).done).toBe(true)
    expect(await world.ready(queue)).toBe(0)
    expect(await first.nack(failure)).toBe(true)

    const next = read(world.source(queue, { order: 'perKey' }))
    const seen: unknown[] = []
    while (seen.length < 4) {
      const message = await pull(next)
      seen.push(message.id)
      await message.ack()
    }
    expect(seen).toEqual(numbered(4))
  })

  it.concurrent('is kept when a message is nacked while the iteration ends, and another one is still being handled', async () => {
    await using world = await openWorld()
    const queue = await world.queue({ arguments: { 'x-single-active-consumer': true } })
    const other = event('other', { partitionkey: 'another' })
    await publishAll(world.publisher(), queue, [other, ...numbered(4).map((id) => event(id, { partitionkey: 'k' }))])
    const stop = new AbortController()
    const messages = read(world.source(queue, { order: 'perKey' }), stop.signal)
    const [held, first] = await pullMany(messages, 2)
    stop.abort()
    // Before the broker has taken the credit back: it would deliver a returned message to this source again, behind the later ones.
    const nacked = first?.nack(failure)
    expect((await messages.next()).done).toBe(true)
    expect(await nacked).toBe(true)
    expect(await held?.ack()).toBe(true)

    const next = read(world.source(queue, { order: 'perKey' }))
    const seen: unknown[] = []
    while (seen.length < 4) {
      const message = await pull(next)
      seen.push([message.id, message.deliveryCount])
      await message.ack()
    }
    expect(seen).toEqual(numbered(4).map((id, index) => [id, index === 0 ? 2 : 1]))
  })
})

describe('AMQP 0-9-1', () => {
  it.concurrent('reads what AMQP 1.0 has published, and the other way round', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const door = await connect(amqpUrl)
    const sent = event('a', {
      partitionkey: 'k',
      number: 7,
      yes: true,
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    })
    await publishAll(world.publisher(), queue, [sent])
    const legacy = rabbitmqSource(door, { queue, logger: world.logger })
    const forth = await pull(read(legacy))
    expect(forth.attributes).toEqual(sent.attributes)
    expect(forth.data).toEqual(sent.data)
    await forth.ack()
    await legacy.close()

    const publisher = rabbitmqPublisher(door, { logger: world.logger })
    await publishAll(publisher, queue, [sent])
    const back = await pull(read(world.source(queue)))
    // RabbitMQ writes the booleans of AMQP 0-9-1 in the long form, which rhea reads as a number.
    expect(back.attributes).toEqual({ ...sent.attributes, yes: 1 })
    expect(back.data).toEqual(sent.data)
    await back.ack()
    await publisher.close()
    await door.close()
  })
})

describe('an address', () => {
  it.concurrent('may be a queue with any name, and an exchange with a routing key', async () => {
    await using world = await openWorld()
    const queue = `${world.name()}/a b%c#ä`
    const exchange = world.name()
    await world.admin.assertQueue(queue, { durable: true })
    await world.admin.assertExchange(exchange, 'topic')
    await world.admin.bindQueue(queue, exchange, 'order.*')
    const publisher = world.publisher({
      address: (destination, { type }) => (destination === exchange ? exchangeAddress(exchange, type) : destination),
    })
    await publishAll(publisher, queue, [event('plain')])
    await publishAll(publisher, queueAddress(queue), [event('address')])
    const [routed, unrouted] = await publisher.publish(
      exchange,
      [event('routed', { type: 'order.placed' }), event('lost', { type: 'other' })],
      {
        signal: AbortSignal.timeout(20_000),
      },
    )
    expect(routed).toEqual({ ok: true })
    expect(unrouted).toMatchObject({ ok: false, scope: 'record', error: { message: expect.stringContaining('no queue') } })
    const messages = await pullMany(read(world.source(queue)), 3)
    expect(messages.map(({ id }) => id).sort()).toEqual(['address', 'plain', 'routed'])
    await Promise.all(messages.map((message) => message.ack()))
    await world.admin.deleteQueue(queue)
  })
})

describe('a queue', () => {
  it.concurrent('that is full is at fault for what it refuses, and is tried again', async () => {
    await using world = await openWorld()
    const queue = await world.queue({ arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' } })
    const publisher = world.publisher()
    const signal = AbortSignal.timeout(20_000)
    // A quorum queue takes a few more before it notices.
    let refused: unknown
    await until(async () => {
      const [result] = await publisher.publish(queue, [event('x')], { signal })
      refused = result
      return result?.ok === false
    })
    expect(refused).toMatchObject({
      ok: false,
      scope: 'destination',
      error: { message: expect.stringMatching(/is full|exceeded maximum length/) },
    })
    expect(refused).not.toHaveProperty('permanent')
    await world.admin.purgeQueue(queue)
    await until(async () => (await publisher.publish(queue, [event('y')], { signal }))[0]?.ok === true)
  })

  it.concurrent('that is deleted and created again is published to and read again', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const publisher = world.publisher()
    const signal = AbortSignal.timeout(20_000)
    const messages = read(world.source(queue))
    await publishAll(publisher, queue, [event('a')])
    await (await pull(messages)).ack()
    await world.admin.deleteQueue(queue)
    await until(async () => (await publisher.publish(queue, [event('gone')], { signal }))[0]?.ok === false)
    await world.admin.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } })
    await until(async () => (await publisher.publish(queue, [event('b')], { signal }))[0]?.ok === true)
    expect((await pull(messages)).id).toBe('b')
    expect(world.logger.at('warn').map(({ text }) => text)).toEqual([expect.stringContaining('It is attached again')])
  })

  it.concurrent('that does not exist ends a source with advice', async () => {
    await using world = await openWorld()
    await expect(pull(read(world.source(world.name())))).rejects.toMatchObject({
      code: 'ACKORD_SOURCE_FAILED',
      message: expect.stringContaining('Create it: AMQP 1.0 cannot'),
    })
  })
})
