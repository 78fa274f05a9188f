import { type Attributes, type AttributeValue, Message, publishAll } from '@ackord/core'
import { HTTP } from 'cloudevents'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { events, never, open, openWorld, pull, pullMany } from '../support/world.ts'

const utf8 = new TextEncoder()

describe('a published message', () => {
  it.each([
    ['nothing', new Uint8Array()],
    ['one megabyte', Uint8Array.from({ length: 1_048_576 }, (_, index) => index % 251)],
    ['every byte', Uint8Array.from({ length: 256 }, (_, index) => index)],
    ['unicode', utf8.encode('Grüße 東京 🎵 \u0000')],
    ['JSON that a parser would change', utf8.encode('{ "amount": 1.0, "big": 12345678901234567890 }')],
  ])('arrives byte for byte: %s', async (_title, data) => {
    await using world = await openWorld()
    const queue = await world.queue()
    await publishAll(world.publisher(), queue, [new Message(data, { id: 'a', datacontenttype: 'application/json' })])

    const message = await pull(open(world.source(queue)))

    expect(message.data.constructor).toBe(Uint8Array)
    expect(Buffer.from(message.data).equals(data)).toBe(true)
    await message.ack()
  })

  it('in structured mode arrives unchanged, and the CloudEvents SDK reads it', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const attributes = { specversion: '1.0', id: 'ü 7', type: 'order.placed', source: '/orders', datacontenttype: 'application/json' }
    const data = utf8.encode('{"note":"zwei\\nZeilen","amount":7}')
    const event = new Message(data, attributes)
    const publisher = world.publisher({ mode: 'structured' })
    await publishAll(publisher, queue, [event, event])

    const native = await world.admin.get(queue, { noAck: true })
    const message = await pull(open(world.source(queue)))

    if (native === false) throw new Error('the queue is empty')
    const { headers = {}, contentType, messageId, type } = native.properties
    expect(Object.keys(headers).filter((name) => name.startsWith('cloudEvents'))).toEqual([])
    expect([contentType, messageId, type]).toEqual(['application/cloudevents+json; charset=utf-8', 'ü 7', 'order.placed'])
    const read = HTTP.toEvent({ headers: { 'content-type': contentType }, body: native.content.toString() })
    expect(read).toMatchObject({ id: 'ü 7', type: 'order.placed', source: '/orders', data: { note: 'zwei\nZeilen', amount: 7 } })
    expect(message.attributes).toEqual(attributes)
    expect(Buffer.from(message.data).equals(data)).toBe(true)
  })

  it('arrives if it was published before or after the source began', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    await world.fill(queue, ['before'])
    const messages = open(world.source(queue))

    const first = await pull(messages)
    await world.fill(queue, ['after'])
    const second = await pull(messages)

    expect([first.id, second.id]).toEqual(['before', 'after'])
  })

  it('keeps the order within a call', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const ids = events(2000)
    const publishing = world.fill(queue, ids)
    const messages = open(world.source(queue))
    const seen: (string | undefined)[] = []
    for (const _ of ids) {
      const message = await pull(messages)
      seen.push(message.id)
      await message.ack()
    }
    await publishing

    expect(seen).toEqual(ids)
  })

  it('arrives with 200 attributes, and from many publishers at many consumers, once each', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const extensions = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`extension${index}`, `value ${index}`]))
    const publisher = world.publisher()
    const calls = events(20, 'call').map((call) =>
      publishAll(
        publisher,
        queue,
        events(10, `${call}-`).map((id) => new Message(new Uint8Array(), { ...extensions, id })),
      ),
    )
    const seen: (string | undefined)[] = []
    const finish = new AbortController()
    const consumers = events(4).map(async () => {
      const source = world.source(queue, { prefetch: 5 })
      for await (const message of source.messages({ signal: finish.signal })) {
        seen.push(message.id)
        expect(Object.keys(message.attributes)).toHaveLength(201)
        await message.ack()
        if (seen.length === 200) finish.abort()
      }
    })
    await Promise.all([...calls, ...consumers])

    expect(new Set(seen).size).toBe(200)
    expect(seen).toHaveLength(200)
  })

  it('stays in its own queue', async () => {
    await using world = await openWorld()
    const [one, other] = [await world.queue(), await world.queue()]
    await world.fill(one, ['a'])
    await world.fill(other, ['b'])

    expect((await pull(open(world.source(one)))).id).toBe('a')
    expect((await pull(open(world.source(other)))).id).toBe('b')
  })
})

