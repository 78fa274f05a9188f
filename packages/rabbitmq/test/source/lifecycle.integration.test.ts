import { defineEvent, eventHandler, Router } from '@ackord/core'
import { deferred, startFaultProxy, VirtualRuntime } from '@ackord/testkit'
import { connect } from 'amqplib'
import { describe, expect, it } from 'vitest'
import { rabbitmqSource } from '../../src/index.ts'
import { event, events, never, open, openWorld, pull, pullMany, rabbitmqUrl, until } from '../support/world.ts'

const copied = defineEvent<{ copied: boolean }>('test.copied')

describe('leaving an iteration', () => {
  it('by break returns messages that were not handed out; the others can still be settled, and then the channel closes', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, events(10))
    const source = world.source(queue)
    const inHand = []
    for await (const message of source.messages({ signal: never })) {
      inHand.push(message)
      if (inHand.length === 2) break
    }

    await until(async () => (await world.ready(queue)) === 8)
    expect(world.openChannels()).toBe(1)
    expect(await Promise.all(inHand.map((message) => message.ack()))).toEqual([true, true])
    await until(() => world.openChannels() === 0)
    expect(await world.ready(queue)).toBe(8)
  })

  it('by abort ends it without an error, while it waits', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const stop = new AbortController()
    const messages = open(world.source(queue), stop.signal)
    const waiting = messages.next()
    await until(async () => (await world.admin.checkQueue(queue)).consumerCount === 1)

    stop.abort()

    expect(await waiting).toEqual({ done: true, value: undefined })
    expect(await messages.next()).toEqual({ done: true, value: undefined })
    expect(world.openChannels()).toBe(0)
    expect((await world.admin.checkQueue(queue)).consumerCount).toBe(0)
  })

  it('by abort before it began never connects', async () => {
    await using world = await openWorld()
    const source = world.source(await world.queue())

    expect(await open(source, AbortSignal.abort()).next()).toEqual({ done: true, value: undefined })
    expect(world.openChannels()).toBe(0)
  })

  it('twice, and disposing twice, is the same as once', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, events(3))
    const source = world.source(queue)
    const messages = open(source)
    await (await pull(messages)).ack()

    await Promise.all([messages.return?.(), messages.return?.()])
    await Promise.all([source[Symbol.asyncDispose](), source[Symbol.asyncDispose]()])

    expect(world.openChannels()).toBe(0)
    await until(async () => (await world.ready(queue)) === 2)
    expect(await open(source).next()).toEqual({ done: true, value: undefined })
  })

  it('does not wait for a missing connection', async () => {
    await using proxy = await startFaultProxy(rabbitmqUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    proxy.refuse(true)
    proxy.cut()
    await until(() => world.logger.at('warn').length > 0 || proxy.connections === 0)
    const stop = new AbortController()
    const source = world.source(queue)
    const waiting = open(source, stop.signal).next()

    stop.abort()

    expect(await waiting).toEqual({ done: true, value: undefined })
    await source[Symbol.asyncDispose]()
    proxy.refuse(false)
    await until(() => proxy.connections === 1)
    await until(() => world.openChannels() === 0)
    expect((await world.admin.checkQueue(queue)).consumerCount).toBe(0)
  })

  it('while it connects leaves no channel behind', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, events(5))
    for (let turns = 0; turns < 40; turns += 1) {
      const stop = new AbortController()
      const waiting = open(world.source(queue), stop.signal).next()
      for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve))
      stop.abort()
      const { value } = await waiting
      await value?.nack()
    }

    await until(() => world.openChannels() === 0)
    await until(async () => (await world.ready(queue)) === 5)
  })

  it('is not delayed by a server that does not answer', async () => {
    await using proxy = await startFaultProxy(rabbitmqUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    await world.fill(queue, ['a'])
    const runtime = new VirtualRuntime()
    const source = world.source(queue, { runtime })
    const messages = open(source)
    await pull(messages)
    proxy.swallow()

    const left = deferred()
    void source[Symbol.asyncDispose]().then(left.resolve)
    await until(() => runtime.timers > 0)
    await runtime.advance(10_000)
    await left.promise
    proxy.cut()

    expect((await pull(open(rabbitmqSource(world.connection, { queue, logger: world.logger })))).id).toBe('a')
    expect(runtime.timers).toBe(0)
  })
})

