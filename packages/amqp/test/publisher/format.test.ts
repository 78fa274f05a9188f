import { type Attributes, Message } from '@ackord/core'
import { recordingLogger } from '@ackord/testkit'
import type { Message as NativeMessage } from 'rhea'
import { expect, it } from 'vitest'
import { type AmqpMessage, type AmqpPublisherOptions, amqpPublisher, readMessage } from '../../src/index.ts'
import { startStandInBroker } from '../support/stand-in-broker.ts'
import { closeConnection, never, open } from '../support/world.ts'

const trace = {
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  tracestate: 'rojo=00f067aa0ba902b7',
  baggage: 'user=alice',
}
const attributes = {
  id: 'e1',
  type: 'order.placed',
  source: '/shop',
  specversion: '1.0',
  datacontenttype: 'application/json',
  time: '2026-01-31T12:00:00.123456Z',
  partitionkey: 'customer-7',
  correlationid: 'c1',
  ...trace,
}

/** What a broker receives. */
async function sent(given: Attributes, options: AmqpPublisherOptions = {}): Promise<NativeMessage> {
  await using broker = await startStandInBroker()
  const received = new Promise<NativeMessage>((resolve) => {
    broker.container.on('message', ({ message, delivery }) => {
      delivery?.accept()
      if (message !== undefined) resolve(message)
    })
  })
  const connection = open(broker.url)
  const publisher = amqpPublisher(connection, { logger: recordingLogger(), ...options })
  const data = new TextEncoder().encode('{"n":1}')
  expect(await publisher.publish('orders', [new Message(data, given)], { signal: never })).toEqual([{ ok: true }])
  await publisher.close()
  await closeConnection(connection)
  return await received
}

/** Properties that other consumers read in either mode. */
const common = {
  durable: true,
  message_id: 'e1',
  subject: 'order.placed',
  correlation_id: 'c1',
  group_id: 'customer-7',
  creation_time: new Date('2026-01-31T12:00:00.123Z'),
}

it.concurrent('a message in binary mode follows the CloudEvents binding, and has its trace for other consumers too', async () => {
  const native = await sent(attributes)
  expect(native).toMatchObject({ ...common, content_type: 'application/json' })
  const { datacontenttype: _type, ...others } = attributes
  const prefixed = Object.fromEntries(Object.entries(others).map(([name, value]) => [`cloudEvents:${name}`, value]))
  expect(native.application_properties).toEqual({ ...prefixed, ...trace })
  expect(native.body).toMatchObject({ typecode: 0x75, content: Buffer.from('{"n":1}') })
})

it.concurrent('a message in structured mode is one JSON text, and has its trace for other consumers too', async () => {
  const native = await sent(attributes, { mode: 'structured' })
  expect(native).toMatchObject({ ...common, content_type: 'application/cloudevents+json; charset=utf-8' })
  expect(native.application_properties).toEqual(trace)
  expect(JSON.parse(String(native.body.content))).toEqual({ ...attributes, data: { n: 1 } })
})

it.concurrent('a message without attributes has no properties, and may be lost in a restart with durable: false', async () => {
  const native = await sent({ specversion: '1.0' }, { durable: false })
  expect(native.durable).not.toBe(true)
  for (const name of ['message_id', 'subject', 'group_id', 'creation_time', 'content_type'] as const)
    expect(native[name] ?? undefined).toBeUndefined()
})

it.concurrent('what is written is read again, with either mode', async () => {
  for (const mode of ['binary', 'structured'] as const) {
    // rhea declares the type of another module of it.
    const native = (await sent(attributes, { mode })) as unknown as AmqpMessage
    const read = readMessage(native, 'orders')
    expect(read.attributes).toEqual(attributes)
    expect(new TextDecoder().decode(read.data)).toBe('{"n":1}')
  }
})