describe('attributes', () => {
  it('are returned unchanged, whatever their values', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const publisher = world.publisher()
    const messages = open(world.source(queue))

    await fc.assert(
      fc.asyncProperty(fc.array(attributesOf, { minLength: 1, maxLength: 40 }), async (sent) => {
        await publishAll(
          publisher,
          queue,
          sent.map((attributes) => new Message(new Uint8Array(), attributes)),
        )
        const received = await pullMany(messages, sent.length)
        for (const message of received) await message.ack()
        expect(received.map(({ attributes }) => attributes)).toEqual(sent.map(withoutDates))
      }),
      { numRuns: 25 },
    )
  }, 60_000)

  it('that are instants keep their fraction', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const time = new Date('2026-03-01T10:20:30.456Z')
    await publishAll(world.publisher(), queue, [new Message(new Uint8Array(), { id: 'a', time })])

    expect((await pull(open(world.source(queue)))).time).toEqual(time)
  })

  it('are in the headers and properties that other consumers read', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const attributes = {
      id: 'a',
      type: 'order.placed',
      source: '/orders',
      time: '2026-03-01T10:20:30.456Z',
      datacontenttype: 'application/json',
      correlationid: 'c',
      partitionkey: 'customer-7',
    }
    await publishAll(world.publisher(), queue, [new Message(utf8.encode('{}'), attributes)])

    const native = await world.admin.get(queue, { noAck: true })

    expect(native).toMatchObject({
      properties: {
        messageId: 'a',
        type: 'order.placed',
        timestamp: Date.UTC(2026, 2, 1, 10, 20, 30) / 1000,
        contentType: 'application/json',
        correlationId: 'c',
        deliveryMode: 2,
        headers: { 'cloudEvents:id': 'a', 'cloudEvents:source': '/orders', 'cloudEvents:partitionkey': 'customer-7' },
      },
    })
  })

  it('that do not fit into AMQP fail permanently, and the other messages arrive', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const large = new Message(new Uint8Array(), { id: 'large', note: 'x'.repeat(70_000) })
    const long = new Message(new Uint8Array(), { id: 'long', ['n'.repeat(250)]: 'name' })
    const fine = new Message(new Uint8Array(), { id: 'fine', type: 't'.repeat(300), datacontenttype: `text/${'x'.repeat(300)}` })

    const results = await world.publisher().publish(queue, [large, fine, long], { signal: never })

    expect(results).toMatchObject([
      { ok: false, permanent: true, error: { code: 'ACKORD_PUBLISH_FAILED' } },
      { ok: true },
      { ok: false, permanent: true },
    ])
    expect((await pull(open(world.source(queue)))).attributes).toEqual(fine.attributes)
  })
})

describe('a foreign message', () => {
  it('is read by its AMQP properties', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    const properties = {
      messageId: 'f-1',
      type: 'invoice',
      appId: 'billing',
      correlationId: 'c-1',
      contentType: 'text/plain',
      timestamp: 1_772_360_430,
    }
    world.admin.sendToQueue(queue, Buffer.from('hello'), {
      ...properties,
      headers: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', other: 'x' },
    })

    const message = await pull(open(world.source(queue)))

    expect(message.attributes).toEqual({
      id: 'f-1',
      type: 'invoice',
      source: 'billing',
      correlationid: 'c-1',
      datacontenttype: 'text/plain',
      time: '2026-03-01T10:20:30.000Z',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    })
  })

  it('is read by the configured function', async () => {
    await using world = await openWorld()
    const queue = await world.queue()
    world.admin.sendToQueue(queue, Buffer.from('hello'), { headers: { nr: 7 } })
    const source = world.source(queue, {
      attributes: ({ fields, properties }) => ({ id: `nr-${String(properties.headers?.['nr'])}`, type: fields.routingKey }),
    })

    expect((await pull(open(source))).attributes).toEqual({ id: 'nr-7', type: queue })
  })

  it('that cannot be read goes to the dead letter, and the next one arrives', async () => {
    await using world = await openWorld()
    const [queue, dead] = [await world.queue(), await world.queue()]
    const structured = { contentType: 'application/cloudevents+json; charset=utf-8' }
    world.admin.sendToQueue(queue, Buffer.from('{'), structured)
    world.admin.sendToQueue(queue, Buffer.from('{"specversion":"1.0","id":"s","data":{"a":1}}'), structured)
    const source = world.source(queue, { deadLetter: { publisher: world.publisher(), destination: dead } })

    const message = await pull(open(source))
    const letter = await pull(open(world.source(dead)))

    expect(message.attributes).toEqual({ specversion: '1.0', id: 's' })
    expect(new TextDecoder().decode(message.data)).toBe('{"a":1}')
    expect(new TextDecoder().decode(letter.data)).toBe('{')
    expect(letter.attributes['deadlettercode']).toBe('ACKORD_INVALID_MESSAGE')
    expect(world.logger.at('error')).toHaveLength(1)
  })
})

const text = fc.string({ unit: 'binary', maxLength: 30 })
const extension = fc.oneof(
  text,
  fc.boolean(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.uint8Array({ maxLength: 20 }),
)
const instant = fc.date({ min: new Date('1960-01-01'), max: new Date('2200-01-01'), noInvalidDate: true })
const names = fc.stringMatching(/^[a-z0-9]{1,20}$/).filter((name) => !['data', 'time', 'id', 'datacontenttype'].includes(name))

const attributesOf: fc.Arbitrary<Attributes> = fc
  .record(
    {
      id: text.filter((id) => id !== ''),
      time: fc.oneof(
        instant,
        instant.map((date) => date.toISOString().replace('Z', '123+02:00')),
      ),
      datacontenttype: fc.oneof(fc.constant('application/json'), text),
      extensions: fc.dictionary(names, extension, { maxKeys: 8 }),
    },
    { requiredKeys: ['id'] },
  )
  .map(({ extensions = {}, ...known }) => ({ ...extensions, ...known }) as Attributes)

/** Instants are returned as strings, as by every store. */
function withoutDates(attributes: Attributes): Record<string, AttributeValue> {
  return Object.fromEntries(
    Object.entries(attributes).flatMap(([name, value]) => {
      if (value === undefined) return []
      return [[name, value instanceof Date ? value.toISOString() : value]]
    }),
  )
}
