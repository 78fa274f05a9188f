import type { Packet } from 'mqtt-packet'
import { describe, expect, it } from 'vitest'
import { type ScriptedBroker, startScriptedBroker } from './support/scripted-broker.ts'
import { event, never, open, openWorld, pull, until } from './support/world.ts'

describe('a source ends with advice if its subscription', () => {
  it.each([
    ['is not allowed', 0x87, 'Grant it the permission to subscribe'],
    ['has a topic filter that the broker refuses', 0x8f, 'does not accept the topic filter'],
    ['is shared, which the broker does not support', 0x9e, 'does not support shared subscriptions'],
    ['has a wildcard, which the broker does not support', 0xa2, 'does not support wildcards'],
    ['is granted QoS 0 only', 0, 'grants QoS 0'],
  ])('%s', async (_title, granted, advice) => {
    await using broker = await startScriptedBroker({ granted })
    await using world = await openWorld({ server: broker.url })

    await expect(open(world.source('orders')).next()).rejects.toMatchObject({
      code: 'ACKORD_SOURCE_FAILED',
      message: expect.stringContaining(advice),
    })
  })
})

it('a subscription that fails for another reason is tried again', async () => {
  let granted = 0x80
  await using broker = await startScriptedBroker({
    get granted() {
      return granted
    },
  })
  await using world = await openWorld({ server: broker.url })
  const next = pull(open(world.source('orders')))
  await until(() => broker.received.filter(({ cmd }) => cmd === 'subscribe').length >= 3)

  granted = 1
  await until(() => world.logger.at('info').some(({ text }) => text === 'The subscription is read again.'))
  broker.send({ cmd: 'publish', topic: 'orders', payload: 'a', qos: 1, messageId: 1, dup: false, retain: false })

  expect(Buffer.from((await next).data).toString()).toBe('a')
})

it.each([
  ['a quota is exceeded', 0x97, { scope: 'destination' }],
  ['it does not like the payload', 0x99, { permanent: true }],
  ['of something unspecified', 0x80, {}],
])('a publisher reports the message that a broker refuses because %s, and confirms the others', async (_title, code, expected) => {
  await using broker = await startScriptedBroker({ puback: ({ payload }) => (String(payload).includes('bad') ? code : 0) })
  await using world = await openWorld({ server: broker.url })

  const results = await world.publisher().publish('orders', [event('a'), event('bad'), event('b')], { signal: never })

  expect(results).toMatchObject([{ ok: true }, { ok: false, ...expected }, { ok: true }])
})

it.each([
  [2, 1, 'Set qos: 1.'],
  [1, 0, 'It confirms no messages.'],
] as const)('a publisher with QoS %i sends nothing to a broker that supports QoS %i at most', async (qos, maximumQoS, advice) => {
  await using broker = await startScriptedBroker({ connack: { properties: { maximumQoS } } })
  await using world = await openWorld({ server: broker.url })

  const results = await world.publisher({ qos }).publish('orders', [event('a')], { signal: never })

  expect(results).toMatchObject([{ ok: false, scope: 'destination', error: { message: expect.stringContaining(advice) } }])
  expect(broker.received.filter(({ cmd }) => cmd === 'publish')).toEqual([])
})

it('a publisher that waits for a connection gives up, and blames the destination', async () => {
  await using broker = await startScriptedBroker()
  await using world = await openWorld({ server: broker.url, url: 'mqtt://127.0.0.1:1' })

  const results = await world.publisher({ connectTimeout: 20 }).publish('orders', [event('a')], { signal: never })

  expect(results).toMatchObject([{ ok: false, scope: 'destination', error: { message: 'There is no connection to the MQTT broker.' } }])
})

it('a session that another client has taken over is an error in the log, with advice', async () => {
  await using broker = await startScriptedBroker()
  await using world = await openWorld({ server: broker.url })
  const clientId = world.name()
  const next = open(world.source('orders', {}, world.client({ clientId, reconnectPeriod: 0 }))).next()
  await until(() => broker.received.some(({ cmd }) => cmd === 'subscribe'))

  broker.send({ cmd: 'disconnect', reasonCode: 0x8e })
  broker.cut()

  await expect(next).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED' })
  expect(world.logger.at('error')).toMatchObject([{ text: expect.stringContaining('a client id of its own'), fields: { clientId } }])
})

it('a message that the broker sends under the packet identifier of an earlier one is another message, even with the same content', async () => {
  await using broker = await startScriptedBroker({ connack: { sessionPresent: true } })
  await using world = await openWorld({ server: broker.url })
  const messages = open(world.source('orders'))
  const publish = { cmd: 'publish', topic: 'orders', payload: 'on', qos: 1, messageId: 7, retain: false } as const
  const first = pull(messages)
  await until(() => broker.received.some(({ cmd }) => cmd === 'subscribe'))
  broker.send({ ...publish, dup: false })
  const held = await first
  // The broker has assigned the message to another member of the group meanwhile, and does not send it again.
  broker.cut()
  await subscribedAgain(broker)
  await held.ack()
  expect(acknowledged(broker)).toEqual([])

  const second = pull(messages)
  broker.send({ ...publish, dup: false })
  await (await second).ack()

  await until(() => acknowledged(broker).length === 1)
})

it('a message that the broker sends again is not delivered twice, and is acknowledged on the new connection', async () => {
  await using broker = await startScriptedBroker({ connack: { sessionPresent: true } })
  await using world = await openWorld({ server: broker.url })
  const messages = open(world.source('orders'))
  const publish = { cmd: 'publish', topic: 'orders', payload: 'on', qos: 1, retain: false } as const
  const first = pull(messages)
  await until(() => broker.received.some(({ cmd }) => cmd === 'subscribe'))
  broker.send({ ...publish, messageId: 7, dup: false })
  const held = await first
  broker.cut()
  await subscribedAgain(broker)
  await held.ack()

  broker.send({ ...publish, messageId: 7, dup: true })
  await until(() => acknowledged(broker).length === 1)
  broker.send({ ...publish, messageId: 8, payload: 'off', dup: false })

  expect(Buffer.from((await pull(messages)).data).toString()).toBe('off')
  expect(acknowledged(broker)).toEqual([7])
})

/** Resolves when the client of the source has connected a second time, and subscribed. */
async function subscribedAgain({ received }: ScriptedBroker): Promise<void> {
  const isConnect = (packet: Packet) => packet.cmd === 'connect' && packet.clean === false
  await until(() => {
    const [, again] = received.flatMap((packet, index) => (isConnect(packet) ? [index] : []))
    return again !== undefined && received.slice(again).some(({ cmd }) => cmd === 'subscribe')
  })
}

function acknowledged({ received }: ScriptedBroker): unknown[] {
  return received.filter(({ cmd }) => cmd === 'puback').map(({ messageId }) => messageId)
}
