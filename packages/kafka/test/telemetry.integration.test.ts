import { type BrokerAddress, publishAll } from '@ackord/core'
import { expect, it } from 'vitest'
import { event, open, openWorld, pullMany, type World } from './support/world.ts'

const trace = {
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  tracestate: 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE',
  baggage: 'user=alice,tier=gold;ttl=5',
}
const otherTrace = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', tracestate: 'other=1', baggage: 'user=bob' }

function addressOf({ system, serverAddress, serverPort }: BrokerAddress) {
  return [system, serverAddress, serverPort]
}

/** The headers of the first records of a topic, as a consumer sees them that does not read CloudEvents. */
async function plainHeaders(world: World, topic: string, count: number): Promise<Record<string, string>[]> {
  const consumer = world.client.consumer({ groupId: world.group() })
  const found: Record<string, string>[] = []
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise<void>((resolve, reject) => {
    const run = consumer.run({
      eachMessage: async ({ message }) => {
        found.push(Object.fromEntries(Object.entries(message.headers ?? {}).map(([name, value]) => [name, String(value)])))
        if (found.length === count) resolve()
      },
    })
    run.catch(reject)
  })
  await consumer.disconnect()
  return found
}

it('the trace of a message is in headers for consumers that do not read CloudEvents', async () => {
  await using world = await openWorld()
  const topic = await world.topic()
  // One key, so that the records come in this order.
  await publishAll(world.publisher(), topic, [event('1', { ...trace, partitionkey: 'k' }), event('2', { partitionkey: 'k' })])
  await publishAll(world.publisher({ mode: 'structured' }), topic, [
    event('3', { ...trace, partitionkey: 'k' }),
    event('4', { partitionkey: 'k' }),
  ])

  const [binary, untraced, structured, structuredUntraced] = await plainHeaders(world, topic, 4)

  expect(binary).toMatchObject({ ...trace, ce_traceparent: trace.traceparent })
  expect(structured).toEqual({ ...trace, 'content-type': expect.any(String) })
  for (const headers of [untraced, structuredUntraced]) {
    expect(Object.keys(headers ?? {}).filter((name) => /trace|baggage/.test(name))).toEqual([])
  }
}, 60_000)

it('the trace in the headers of other clients is read, unless the event itself has one', async () => {
  await using world = await openWorld()
  const topic = await world.topic()
  const structured = { 'content-type': 'application/cloudevents+json' }
  const records = [
    { value: 'no CloudEvent', headers: trace },
    { value: 'binary', headers: { ce_id: 'b', ce_specversion: '1.0', ...trace } },
    { value: '{"specversion":"1.0","id":"s","data":7}', headers: { ...structured, ...trace } },
    { value: 'binary', headers: { ce_id: 'b', ce_specversion: '1.0', ...prefixed(trace), ...otherTrace } },
    { value: JSON.stringify({ specversion: '1.0', id: 's', ...trace, data: 7 }), headers: { ...structured, ...otherTrace } },
  ]
  const producer = world.client.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  await producer.send({ topic, messages: records })
  await producer.disconnect()
  const source = world.source(topic, world.group())

  for (const message of await pullMany(open(source), records.length)) expect(message.attributes).toMatchObject(trace)
  // Nothing was published through its port.
  expect(addressOf(source)).toEqual(['kafka', expect.any(String), expect.any(Number)])
}, 60_000)

it('the server is the broker that has answered last', async () => {
  await using world = await openWorld()
  const topic = await world.topic()
  const [source, publisher] = [world.source(topic, world.group()), world.publisher()]
  for (const part of [source, publisher]) expect(addressOf(part)).toEqual(['kafka', undefined, undefined])

  await publishAll(publisher, topic, [event('a')])
  const { brokers } = await world.admin.describeCluster()

  expect(brokers.map(({ host, port }) => ['kafka', host, port])).toContainEqual(addressOf(publisher))
  expect(addressOf(source)).toEqual(addressOf(publisher))
}, 60_000)

function prefixed(attributes: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(attributes).map(([name, value]) => [`ce_${name}`, value]))
}
