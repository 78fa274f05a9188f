import { type Attributes, Message, publishAll, type RawMessage } from '@ackord/core'
import { claimCheck, decodePayload, encodePayload } from '@ackord/core/payload'
import { describe, expect, it } from 'vitest'
import { openBucket } from '../support/buckets.ts'
import { openTopics } from '../support/topics.ts'
import { event, never, open, pull, pullMany } from '../support/world.ts'

const utf8 = new TextEncoder()
const attributes = {
  ...{
    id: 'id with spaces – “é” 🦊',
    type: 'order.placed',
    source: '/shop?a=1&b=2',
    specversion: '1.0',
    subject: 'order 7',
    partitionkey: 'customer 7',
  },
  ...{ time: '2026-01-02T03:04:05.678Z', tenant: 'acme', traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, tracestate: 'k=v' },
} satisfies Attributes

async function throughTopic(
  message: RawMessage,
  options: { readonly raw: boolean; readonly mode?: 'binary' | 'structured' },
): Promise<RawMessage> {
  await using world = openTopics()
  const { topic, queue } = await world.subscribedTopic({ raw: options.raw })
  await publishAll(world.publisher({ mode: options.mode }), topic, [message])
  const received = await pull(open(world.queues.source(queue)))
  await received.ack()
  return received
}

describe.concurrent('a topic with a subscribed queue', () => {
  describe.each([{ raw: true }, { raw: false }])('with raw delivery: $raw', ({ raw }) => {
    it.each([
      ['JSON', 'application/json', utf8.encode('{"total":12345678901234567890,"name":"🦊"}')],
      ['text', 'text/plain', utf8.encode('line one\nline two – é 🦊')],
      ['bytes', 'application/octet-stream', new Uint8Array([0, 1, 254, 255])],
      ['no data', undefined, new Uint8Array()],
    ])('delivers %s with all attributes', async (_title, datacontenttype, data) => {
      const received = await throughTopic(new Message(data, { ...attributes, datacontenttype }), { raw })
      expect(Buffer.from(received.data)).toEqual(Buffer.from(data))
      expect(received.attributes).toEqual({ ...attributes, ...(datacontenttype !== undefined && { datacontenttype }) })
    })

    it('delivers a message in binary mode, with up to ten message attributes', async () => {
      const { tenant, tracestate, ...nine } = attributes
      const data = utf8.encode('{"a":1}')
      const received = await throughTopic(new Message(data, nine), { raw, mode: 'binary' })
      expect(Buffer.from(received.data).toString()).toBe('{"a":1}')
      expect(received.attributes).toEqual(nine)
    })
  })

  it('delivers what the filter policy of a subscription matches', async () => {
    await using world = openTopics()
    const { topic, queue } = await world.subscribedTopic({ raw: true, filter: { type: ['order.paid'], source: ['/shop'] } })
    const publisher = world.publisher()
    const events = [
      event('e1', { type: 'order.paid', source: '/other' }),
      event('e2', { type: 'order.placed', source: '/shop' }),
      event('e3', { type: 'order.paid', source: '/shop' }),
    ]
    await publishAll(publisher, topic, events)
    expect(await pull(open(world.queues.source(queue)))).toMatchObject({ id: 'e3' })
    expect(await world.queues.counts(queue)).toEqual({ visible: 0, inFlight: 1 })
  })

  it('keeps the order of each partitionkey on a FIFO topic, and drops repeats', async () => {
    await using world = openTopics()
    const { topic, queue } = await world.subscribedTopic({ fifo: true, raw: true })
    const publisher = world.publisher()
    const events = Array.from({ length: 12 }, (_, index) => event(`e${index}`, { partitionkey: index % 2 === 0 ? 'even' : 'odd' }))
    await publishAll(publisher, topic, events)
    await publishAll(publisher, topic, events.slice(0, 3))

    const messages = open(world.queues.source(queue))
    const seen: RawMessage[] = []
    while (seen.length < events.length) {
      const message = await pull(messages)
      seen.push(message)
      await message.ack()
    }
    const idsOf = (key: string) => seen.filter((message) => message.partitionKey === key).map(({ id }) => id)
    expect(idsOf('even')).toEqual(['e0', 'e2', 'e4', 'e6', 'e8', 'e10'])
    expect(idsOf('odd')).toEqual(['e1', 'e3', 'e5', 'e7', 'e9', 'e11'])
    expect(await world.queues.counts(queue)).toEqual({ visible: 0, inFlight: 0 })
  })

  it('stores a repeat again with deduplicate: false', async () => {
    await using world = openTopics()
    const { topic, queue } = await world.subscribedTopic({ fifo: true, raw: true })
    const publisher = world.publisher({ deduplicate: false })
    await publishAll(publisher, topic, [event('e1')])
    await publishAll(publisher, topic, [event('e1')])
    expect((await pullMany(open(world.queues.source(queue)), 2)).map(({ id }) => id)).toEqual(['e1', 'e1'])
  })

  it('refuses a large message with advice, and delivers it with a claim check', async () => {
    await using world = openTopics()
    await using bucket = await openBucket()
    const { topic, queue } = await world.subscribedTopic()
    const publisher = world.publisher()
    const large = event('large', { datacontenttype: 'text/plain' }).copy(utf8.encode('x'.repeat(300_000)))
    const [refused] = await publisher.publish(topic, [large], { signal: never })
    expect(refused).toMatchObject({
      ok: false,
      permanent: true,
      error: { message: expect.stringContaining('claimCheck() of @ackord/core/payload') },
    })

    const codecs = [claimCheck({ store: bucket.objects({ prefix: 'payloads/' }) })]
    await publishAll(publisher, topic, [await encodePayload(large, codecs)])
    const received = await pull(open(world.queues.source(queue)))
    expect(received.data.byteLength).toBeLessThan(1000)
    const decoded = await decodePayload(received, codecs)
    expect(Buffer.compare(decoded.data, large.data)).toBe(0)
    expect(decoded.attributes).toEqual(large.attributes)
    await received.ack()
  })
})
