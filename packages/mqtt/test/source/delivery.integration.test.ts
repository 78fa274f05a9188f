import { startFaultProxy } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { mqttSource } from '../../src/index.ts'
import { packetsIn, packetTypes } from '../support/packets.ts'
import { die, mqttUrl, never, numbered, open, openWorld, pull, pullMany, roundTrip, until, type World } from '../support/world.ts'

describe('acknowledgements', () => {
  it('have the order in which the messages arrived, in whatever order they are acked', async () => {
    const acknowledged: number[] = []
    await using proxy = await startFaultProxy(mqttUrl, (bytes) => {
      for (const { type, body } of packetsIn(bytes)) if (type === packetTypes.puback) acknowledged.push(body.readUInt16BE())
      return 'pass'
    })
    await using world = await openWorld({ url: proxy.url })
    const topic = world.name()
    const client = await world.member(topic)
    const arrived: unknown[] = []
    client.on('message', (_topic, _payload, { messageId }) => arrived.push(messageId))
    const source = world.source(topic, {}, client)
    await world.fill(topic, numbered(3))
    const [first, second, third] = await pullMany(open(source), 3)

    await third?.ack()
    await second?.ack()
    await roundTrip(client)
    expect(acknowledged).toEqual([])
    await first?.ack()

    await until(() => acknowledged.length === 3)
    expect(acknowledged).toEqual(arrived)
  })

  it('of a message that waits for its redelivery is not sent, and neither are those of later messages', async () => {
    await using world = await openWorld()
    const topic = world.name()
    const messages = open(world.source(topic, {}, await world.member(topic, { properties: { receiveMaximum: 2 } })))
    await world.fill(topic, numbered(3))
    const [first, second] = await pullMany(messages, 2)

    await first?.nack(new Error('later'), { retryAfter: 100 })
    await second?.ack()
    const again = await pull(messages)
    await again.ack()
    const last = await pull(messages)

    // Only two messages may be unacknowledged, so that the third arrives after the first.
    expect([again, last].map(({ id, deliveryCount }) => [id, deliveryCount])).toEqual([
      ['m0', 2],
      ['m2', 1],
    ])
  })
})

describe('a nacked message', () => {
  it('comes back after its delay, which the option shortens, and counts its deliveries', async () => {
    await using world = await openWorld()
    const topic = world.name()
    const messages = open(world.source(topic, { maxDelay: 1 }, await world.member(topic)))
    await world.fill(topic, ['a'])

    for (const count of [1, 2, 3]) {
      const message = await pull(messages)
      expect(message.deliveryCount).toBe(count)
      await message.nack(new Error('not yet'), { retryAfter: 3_600_000 })
    }

    await (await pull(messages)).ack()
  })

  it('that waits for its delay when the process ends stays in the session, and its count starts again', async () => {
    await using world = await openWorld()
    const topic = world.name()
    const clientId = world.name()
    const client = await world.member(topic, { clientId })
    const source = world.source(topic, {}, client)
    await world.fill(topic, ['a'])
    await (await pull(open(source))).nack(new Error('later'), { retryAfter: 3_600_000 })
    await source.close()
    await client.endAsync()

    const message = await pull(open(world.source(topic, {}, world.client({ clientId }))))

    // The broker marks it as delivered before, but not how often.
    expect([message.id, message.deliveryCount]).toEqual(['a', 2])
  })
})

describe('a session', () => {
  it('keeps the messages that are published while its client is away', async () => {
    await using world = await openWorld()
    const topic = world.name()
    const clientId = world.name()
    await world.declare(clientId, topic)
    await world.fill(topic, numbered(20))

    const messages = await pullMany(open(world.source(topic, {}, world.client({ clientId }))), 20)

    expect(messages.map(({ id }) => id)).toEqual(numbered(20))
  })

  it('keeps unsettled messages when its source is closed', async () => {
    await using world = await openWorld()
    const topic = world.name()
    const clientId = world.name()
    const client = await world.member(topic, { clientId })
    const source = world.source(topic, {}, client)
    await world.fill(topic, numbered(5))
    const [first, second] = await pullMany(open(source), 3)
    await first?.ack()
    await source.close()
    await expect(second?.ack()).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    await client.endAsync()

    const left = await pullMany(open(world.source(topic, {}, world.client({ clientId }))), 4)

    expect(left.map(({ id }) => id)).toEqual(['m1', 'm2', 'm3', 'm4'])
  })

  it('of a client that connected before the source was created is refused, because messages may be acknowledged already', async () => {
    await using world = await openWorld()
    const client = await world.member(world.name())
    await until(() => client.connected)

    expect(() => mqttSource(client, { topic: 'orders', group: 'billing' })).toThrow(
      expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining('connected already') }),
    )
  })

  it('with the subscription of an earlier version delivers messages that belong to no source: one warning says so', async () => {
    await using world = await openWorld()
    const [topic, earlier] = [world.name(), world.name()]
    const clientId = world.name()
    await world.declare(clientId, earlier)
    await world.declare(clientId, topic)
    await world.fill(earlier, ['x', 'y'])
    await world.fill(topic, ['a'])

    const client = world.client({ clientId })
    const message = await pull(open(world.source(topic, {}, client)))

    expect(message.id).toBe('a')
    expect(world.logger.at('warn')).toMatchObject([
      { text: expect.stringContaining('belongs to no source'), fields: { topic: earlier, clientId } },
    ])
  })
})

