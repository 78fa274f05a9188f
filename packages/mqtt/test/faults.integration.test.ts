import { type FaultProxy, startFaultProxy } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { startMosquitto } from '../../../scripts/servers/index.mjs'
import { packetsIn, packetTypes } from './support/packets.ts'
import { event, mqttUrl, never, numbered, open, openWorld, pull, pullMany, roundTrip, until, type World } from './support/world.ts'

describe.concurrent('a connection that is cut', () => {
  it('while messages are consumed loses none of them', async () => {
    await using proxy = await startFaultProxy(mqttUrl)
    await using world = await openWorld({ url: proxy.url })
    const topic = world.name()
    const source = world.source(topic, {}, await world.member(topic, { properties: { receiveMaximum: 20 } }))
    const ids = numbered(300)
    await world.fill(topic, ids)
    const seen = new Set<string | undefined>()

    for await (const message of source.messages({ signal: never })) {
      await message.ack()
      seen.add(message.id)
      if (seen.size % 100 === 50) proxy.cut()
      if (seen.size === ids.length) break
    }

    expect([...seen].sort()).toEqual([...ids].sort())
    expect(world.logger.at('error')).toEqual([])
  })

  it('leaves messages to their handlers: an ack is sent on the next connection, and nothing is delivered twice', async () => {
    await using proxy = await startFaultProxy(mqttUrl)
    await using world = await openWorld({ url: proxy.url })
    const topic = world.name()
    const clientId = world.name()
    const client = await world.member(topic, { clientId })
    const source = world.source(topic, {}, client)
    await world.fill(topic, numbered(3))
    const messages = open(source)
    const [acked, nacked, last] = await pullMany(messages, 3)

    proxy.refuse(true)
    proxy.cut()
    await until(() => !client.connected)
    expect([await last?.ack(), await acked?.ack(), await nacked?.nack()]).toEqual([true, true, true])
    const again = await pull(messages)
    proxy.refuse(false)
    await again.ack()
    await world.fill(topic, ['marker'])

    const marker = await pull(messages)
    expect([again, marker].map(({ id, deliveryCount }) => [id, deliveryCount])).toEqual([
      ['m1', 2],
      ['marker', 1],
    ])
    await marker.ack()
    await roundTrip(client)
    await source.close()
    await client.endAsync()
    const next = pull(open(world.source(topic, {}, world.client({ clientId }))))
    await world.fill(topic, ['after'])
    expect((await next).id).toBe('after')
  })

  it('is one line in the log when it goes and one when it is back', async () => {
    await using proxy = await startFaultProxy(mqttUrl)
    await using world = await openWorld({ url: proxy.url })
    const topic = world.name()
    const client = await world.member(topic)
    const next = pull(open(world.source(topic, {}, client)))
    await world.fill(topic, ['a'])
    await next
    let attempts = 0
    client.on('reconnect', () => {
      attempts += 1
    })

    proxy.refuse(true)
    proxy.cut()
    await until(() => attempts >= 3)
    proxy.refuse(false)
    await until(() => world.logger.at('info').length > 0)

    const lost = 'The subscription is not read: the connection to the MQTT broker was lost. The client connects again.'
    expect(world.logger.at('warn').filter(({ text }) => text === lost)).toHaveLength(1)
    expect(world.logger.at('info').map(({ text }) => text)).toEqual(['The subscription is read again.'])
  })

  it.each([
    ['before a message with QoS 1 is sent: it fails, and is not delivered', 1, 'cut before', []],
    ['before a message with QoS 1 is confirmed: it fails, and has been delivered', 1, 'cut after', ['a']],
  ] as const)('%s', async (_title, qos, fault, delivered) => {
    await using proxy = await startFaultProxy(mqttUrl)
    await using world = await openWorld({ url: proxy.url })
    const { publisher, topic } = await ready(world, qos)
    const hits = faultAt(proxy, packetTypes.publish, fault)

    const results = await publisher.publish(topic, [event('a')], { signal: never })

    expect(hits()).toBe(1)
    expect(results).toMatchObject([
      { ok: false, scope: 'destination', error: { message: expect.stringContaining('may have been delivered') } },
    ])
    expect(await readAll(world, topic)).toEqual(delivered)
    expect(await publisher.publish(topic, [event('b')], { signal: never })).toEqual([{ ok: true }])
  })

  it.each([
    ['publish', 'cut before'],
    ['publish', 'cut after'],
    ['pubrel', 'cut before'],
    ['pubrel', 'cut after'],
  ] as const)('at the %s of a message with QoS 2 (%s): it is confirmed on the next connection, and delivered once', async (type, fault) => {
    await using proxy = await startFaultProxy(mqttUrl)
    await using world = await openWorld({ url: proxy.url })
    const { publisher, topic } = await ready(world, 2)
    const hits = faultAt(proxy, packetTypes[type], fault)

    const results = await publisher.publish(topic, [event('a')], { signal: never })

    expect(hits()).toBe(1)
    expect(results).toEqual([{ ok: true }])
    expect(await readAll(world, topic)).toEqual(['a'])
  })
})

