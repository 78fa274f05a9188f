import { defineEvent, enter, type Marshaler, Message, rootContext, systemRuntime, textMarshaler } from '@ackord/core'
import { outputIdsKey } from '@ackord/core/internal'
import { describe, expect, it } from 'vitest'
import { eventCompleter, type NewEventOptions, type NewEvents, type NewOutboxRecord } from '../../src/index.ts'

const orderPlaced = defineEvent<{ orderId: string }>('order.placed')
const defaults: NewEventOptions = { source: '/shop', destination: 'order-events' }

function complete(events: NewEvents, options: NewEventOptions = defaults): readonly NewOutboxRecord[] {
  return eventCompleter('testOutbox', options, systemRuntime)(events)
}

function textOf({ message }: NewOutboxRecord): string {
  return new TextDecoder().decode(message.data)
}

describe('append()', () => {
  it('takes one event', () => {
    const [record, ...more] = complete(orderPlaced({ orderId: 'o-1' }))
    expect(more).toEqual([])
    expect(record?.destination).toBe('order-events')
    expect(textOf(record as NewOutboxRecord)).toBe('{"orderId":"o-1"}')
    expect(record?.message.attributes).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      type: 'order.placed',
      source: '/shop',
      specversion: '1.0',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      datacontenttype: 'application/json',
    })
  })

  it('takes several events, in their order, and none', () => {
    const records = complete([orderPlaced({ orderId: 'o-1' }), { message: orderPlaced({ orderId: 'o-2' }), delay: 1000 }])
    expect(records.map(textOf)).toEqual(['{"orderId":"o-1"}', '{"orderId":"o-2"}'])
    expect(records.map(({ delay }) => delay)).toEqual([undefined, 1000])
    expect(new Set(records.map(({ message }) => message.id)).size).toBe(2)
    expect(complete([])).toEqual([])
  })

  it('keeps what an event has', () => {
    const own = { id: 'e-1', source: '/elsewhere', time: '2026-11-17T00:00:00Z', specversion: '1.0', partitionkey: 'o-1' }
    const [record] = complete({ destination: 'audit', message: orderPlaced({ orderId: 'o-1' }, own) })
    expect(record?.destination).toBe('audit')
    expect(record?.message.attributes).toEqual({ ...own, type: 'order.placed', datacontenttype: 'application/json' })
  })

  it('stores a record with bytes and its attributes as it is', () => {
    const record = { destination: 'audit', message: new Message(new Uint8Array([1]), { id: 'e-1', type: 't', source: '/s' }), delay: 5 }
    expect(complete([record], {})[0]).toBe(record)
  })

  it('chooses the destination of an event by a function', () => {
    const [record] = complete(orderPlaced({ orderId: 'o-1' }), { source: '/shop', destination: ({ type }) => `to.${type}` })
    expect(record?.destination).toBe('to.order.placed')
  })

  it('uses the marshaler of the outbox', () => {
    const [record] = complete(new Message('hello', { type: 'greeting' }), { ...defaults, marshaler: textMarshaler })
    expect(textOf(record as NewOutboxRecord)).toBe('hello')
  })

  it('gives an event that a handler appends the id that an output of the handler would have', () => {
    const ids = ['first', 'second']
    const context = rootContext().with(outputIdsKey, () => ids.shift() ?? '')
    const records = enter(context, () => complete([orderPlaced({ orderId: 'o-1' }), orderPlaced({ orderId: 'o-2' })]))
    expect(records.map(({ message }) => message.id)).toEqual(['first', 'second'])
  })
})

describe('append() rejects', () => {
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a string', 'order.placed'],
    ['the data of an event', { orderId: 'o-1' }],
    ['the definition of an event', orderPlaced],
  ])('%s, and says what to pass', (_, events) => {
    expect(() => complete(events as unknown as NewEvents)).toThrow(
      /^append\(\) takes an event, such as orderPlaced\(\{ … \}\) of defineEvent\(\), \{ destination, message \}, or an array of these\. It got /,
    )
  })

  it('an item that is no event, by its index', () => {
    expect(() => complete([orderPlaced({ orderId: 'o-1' }), undefined] as unknown as NewEvents)).toThrow('Item 1 is undefined.')
  })

  it('an event without a source, where the outbox has none', () => {
    const text = "needs a source. Set one for all events, as in testOutbox(…, { source: '/orders' }), or in the attributes of the event."
    expect(() => complete(orderPlaced({ orderId: 'o-1' }), { destination: 'order-events' })).toThrow(text)
  })

  it('an event without a destination, where the outbox has none', () => {
    const text =
      "needs a destination. Set one for all events, as in testOutbox(…, { destination: 'order-events' }), or append { destination, message }."
    expect(() => complete(orderPlaced({ orderId: 'o-1' }), { source: '/shop' })).toThrow(text)
  })

  it('an event without a type', () => {
    expect(() => complete(new Message({}, {}))).toThrow("needs a type. Create the event with defineEvent('order.placed').")
  })
})

it.each([
  [{ source: '' }, 'source'],
  [{ destination: '' }, 'destination'],
  [{ marshaler: {} as Marshaler }, 'marshaler.marshal'],
])('checks its options when the outbox is created: %j', (options, name) => {
  expect(() => eventCompleter('testOutbox', options, systemRuntime)).toThrow(name)
})