describe('a group of two clients', () => {
  it('shares its messages, and those of a client that has died are delivered when it is back', async () => {
    await using world = await openWorld()
    const topic = world.name()
    const clientId = world.name()
    const ids = numbered(40)
    const properties = { receiveMaximum: 5 }
    const dying = await world.member(topic, { clientId, properties })
    const lost = open(world.source(topic, {}, dying))
    const rest = world.source(topic, {}, await world.member(topic, { properties }))
    const seen = new Set<string | undefined>()
    await world.fill(topic, ids)
    await pullMany(lost, 5)
    await die(dying)

    const readAll = async (source: typeof rest) => {
      for await (const message of source.messages({ signal: never })) {
        await message.ack()
        seen.add(message.id)
      }
    }
    const reading = [readAll(rest)]
    const back = world.source(topic, {}, world.client({ clientId }))
    reading.push(readAll(back))
    await until(() => seen.size === ids.length)
    await Promise.all([rest.close(), back.close()])
    await Promise.all(reading)

    expect([...seen].sort()).toEqual([...ids].sort())
  })
})

describe('messages of other producers', () => {
  it('with QoS 0 are handled, and retained ones are not delivered to a shared subscription', async () => {
    await using world = await openWorld()
    const topic = world.name()
    await using _retained = await retain(world, topic, 'kept')
    const client = await world.member(topic)
    const messages = open(world.source(topic, {}, client))
    await until(() => client.connected)
    await world.admin.publishAsync(topic, 'plain', { qos: 0 })

    const message = await pull(messages)
    await message.ack()

    expect(Buffer.from(message.data).toString()).toBe('plain')
    expect(message.attributes).toEqual({ source: topic })
  })

  it('have their expiry as expirytime, and keep it when they are delivered again', async () => {
    await using world = await openWorld()
    const topic = world.name()
    const messages = open(world.source(topic, {}, await world.member(topic)))
    const from = Date.now()
    await world.admin.publishAsync(topic, 'a', { qos: 1, properties: { messageExpiryInterval: 600 } })

    const first = await pull(messages)
    await first.nack()
    const second = await pull(messages)
    await second.ack()

    expect(first.expiryTime?.getTime()).toBeGreaterThanOrEqual(from + 598_000)
    expect(first.expiryTime?.getTime()).toBeLessThanOrEqual(Date.now() + 600_000)
    expect(second.expiryTime).toEqual(first.expiryTime)
  })

  it('have the attributes that the application reads, and are rejected if it cannot', async () => {
    await using world = await openWorld()
    const [topic, dead] = [world.name(), world.name()]
    const deadLetters = open(world.source(dead, {}, await world.member(dead)))
    const attributes = ({ payload }: { readonly payload: string | Buffer }) => {
      if (String(payload) === 'bad') throw new Error('unknown device')
      return { id: String(payload), type: 'reading' }
    }
    const deadLetter = { publisher: world.publisher(), destination: dead }
    const client = await world.member(`${topic}/+`)
    const messages = open(world.source(`${topic}/+`, { attributes, deadLetter }, client))
    await world.admin.publishAsync(`${topic}/1`, 'bad', { qos: 1 })
    await world.admin.publishAsync(`${topic}/2`, 'good', { qos: 1 })

    const message = await pull(messages)
    const letter = await pull(deadLetters)

    expect(message.attributes).toEqual({ id: 'good', type: 'reading' })
    expect(letter.attributes).toMatchObject({ source: `${topic}/1`, deadletterreason: expect.stringContaining('unknown device') })
    await letter.ack()
  })
})

/** Publishes a retained message, which is removed at the end. */
async function retain(world: World, topic: string, text: string): Promise<AsyncDisposable> {
  await world.admin.publishAsync(topic, text, { qos: 1, retain: true })
  return { [Symbol.asyncDispose]: async () => void (await world.admin.publishAsync(topic, '', { qos: 1, retain: true })) }
}

it('prefetch limits the messages of an iteration', async () => {
  await using world = await openWorld()
  const topic = world.name()
  const client = await world.member(topic)
  const one = open(world.source(topic, { prefetch: 1 }, client))
  await world.fill(topic, numbered(5))
  const first = await pull(one)
  const next = one.next()

  // The other messages have arrived, and go to another iteration of the client.
  const others = await pullMany(open(world.source(topic, { prefetch: 4 }, client)), 4)
  expect(others.map(({ id }) => id)).toEqual(['m1', 'm2', 'm3', 'm4'])
  await world.fill(topic, ['m5'])
  await first.ack()

  expect((await next).value?.id).toBe('m5')
})