it('a publisher with QoS 2 on a client that had connected before goes on after a lost connection', async () => {
  await using proxy = await startFaultProxy(mqttUrl)
  await using world = await openWorld({ url: proxy.url })
  const topic = world.name()
  await world.declare(readerOf(topic), topic)
  const client = world.client()
  await until(() => client.connected)
  const publisher = world.publisher({ qos: 2 }, client)

  proxy.cut()
  await until(() => !client.connected)

  expect(await publisher.publish(topic, [event('a')], { signal: never })).toEqual([{ ok: true }])
})

it('a publisher with QoS 2 refuses the session of an earlier process, whose unfinished messages it does not know', async () => {
  await using world = await openWorld()
  const client = await world.member(world.name())

  const [result] = await world.publisher({ qos: 2 }, client).publish(world.name(), [event('a')], { signal: never })

  expect(result).toMatchObject({ ok: false, scope: 'destination', error: { message: expect.stringContaining('a client id of its own') } })
})

describe.concurrent('a server', () => {
  it('that has lost the session of a publisher with QoS 2 does not get its unfinished messages confirmed: they fail', async () => {
    await using server = await startMosquitto()
    await using proxy = await startFaultProxy(server.url)
    await using world = await openWorld({ url: proxy.url, server: server.url })
    const { publisher, topic } = await ready(world, 2)
    faultAt(proxy, packetTypes.pubrel, 'cut before', () => proxy.refuse(true))
    const publishing = publisher.publish(topic, [event('a')], { signal: never })
    await until(() => proxy.connections === 0)

    await server.kill()
    await server.restart()
    proxy.refuse(false)

    expect(await publishing).toMatchObject([{ ok: false, scope: 'destination' }])
  })

  it('that is restarted keeps sessions with their messages', async () => {
    await using server = await startMosquitto()
    await using world = await openWorld({ server: server.url })
    const topic = world.name()
    const client = await world.member(topic, { properties: { receiveMaximum: 3 } })
    const messages = open(world.source(topic, {}, client))
    await world.fill(topic, numbered(10))
    const [first, ...held] = await pullMany(messages, 3)
    await first?.ack()
    await roundTrip(client)

    await server.restart()
    await until(() => client.connected)
    for (const message of held) await message.ack()
    const rest = await pullMany(messages, 7)

    expect(rest.map(({ id }) => id)).toEqual(numbered(10).slice(3))
    expect(world.logger.at('warn').filter(({ text }) => text.includes('has no session'))).toEqual([])
  })

  it('that is killed loses the sessions that it had not saved: the source says so, handles what had arrived, and reads on', async () => {
    await using server = await startMosquitto()
    await using world = await openWorld({ server: server.url })
    const topic = world.name()
    const client = await world.member(topic)
    const messages = open(world.source(topic, {}, client))
    await world.fill(topic, numbered(2))
    const [first] = await pullMany(messages, 1)

    await server.kill()
    await server.restart()
    await until(() => world.logger.at('info').some(({ text }) => text === 'The subscription is read again.'))
    await first?.ack()
    const second = await pull(messages)
    await second.ack()
    await until(() => world.admin.connected)
    await world.fill(topic, ['later'])

    expect([second.id, (await pull(messages)).id]).toEqual(['m1', 'later'])
    expect(world.logger.at('warn').filter(({ text }) => text.includes('has no session of this client'))).toHaveLength(1)
  })
})

/** A publisher that has connected, and a topic with the session of a reader. */
async function ready(world: World, qos: 1 | 2) {
  const topic = world.name()
  await world.declare(readerOf(topic), topic)
  const publisher = world.publisher({ qos })
  await publisher.publish(topic, [event('first')], { signal: never })
  return { publisher, topic }
}

const readerOf = (topic: string) => `${topic}-reader`

/** The ids of all messages of a topic, except for the first. */
async function readAll(world: World, topic: string): Promise<(string | undefined)[]> {
  await world.fill(topic, ['end'])
  const read: (string | undefined)[] = []
  for await (const message of world.source(topic, {}, world.client({ clientId: readerOf(topic) })).messages({ signal: never })) {
    await message.ack()
    if (message.id === 'end') break
    if (message.id !== 'first') read.push(message.id)
  }
  return read
}

/** Cuts the connection at the first packet of a type. Returns how often it did. */
function faultAt(proxy: FaultProxy, type: number, fault: 'cut before' | 'cut after', onHit = () => {}): () => number {
  let hits = 0
  proxy.judge((bytes) => {
    if (hits > 0 || !packetsIn(bytes).some((packet) => packet.type === type)) return 'pass'
    hits += 1
    onHit()
    return fault
  })
  return () => hits
}
