import { Message, type PublishResult, type RawMessage } from '@ackord/core'
import { startFaultProxy, VirtualRuntime } from '@ackord/testkit'
import { connect } from 'amqplib'
import { describe, expect, it } from 'vitest'
import { rabbitmqPublisher } from '../../src/index.ts'
import { event, events, never, openWorld, rabbitmqUrl, until } from '../support/world.ts'

const isOk = (result: PublishResult) => result.ok

describe('publishing', () => {
  it('returns one result per message, in order', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const text = new Message('not bytes', { id: 'text' }) as unknown as RawMessage

    const results = await world.publisher().publish(queue, [event('a'), text, event('b')], { signal: never })

    expect(results).toMatchObject([{ ok: true }, { ok: false, permanent: true, error: { code: 'ACKORD_WRONG_DATA' } }, { ok: true }])
    expect(await world.ready(queue)).toBe(2)
  })

  it('no messages returns no results', async () => {
    await using world = await openWorld()

    expect(await world.publisher().publish('anywhere', [], { signal: never })).toEqual([])
    expect(world.openChannels()).toBe(0)
  })

  it('to a queue that does not exist is the destination that fails', async () => {
    await using world = await openWorld()
    const queue = world.name()

    const results = await world.publisher().publish(queue, [event('a'), event('b')], { signal: never })

    const failure = { ok: false, scope: 'destination', error: { code: 'ACKORD_PUBLISH_FAILED', retryable: true } }
    expect(results).toMatchObject([failure, failure])
    expect(results[0]).toHaveProperty('error.message', `Queue '${queue}' does not exist. Create it before publishing to it.`)
  })

  it('with a route goes to an exchange; a message that no queue receives fails alone', async () => {
    await using world = await openWorld()
    const [queue, exchange] = [await world.queue(), world.name()]
    await world.admin.assertExchange(exchange, 'topic')
    await world.admin.bindQueue(queue, exchange, 'order.*')
    const publisher = world.publisher({ route: (destination, message) => ({ exchange: destination, routingKey: String(message.type) }) })
    const other = event('x').withAttributes({ type: 'invoice.sent' })
    const order = event('x').withAttributes({ type: 'order.placed' })

    // The same id twice: the returned copy must not be mistaken for the delivered one.
    const results = await publisher.publish(exchange, [order, other, order], { signal: never })

    expect(results).toMatchObject([{ ok: true }, { ok: false, scope: 'record' }, { ok: true }])
    expect(results[1]).not.toHaveProperty('permanent')
    expect(await world.ready(queue)).toBe(2)
  })

  it('without mandatory succeeds although no queue receives the message', async () => {
    await using world = await openWorld()

    expect(await world.publisher({ mandatory: false }).publish(world.name(), [event('a')], { signal: never })).toEqual([{ ok: true }])
  })

  it('to an exchange that does not exist fails, and nothing else does; later it works', async () => {
    await using world = await openWorld()
    const [queue, exchange] = [await world.queue(), world.name()]
    const publisher = world.publisher({
      route: (destination) => ({ exchange: destination === queue ? '' : destination, routingKey: destination }),
    })
    const messages = events(200).map(event)

    const [missing, fine] = await Promise.all([
      publisher.publish(exchange, messages, { signal: never }),
      publisher.publish(queue, messages, { signal: never }),
    ])

    expect(missing).toHaveLength(200)
    for (const result of missing) {
      expect(result).toMatchObject({
        ok: false,
        scope: 'destination',
        error: { message: `Exchange '${exchange}' does not exist. Create it before publishing to it.` },
      })
    }
    expect(fine.every(isOk)).toBe(true)

    await world.admin.assertExchange(exchange, 'fanout')
    await world.admin.bindQueue(queue, exchange, '')
    expect(await publisher.publish(exchange, [event('a')], { signal: never })).toEqual([{ ok: true }])
    expect(await world.ready(queue)).toBe(201)
  })

  it('to a queue that is full reports which messages were not accepted', async () => {
    await using world = await openWorld()
    const queue = await world.queue({ arguments: { 'x-max-length': 3, 'x-overflow': 'reject-publish' } })

    const results = await world.publisher().publish(queue, events(10).map(event), { signal: never })

    const taken = results.filter(isOk).length
    expect(taken).toBe(await world.ready(queue))
    expect(results.length - taken).toBeGreaterThan(0)
    expect(results.at(-1)).toMatchObject({ ok: false, scope: 'destination', error: { message: expect.stringContaining('full') } })
  })

  it('concurrently by many callers mixes nothing up', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const nowhere = world.name()
    const publisher = world.publisher({
      route: (_destination, message) => ({ exchange: '', routingKey: message.id?.endsWith('0') === true ? nowhere : queue }),
    })

    const calls = await Promise.all(Array.from({ length: 40 }, () => publisher.publish('any', events(40).map(event), { signal: never })))

    for (const results of calls) expect(results.map(isOk)).toEqual(events(40).map((id) => !id.endsWith('0')))
    expect(world.openChannels()).toBe(1)
    expect(await world.ready(queue)).toBe(40 * 36)
  })

  it('more than the socket accepts waits for buffer space', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const messages = events(3000).map((id) => new Message(new Uint8Array(20_000), { id }))

    const results = await world.publisher().publish(queue, messages, { signal: never })

    expect(results.every(isOk)).toBe(true)
    expect(await world.ready(queue)).toBe(3000)
  }, 60_000)

  it('asks the broker once per call, not once per message', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await using proxy = await startFaultProxy(rabbitmqUrl)
    const connection = await connect(proxy.url, { recovery: true })
    await using publisher = rabbitmqPublisher(connection, { logger: world.logger })
    await publisher.publish(queue, [event('first')], { signal: never })

    proxy.hold()
    const publishing = publisher.publish(queue, events(500).map(event), { signal: never })
    // All messages were sent before the first confirm.
    await until(async () => (await world.ready(queue)) === 501)
    proxy.release()

    expect((await publishing).every(isOk)).toBe(true)
    await publisher[Symbol.asyncDispose]()
    await connection.close()
  })
})

