import { type BrokerAddress, publishAll } from '@ackord/core'
import { startFaultProxy } from '@ackord/testkit'
import { headers as natsHeaders } from '@nats-io/transport-node'
import { describe, expect, it } from 'vitest'
import { event, natsUrl, open, openWorld, pull, until, type World } from './support/world.ts'

const trace = {
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  tracestate: 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE',
  baggage: 'user=alice,tier=gold;ttl=5',
}
const otherTrace = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', tracestate: 'other=1', baggage: 'user=bob' }

/** Publishes as a client would that does not use Ackord. */
async function send(world: World, subject: string, headers: Readonly<Record<string, string>>, body: string | Uint8Array): Promise<void> {
  const written = natsHeaders()
  for (const [name, value] of Object.entries(headers)) written.append(name, value)
  await world.admin.request(subject, body, { timeout: 5000, headers: written })
}

describe('the trace of a message', () => {
  it.each(['binary', 'structured'] as const)('is in headers for consumers that do not read CloudEvents, in %s mode', async (mode) => {
    await using world = await openWorld()
    const stream = await world.stream()
    await publishAll(world.publisher({ mode }), stream, [event('traced', trace), event('untraced')])

    const [traced, untraced] = [
      await world.manager.streams.getMessage(stream, { seq: 1 }),
      await world.manager.streams.getMessage(stream, { seq: 2 }),
    ]

    for (const [name, value] of Object.entries(trace)) expect(traced?.header.get(name)).toBe(value)
    expect(traced?.header.get('ce-traceparent')).toBe(mode === 'binary' ? trace.traceparent : '')
    expect(untraced?.header.keys().filter((name) => /trace|baggage/i.test(name))).toEqual([])
  })

  it.each([
    ['no CloudEvent', {}, 'hello'],
    ['a CloudEvent in binary mode', { 'ce-id': 'a', 'ce-specversion': '1.0' }, 'hello'],
    ['a CloudEvent in structured mode', { 'content-type': 'application/cloudevents+json' }, '{"specversion":"1.0","id":"a","data":7}'],
  ])('is read from the headers of a message that has it only there: %s', async (_kind, headers, body) => {
    await using world = await openWorld()
    const stream = await world.stream()
    // The client for Go writes names as HTTP does.
    const { traceparent, ...others } = trace
    await send(world, stream, { ...headers, Traceparent: traceparent, ...others }, body)

    const message = await pull(open(world.source(stream)))

    expect(message.attributes).toMatchObject(trace)
  })

  it.each(['binary', 'structured'] as const)(
    'is that in which the event was created, although a client has replaced the headers, in %s mode',
    async (mode) => {
      await using world = await openWorld()
      const [stream, target] = [await world.stream(), await world.stream()]
      await publishAll(world.publisher({ mode }), stream, [event('a', trace)])
      const sent = await world.manager.streams.getMessage(stream, { seq: 1 })
      if (sent === null) throw new Error('the stream is empty')
      const kept = sent.header.keys().filter((name) => /^(ce-|content-type)/.test(name))
      await send(world, target, { ...Object.fromEntries(kept.map((name) => [name, sent.header.get(name)])), ...otherTrace }, sent.data)

      const message = await pull(open(world.source(target)))

      expect(message.attributes).toMatchObject(trace)
    },
  )
})

it('the server of a connection is the one that it is connected to at the time', async () => {
  await using one = await startFaultProxy(natsUrl)
  await using other = await startFaultProxy(natsUrl)
  await using world = await openWorld({ url: one.url })
  const stream = await world.stream()
  const [source, publisher] = [world.source(stream), world.publisher()]
  const addressOf = ({ system, serverAddress, serverPort }: BrokerAddress) => [system, serverAddress, serverPort]
  for (const part of [source, publisher]) expect(addressOf(part)).toEqual(['nats', '127.0.0.1', one.port])

  world.connection.setServers([`127.0.0.1:${other.port}`])
  one.refuse(true)
  one.cut()
  await until(() => other.connections > 0)
  await publishAll(publisher, stream, [event('a')])

  for (const part of [source, publisher]) expect(addressOf(part)).toEqual(['nats', '127.0.0.1', other.port])
})
