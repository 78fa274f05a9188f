import { type BrokerAddress, publishAll } from '@ackord/core'
import { startFaultProxy } from '@ackord/testkit'
import { connect } from 'amqplib'
import { describe, expect, it } from 'vitest'
import { rabbitmqPublisher } from '../src/index.ts'
import { event, never, open, openWorld, pull, rabbitmqUrl } from './support/world.ts'

const trace = {
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  tracestate: 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE',
  baggage: 'user=alice,tier=gold;ttl=5',
}
const otherTrace = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', tracestate: 'other=1', baggage: 'user=bob' }

function addressOf({ system, serverAddress, serverPort }: BrokerAddress) {
  return [system, serverAddress, serverPort]
}

describe('the trace of a message', () => {
  it.each(['binary', 'structured'] as const)('is in headers for consumers that do not read CloudEvents, in %s mode', async (mode) => {
    await using world = await openWorld()
    const queue = await world.queue()
    await publishAll(world.publisher({ mode }), queue, [event('traced').withAttributes(trace), event('untraced')])

    const [traced, untraced] = [await world.admin.get(queue, { noAck: true }), await world.admin.get(queue, { noAck: true })]

    if (traced === false || untraced === false) throw new Error('the queue is empty')
    expect(traced.properties.headers).toMatchObject(trace)
    expect(Object.keys(untraced.properties.headers ?? {}).filter((name) => /trace|baggage/.test(name))).toEqual([])
    if (mode === 'binary') expect(traced.properties.headers).toHaveProperty('cloudEvents:traceparent', trace.traceparent)
  })

  it.each<[string, { readonly headers?: object; readonly contentType?: string }, string]>([
    ['no CloudEvent', {}, 'hello'],
    ['a CloudEvent in binary mode', { headers: { 'cloudEvents:id': 'a', 'cloudEvents:specversion': '1.0' } }, 'hello'],
    ['a CloudEvent in structured mode', { contentType: 'application/cloudevents+json' }, '{"specversion":"1.0","id":"a","data":7}'],
  ])('is read from the headers of a message that has it only there: %s', async (_kind, properties, body) => {
    await using world = await openWorld()
    const queue = await world.queue()
    world.admin.sendToQueue(queue, Buffer.from(body), { ...properties, headers: { ...properties.headers, ...trace } })

    const message = await pull(open(world.source(queue)))

    expect(message.attributes).toMatchObject(trace)
  })

  it.each(['binary', 'structured'] as const)(
    'is that in which the event was created, although a client has replaced the headers, in %s mode',
    async (mode) => {
      await using world = await openWorld()
      const [queue, target] = [await world.queue(), await world.queue()]
      await publishAll(world.publisher({ mode }), queue, [event('a').withAttributes(trace)])
      const sent = await world.admin.get(queue, { noAck: true })
      if (sent === false) throw new Error('the queue is empty')
      const { headers, contentType } = sent.properties
      world.admin.sendToQueue(target, sent.content, { contentType, headers: { ...headers, ...otherTrace } })

      const message = await pull(open(world.source(target)))

      expect(message.attributes).toMatchObject(trace)
    },
  )
})

describe('the server of a connection', () => {
  it('is known from the first channel on, by its host name, and after the connection was lost', async () => {
    await using proxy = await startFaultProxy(rabbitmqUrl)
    await using world = await openWorld({ url: proxy.url.replace('127.0.0.1', 'localhost') })
    const queue = await world.queue()
    const [source, publisher] = [world.source(queue), world.publisher()]
    for (const part of [source, publisher]) expect(addressOf(part)).toEqual(['rabbitmq', undefined, undefined])

    await publisher.publish(queue, [event('a')], { signal: never })
    for (const part of [source, publisher]) expect(addressOf(part)).toEqual(['rabbitmq', 'localhost', proxy.port])

    const lost = new Promise((resolve) => world.connection.once('disconnect', resolve))
    proxy.refuse(true)
    proxy.cut()
    await lost
    expect(addressOf(publisher)).toEqual(['rabbitmq', 'localhost', proxy.port])
    proxy.refuse(false)
  })

  it('is an address if the connection was opened by address, without recovery too', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await using proxy = await startFaultProxy(rabbitmqUrl)
    const connection = await connect(proxy.url)
    const publisher = rabbitmqPublisher(connection, { logger: world.logger })
    await publisher.publish(queue, [event('a')], { signal: never })

    expect(addressOf(publisher)).toEqual(['rabbitmq', '127.0.0.1', proxy.port])

    await publisher.close()
    await connection.close()
  })
})