describe('a publisher', () => {
  it('that was aborted before it began rejects', async () => {
    await using world = await openWorld()
    const reason = new Error('stop')

    await expect(world.publisher().publish('a', [event('a')], { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  })

  it('that is aborted fails messages that are not confirmed; late confirms have no effect', async () => {
    await using proxy = await startFaultProxy(rabbitmqUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    const publisher = world.publisher()
    await publisher.publish(queue, [event('first')], { signal: never })
    const stop = new AbortController()
    const reason = new Error('too long')

    proxy.hold()
    const publishing = publisher.publish(queue, [event('a'), event('b')], { signal: stop.signal })
    await until(async () => (await world.ready(queue)) === 3)
    stop.abort(reason)
    const failure = { ok: false, scope: 'destination', error: { code: 'ACKORD_PUBLISH_FAILED', cause: reason } }
    expect(await publishing).toMatchObject([failure, failure])
    proxy.release()

    expect(await publisher.publish(queue, [event('c')], { signal: never })).toEqual([{ ok: true }])
    expect(await world.ready(queue)).toBe(4)
  })

  it('without a connection reports it after connectTimeout, and works once the connection is back', async () => {
    await using proxy = await startFaultProxy(rabbitmqUrl)
    await using world = await openWorld({ url: proxy.url })
    const queue = await world.queue()
    const runtime = new VirtualRuntime()
    const publisher = world.publisher({ runtime, connectTimeout: 1000 })
    const lost = new Promise((resolve) => world.connection.once('disconnect', resolve))
    proxy.refuse(true)
    proxy.cut()
    await lost

    const publishing = publisher.publish(queue, [event('a')], { signal: never })
    await runtime.advance(1000)
    expect(await publishing).toMatchObject([{ ok: false, scope: 'destination', error: { message: 'There is no connection to RabbitMQ.' } }])

    proxy.refuse(false)
    expect(await publisher.publish(queue, [event('a')], { signal: never })).toEqual([{ ok: true }])
    expect(runtime.timers).toBe(0)
  })

  it('on a closed connection reports that it will not be restored', async () => {
    await using world = await openWorld()
    const connection = await connect(rabbitmqUrl, { recovery: true })
    const publisher = rabbitmqPublisher(connection, { logger: world.logger })
    await connection.close()

    expect(await publisher.publish('a', [event('a')], { signal: never })).toMatchObject([
      { ok: false, scope: 'destination', error: { message: expect.stringContaining('will not be restored') } },
    ])
  })

  it('that is disposed waits for calls in flight, closes its channels and rejects later calls', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const publisher = world.publisher()
    const publishing = publisher.publish(queue, events(500).map(event), { signal: never })

    await Promise.all([publisher[Symbol.asyncDispose](), publisher[Symbol.asyncDispose]()])

    expect((await publishing).every(isOk)).toBe(true)
    expect(world.openChannels()).toBe(0)
    await expect(publisher.publish(queue, [event('a')], { signal: never })).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
  })
})