describe('a queue', () => {
  it('that is missing is an error that says what to do', async () => {
    await using world = await openWorld()
    const queue = world.name()

    await expect(pull(open(world.source(queue)))).rejects.toMatchObject({
      code: 'ACKORD_SOURCE_FAILED',
      message: `Queue '${queue}' cannot be consumed: it does not exist. Create it, or have the source do so with declare: { type: 'quorum' }.`,
    })
    expect(world.openChannels()).toBe(0)
  })

  it.each(['quorum', 'classic'] as const)('is created with declare: %s', async (type) => {
    await using world = await openWorld()
    const queue = world.name()
    const message = pull(open(world.source(queue, { declare: { type, arguments: { 'x-max-length': 10 } } })))
    const publisher = world.publisher()
    await until(async () => (await publisher.publish(queue, [event('a')], { signal: never }))[0]?.ok === true)

    expect((await message).id).toBe('a')
  })

  it('that exists with other properties is an error', async () => {
    await using world = await openWorld()
    const queue = await world.queue({ type: 'classic' })

    await expect(pull(open(world.source(queue, { declare: { type: 'quorum' } })))).rejects.toMatchObject({
      code: 'ACKORD_SOURCE_FAILED',
      message: expect.stringContaining("'declare' is not accepted"),
    })
  })

  it('that is deleted and created again is consumed again, with one log entry for each', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['a', 'b'])
    const messages = open(world.source(queue, { backoff: () => 1 }))
    const first = await pull(messages)

    await world.admin.deleteQueue(queue)
    const next = pull(messages)
    await until(() => world.logger.at('warn').length === 1)
    await world.admin.assertQueue(queue, { arguments: { 'x-queue-type': 'classic' } })
    await world.fill(queue, ['c'])

    // The message was delivered before the queue was deleted, and its channel is still open.
    expect(await first.ack()).toBe(true)
    const seen = await next
    expect(seen.id === 'b' ? (await pull(messages)).id : seen.id).toBe('c')
    expect(world.logger.at('warn')).toHaveLength(1)
    await until(() => world.logger.at('info').length === 1)
    expect(world.logger.at('info')[0]?.text).toBe('The queue is consumed again.')
  })
})

describe('a connection', () => {
  it('that was closed by its owner ends the iteration with an error', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const connection = await connect(rabbitmqUrl, { recovery: true })
    const messages = open(rabbitmqSource(connection, { queue, logger: world.logger, backoff: () => 1 }))
    const waiting = messages.next()
    await until(async () => (await world.admin.checkQueue(queue)).consumerCount === 1)

    await connection.close()

    await expect(waiting).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', message: expect.stringContaining('recovery: true') })
    expect(await messages.next()).toEqual({ done: true, value: undefined })
  })

  it('that amqplib has given up ends the iteration with an error', async () => {
    await using proxy = await startFaultProxy(rabbitmqUrl)
    await using world = await openWorld()
    const queue = await world.queue()
    const connection = await connect(proxy.url, { recovery: { initialDelay: 1, maxRetries: 2 } })
    const waiting = open(rabbitmqSource(connection, { queue, logger: world.logger, backoff: () => 1 })).next()
    await until(async () => (await world.admin.checkQueue(queue)).consumerCount === 1)

    proxy.refuse(true)
    proxy.cut()

    await expect(waiting).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', message: expect.stringContaining('will not be restored') })
  })

  it('that does not recover ends the iteration when it is lost', async () => {
    await using proxy = await startFaultProxy(rabbitmqUrl)
    await using world = await openWorld()
    const queue = await world.queue()
    const connection = await connect(proxy.url)
    const waiting = open(rabbitmqSource(connection, { queue, logger: world.logger, backoff: () => 1 })).next()
    await until(async () => (await world.admin.checkQueue(queue)).consumerCount === 1)

    proxy.cut()

    await expect(waiting).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', message: expect.stringContaining('recovery: true') })
  })
})

it('works under a router: handled, published and acked, and stopped without a channel left', async () => {
  await using world = await openWorld()
  const [queue, output] = [await world.queue(), await world.queue()]
  const source = world.source(queue)
  const publisher = world.publisher()
  const router = new Router({ concurrency: 5, logger: world.logger }).handle(
    eventHandler({ type: 'test.event', source: '/router' }, async () => [copied({ copied: true })]),
  )
  const running = router.run(source, { publisher, destination: output })
  await world.fill(queue, events(20))

  await until(async () => (await world.ready(output)) === 20)
  await router.stop()
  await running
  await source[Symbol.asyncDispose]()
  await publisher[Symbol.asyncDispose]()

  expect(await world.ready(queue)).toBe(0)
  expect(world.openChannels()).toBe(0)
  expect(world.logger.at('error').map(({ fields }) => fields)).toEqual([])
})

it('yields nothing more while it is being left', async () => {
  await using world = await openWorld()
  const queue = await world.queue()
  await world.fill(queue, events(200))
  const stop = new AbortController()
  const messages = open(world.source(queue, { prefetch: 50 }), stop.signal)
  const taken = await pullMany(messages, 10)

  stop.abort()

  expect(await messages.next()).toEqual({ done: true, value: undefined })
  for (const message of taken) await message.ack()
  await until(() => world.openChannels() === 0)
  await until(async () => (await world.ready(queue)) === 190)
})
