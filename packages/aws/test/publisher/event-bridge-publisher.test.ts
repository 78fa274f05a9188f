import { type Attributes, Message, type PublishResult, parseMessage, type RawMessage } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { type EventBridgeClient, type EventBridgePublisherOptions, eventBridgePublisher, readMessage } from '../../src/index.ts'
import { type EventBridgeServer, startEventBridge } from '../support/event-bridge-server.ts'
import { event, never, numbered } from '../support/world.ts'

const utf8 = new TextEncoder()

interface BusWorld extends AsyncDisposable {
  readonly server: EventBridgeServer
  /** The events that the bus `orders` has delivered. */
  readonly delivered: readonly string[]
  publish(messages: readonly RawMessage[], bus?: string): Promise<readonly PublishResult[]>
}

async function openBus(options: EventBridgePublisherOptions = {}): Promise<BusWorld> {
  const server = await startEventBridge()
  const delivered: string[] = []
  server.addBus('orders', (each) => Promise.resolve(void delivered.push(each)))
  const publisher = eventBridgePublisher(server.client, options)
  return {
    server,
    delivered,
    publish: (messages, bus = 'orders') => publisher.publish(bus, messages, { signal: never }),
    async [Symbol.asyncDispose]() {
      await publisher.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

/** Reads a delivered event as `sqsSource` does. */
function read(body: string): RawMessage {
  const native = {
    queue: 'orders',
    messageId: 'sqs-id',
    body,
    messageAttributes: {},
    groupId: undefined,
    sentAt: undefined,
    receiveCount: 1,
  }
  const { data, attributes } = readMessage(native)
  return new Message(data, attributes)
}

function describeResult(result: PublishResult): string {
  if (result.ok) return 'ok'
  return result.permanent === true ? 'permanent' : (result.scope ?? 'record')
}

const events = (count: number) => numbered(count).map((id) => event(id))

const attributes = {
  ...{ id: 'e1', type: 'order.placed', source: '/shop', specversion: '1.0', subject: 'order 7 🦊', partitionkey: 'customer 7' },
  ...{ time: '2026-01-02T03:04:05.678Z', tenant: 'acme', traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` },
} satisfies Attributes

describe.concurrent('eventBridgePublisher()', () => {
  it.each([
    ['JSON', 'application/json', utf8.encode('{"total": 7, "name": "🦊"}'), { data: { total: 7, name: '🦊' } }],
    [
      'a number that JavaScript would round',
      'application/json',
      utf8.encode('12345678901234567890'),
      { data_base64: 'MTIzNDU2Nzg5MDEyMzQ1Njc4OTA=' },
    ],
    ['a JSON array', 'application/json', utf8.encode('[1,2]'), { data: [1, 2] }],
    ['text', 'text/plain', utf8.encode('not JSON'), { data_base64: 'bm90IEpTT04=' }],
    ['bytes', 'application/octet-stream', new Uint8Array([0, 255]), { data_base64: 'AP8=' }],
  ])('carries %s as a whole CloudEvent, with all attributes', async (_title, datacontenttype, data, member) => {
    await using world = await openBus()
    const message = new Message(data, { ...attributes, datacontenttype })
    expect(await world.publish([message])).toEqual([{ ok: true }])

    const [[entry] = []] = world.server.puts
    expect(entry).toMatchObject({ EventBusName: 'orders', Source: '/shop', DetailType: 'order.placed', Time: 1767323045.678 })
    expect(JSON.parse(entry?.Detail ?? '')).toEqual({ ...attributes, datacontenttype, ...member })
    const received = read(world.delivered[0] ?? '')
    expect(received.attributes).toEqual({ ...attributes, datacontenttype })
    expect(JSON.stringify(received)).toBe(JSON.stringify(message))
    expect(parseMessage(entry?.Detail ?? '').attributes).toEqual(received.attributes)
  })

  it("carries the data alone with detail: 'data', with source, type and time", async () => {
    await using world = await openBus({ detail: 'data' })
    const data = '{"total": 12345678901234567890}'
    expect(await world.publish([new Message(utf8.encode(data), { ...attributes, datacontenttype: 'application/json' })])).toEqual([
      { ok: true },
    ])
    expect(world.server.puts[0]?.[0]?.Detail).toBe(data)

    const received = read(world.delivered[0] ?? '')
    expect(Buffer.from(received.data).toString()).toBe(data)
    expect(received.attributes).toEqual({
      ...{ specversion: '1.0', type: 'order.placed', source: '/shop', time: '2026-01-02T03:04:05Z', datacontenttype: 'application/json' },
      id: JSON.parse(world.delivered[0] ?? '').id,
    })
  })

  it.each([
    ['text', utf8.encode('not JSON')],
    ['a JSON array', utf8.encode('[1]')],
    ['null', utf8.encode('null')],
    ['a JSON string', utf8.encode('"text"')],
    ['no data', new Uint8Array()],
    ['invalid UTF-8', new Uint8Array([0x7b, 0xff, 0x7d])],
  ])("refuses %s with detail: 'data', and sends the other messages", async (_title, data) => {
    await using world = await openBus({ detail: 'data' })
    const results = await world.publish([event('e1'), new Message(data, attributes), event('e2')])
    expect(results.map(describeResult)).toEqual(['ok', 'permanent', 'ok'])
    expect(world.delivered).toHaveLength(2)
    const refused = JSON.stringify(results[1], (_name, value: unknown) => (value instanceof Error ? [value.message, value.cause] : value))
    expect(refused).toContain("detail: 'event', which carries any data")
    expect(refused).not.toContain('not JSON')
  })

  it('sends up to ten entries per request', async () => {
    await using world = await openBus()
    expect(await world.publish(events(23))).toEqual(Array(23).fill({ ok: true }))
    expect(world.server.puts.map(({ length }) => length)).toEqual([10, 10, 3])
    expect(world.delivered.map((body) => read(body).id)).toEqual(numbered(23))
  })

  it('sends up to 1 MB per request, refuses a larger event with advice, and obeys a lower limit', async () => {
    const sized = (size: number) => event('e', { datacontenttype: 'application/json' }).copy(utf8.encode(`"${'x'.repeat(size)}"`))
    await using world = await openBus()
    const results = await world.publish([sized(400_000), sized(400_000), sized(400_000), sized(999_999)])
    expect(results.map(describeResult)).toEqual(['ok', 'ok', 'ok', 'permanent'])
    expect(results[3]).toMatchObject({ error: { message: expect.stringContaining('claimCheck() of @ackord/core/payload') } })
    expect(world.server.puts.map(({ length }) => length)).toEqual([2, 1])

    await using smaller = await openBus({ maxEventSize: 262_144 })
    expect((await smaller.publish([sized(262_144), sized(1000)])).map(describeResult)).toEqual(['permanent', 'ok'])
  })

  it('reports each message by the answer for its entry', async () => {
    const codes: Record<string, string> = {
      m1: 'MalformedDetail',
      m2: 'InvalidArgument',
      m3: 'RedactionFailure',
      m4: 'ThrottlingException',
      m5: 'InternalFailure',
      m6: 'AccessDeniedException',
      m7: 'NotAuthorizedForSourceException',
      m8: 'NotAuthorizedForDetailTypeException',
    }
    await using world = await openBus()
    world.server.refuseEntries(({ Detail = '' }) => {
      const ErrorCode = codes[String(JSON.parse(Detail).id)]
      return ErrorCode === undefined ? undefined : { ErrorCode, ErrorMessage: 'Refused by the test.' }
    })
    const results = await world.publish(events(10))
    expect(results.map(describeResult)).toEqual([
      ...['ok', 'permanent', 'permanent', 'permanent', 'destination', 'destination', 'destination', 'record', 'record', 'ok'],
    ])
    expect(results[4]).toMatchObject({ error: { message: expect.stringContaining('ThrottlingException, Refused by the test.') } })
    expect(world.delivered).toHaveLength(2)
  })

  it('does not blame a message for an invalid bus', async () => {
    await using world = await openBus()
    world.server.refuseEntries(() => ({ ErrorCode: 'InvalidArgument', ErrorMessage: 'Parameter EventBusName is not valid.' }))
    expect((await world.publish(events(1))).map(describeResult)).toEqual(['destination'])
  })

  it('takes an answer without an event id or an error for no confirmation', async () => {
    await using world = await openBus()
    world.server.refuseEntries(() => ({}))
    expect((await world.publish(events(2))).map(describeResult)).toEqual(['destination', 'destination'])
  })

  it.each(['ThrottlingException', 'InternalException', 'AccessDeniedException', 'ExpiredTokenException'])(
    'takes %s for a fault of the event bus, and sends nothing more',
    async (code) => {
      await using world = await openBus()
      world.server.failRequests('PutEvents', code)
      expect((await world.publish(events(12))).map(describeResult)).toEqual(Array(12).fill('destination'))
      expect(world.server.operations.filter((operation) => operation === 'PutEvents')).toHaveLength(1)
      world.server.failRequests('PutEvents', undefined)
      expect((await world.publish(events(1))).map(describeResult)).toEqual(['ok'])
    },
  )

  it('asks once for an event bus, and sends nothing to one that does not exist, which EventBridge would drop', async () => {
    await using world = await openBus()
    const results = await world.publish(events(2), 'invoices')
    expect(results.map(describeResult)).toEqual(['destination', 'destination'])
    expect(results[0]).toMatchObject({ error: { message: expect.stringContaining("event bus 'invoices' does not exist") } })
    expect(world.server.puts).toEqual([])

    world.server.addBus('invoices')
    await world.publish(events(1), 'invoices')
    await world.publish(events(1), 'invoices')
    expect(world.server.operations).toEqual(['DescribeEventBus', 'DescribeEventBus', 'PutEvents', 'PutEvents'])
  })

  it('publishes without the permission to ask, and does not ask with checkBus: false', async () => {
    await using denied = await openBus()
    denied.server.failRequests('DescribeEventBus', 'AccessDeniedException')
    for (const id of ['e1', 'e2']) expect(await denied.publish([event(id)])).toEqual([{ ok: true }])
    expect(denied.server.operations).toEqual(['DescribeEventBus', 'PutEvents', 'PutEvents'])

    await using unchecked = await openBus({ checkBus: false })
    expect(await unchecked.publish(events(1))).toEqual([{ ok: true }])
    expect(unchecked.server.operations).toEqual(['PutEvents'])
  })

  it.each([
    ['no source', { source: undefined }],
    ['no type', { type: undefined }],
    ['a source that is too long', { source: `/${'s'.repeat(256)}` }],
    ['a type that is too long', { type: 't'.repeat(129) }],
  ])('refuses a message with %s', async (_title, wrong) => {
    await using world = await openBus()
    const results = await world.publish([event('e1'), event('e2').withAttributes(wrong)])
    expect(results.map(describeResult)).toEqual(['ok', 'permanent'])
    expect(world.delivered).toHaveLength(1)
  })

  it('sends to the bus that the option names', async () => {
    await using world = await openBus({ bus: (destination) => `arn:aws:events:eu-central-1:000000000000:event-bus/${destination}` })
    await world.publish(events(1))
    expect(world.server.puts[0]?.[0]?.EventBusName).toBe('arn:aws:events:eu-central-1:000000000000:event-bus/orders')
    expect(world.delivered).toHaveLength(1)
  })
})

describe('the options of eventBridgePublisher()', () => {
  const client: EventBridgeClient = { putEvents: () => Promise.reject(new Error('not called')), describeEventBus: () => Promise.resolve() }

  it.each([
    ['bus', { bus: 'orders' }],
    ['detail', { detail: 'all' }],
    ['checkBus', { checkBus: 1 }],
    ['maxEventSize', { maxEventSize: 10 }],
    ['timeout', { timeout: 0 }],
    ['sub', { sub: () => 'orders' }],
  ])('refuse a wrong %s: %o', (name, wrong) => {
    expect(() => eventBridgePublisher(client, wrong as EventBridgePublisherOptions)).toThrow(
      expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
    )
  })

  it('refuse a lean client', () => {
    expect(() => eventBridgePublisher({ send: () => {} } as unknown as EventBridgeClient)).toThrow('It is an EventBridgeClient')
  })

  it('fail a message to a destination that is no name of a bus', async () => {
    const [result] = await eventBridgePublisher(client).publish('with space', events(1), { signal: never })
    expect(result).toMatchObject({ ok: false, error: { code: 'ACKORD_PUBLISH_FAILED', cause: { code: 'ACKORD_INVALID_OPTION' } } })
  })
})
