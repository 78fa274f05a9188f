import { publishAll } from '@ackord/core'
import { CloudEvent, MQTT, type MQTTMessage } from 'cloudevents'
import type { IPublishPacket } from 'mqtt'
import { expect, it } from 'vitest'
import { event, open, openWorld, pull, type World } from './support/world.ts'

const order = { id: 'o-1', type: 'order.placed', source: '/shop', subject: 'Bücher', time: '2030-01-01T00:00:00.123Z', tenant: 'a b%c' }
const data = { total: 12.5, note: 'drei Bücher' }

/** Subscribes a client that does not use Ackord. Resolves to the function that waits for the next message. */
async function listen(world: World, topic: string): Promise<() => Promise<IPublishPacket>> {
  await world.admin.subscribeAsync(topic, { qos: 1 })
  const arrived = new Promise<IPublishPacket>((resolve) => world.admin.once('message', (_topic, _payload, packet) => resolve(packet)))
  return () => arrived
}

/** The message as the SDK expects it from an application that uses a client of MQTT. */
function asSdkMessage({ payload, properties }: IPublishPacket): MQTTMessage<unknown> {
  const headers = { ...properties?.userProperties } as Record<string, string>
  const contentType = properties?.contentType ?? ''
  const text = String(payload)
  const body: unknown = contentType.startsWith('application/cloudevents') ? text : JSON.parse(text)
  // The SDK reads `headers` and `body`, which the aliases of the specification repeat.
  return { headers, body, payload: body, PUBLISH: { 'Content Type': contentType }, 'User Properties': headers }
}

it.each(['binary', 'structured'] as const)('the SDK of CloudEvents reads what is published in %s mode', async (mode) => {
  await using world = await openWorld()
  const topic = world.name()
  const next = await listen(world, topic)
  const sent = event('unused', { ...order, datacontenttype: 'application/json' })
  await publishAll(world.publisher({ mode }), topic, [sent])

  const message = asSdkMessage(await next())
  const read = MQTT.toEvent(message) as CloudEvent<unknown>

  expect(MQTT.isEvent(message)).toBe(true)
  const { time, ...others } = order
  expect(read).toMatchObject({ ...others, specversion: '1.0', data: { id: 'unused' } })
  expect(new Date(String(read.time)).toISOString()).toBe(time)
  if (mode === 'structured') expect(read.datacontenttype).toBe('application/json')
})

it.each(['binary', 'structured'] as const)('reads what the SDK of CloudEvents writes in %s mode', async (mode) => {
  await using world = await openWorld()
  const topic = world.name()
  const messages = open(world.source(topic, {}, await world.member(topic)))
  const written = MQTT[mode](new CloudEvent({ ...order, datacontenttype: 'application/json', data })) as MQTTMessage<unknown>
  // The SDK lists attributes that are not set, which a client of MQTT cannot send.
  const set = Object.entries(written.headers).filter(([, value]) => value !== undefined)
  const userProperties = Object.fromEntries(set.map(([name, value]) => [name, String(value)]))
  await world.admin.publishAsync(topic, JSON.stringify(written.payload), {
    qos: 1,
    properties: {
      contentType: String(written.PUBLISH?.['Content Type']),
      ...(mode === 'binary' && { userProperties }),
    },
  })

  const message = await pull(messages)
  await message.ack()

  expect({ ...message.attributes }).toEqual({ ...order, specversion: '1.0', datacontenttype: 'application/json' })
  expect(JSON.parse(Buffer.from(message.data).toString())).toEqual(data)
})
