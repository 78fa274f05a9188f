import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { isAckordError } from '../../src/errors.ts'
import { defineEvent } from '../../src/message/define-event.ts'
import { delayOf } from '../../src/message/delay.ts'
import { isMessage, Message } from '../../src/message/message.ts'

interface OrderPlaced {
  readonly orderId: string
}

const orderPlaced = defineEvent<OrderPlaced>('order.placed')

describe('defineEvent', () => {
  it('creates messages that have the type and nothing else', () => {
    const message = orderPlaced({ orderId: 'o-1' })
    expect(isMessage(message)).toBe(true)
    expect(message.data).toEqual({ orderId: 'o-1' })
    expect(message.attributes).toEqual({ type: 'order.placed' })
    expect(message.state).toBeUndefined()
  })

  it('adds the given attributes, without keeping the object', () => {
    const given = { subject: 'o-1', partitionkey: 'o-1', id: 'e-1' }
    const message = orderPlaced({ orderId: 'o-1' }, given)
    expect(message.attributes).toEqual({ type: 'order.placed', subject: 'o-1', partitionkey: 'o-1', id: 'e-1' })
    expect(given).not.toHaveProperty('type')
  })

  it('rejects a type among the attributes', () => {
    const attributes = { type: 'order.cancelled' } as never
    expect(() => orderPlaced({ orderId: 'o-1' }, attributes)).toThrow(
      expect.toSatisfy((error) => isAckordError(error, 'ACKORD_INVALID_ATTRIBUTES') && error.message.includes("'order.placed'")),
    )
    expect(orderPlaced({ orderId: 'o-1' }, { type: undefined }).type).toBe('order.placed')
  })

  it('takes a delay or an instant, which are no attributes and which copies keep', () => {
    const now = () => 1000
    const delayed = orderPlaced({ orderId: 'o-1' }, { subject: 'o-1', delay: 500 })
    expect(delayed.attributes).toEqual({ type: 'order.placed', subject: 'o-1' })
    expect([delayed, delayed.copy('text'), delayed.withAttributes({ id: 'e-1' })].map((message) => delayOf(message, now))).toEqual([
      500, 500, 500,
    ])
    expect(delayOf(orderPlaced({ orderId: 'o-1' }, { at: new Date(4000) }), now)).toBe(3000)
    expect(delayOf(orderPlaced({ orderId: 'o-1' }, { at: new Date(10) }), now)).toBe(0)
    expect(delayOf(orderPlaced({ orderId: 'o-1' }, { delay: undefined, at: undefined }), now)).toBeUndefined()
    expect(orderPlaced({ orderId: 'o-1' }, { delay: undefined }).attributes).toEqual({ type: 'order.placed' })
    // Attributes of these names are those of another system.
    expect(delayOf(new Message({}, { type: 'order.placed', delay: 500 }), now)).toBeUndefined()
  })

  it.each([
    [{ delay: -1 }, 'milliseconds'],
    [{ delay: Infinity }, 'milliseconds'],
    [{ delay: '5s' }, 'milliseconds'],
    [{ at: new Date(Number.NaN) }, 'an invalid date'],
    [{ at: 5000 }, "use 'delay'"],
    [{ at: new Date(0), delay: 5 }, "cannot be combined with 'delay'"],
  ])('rejects %o as a delay', (options, text) => {
    expect(() => orderPlaced({ orderId: 'o-1' }, options as never)).toThrow(text)
  })

  it('exposes its type and schema', () => {
    const schema = z.object({ orderId: z.string() })
    expect(orderPlaced.type).toBe('order.placed')
    expect(orderPlaced.schema).toBeUndefined()
    expect(defineEvent('order.placed', schema).schema).toBe(schema)
  })

  it('recognises messages by type', () => {
    expect(orderPlaced.is(orderPlaced({ orderId: 'o-1' }))).toBe(true)
    expect(orderPlaced.is(new Message({}, { type: 'order.placed' }))).toBe(true)
    expect(orderPlaced.is(new Message({}, { type: 'order.cancelled' }))).toBe(false)
    expect(orderPlaced.is(new Message({}))).toBe(false)
  })

  it('does not validate: the consumer does', () => {
    const strict = defineEvent('order.placed', z.object({ orderId: z.string() }))
    expect(strict({ orderId: 5 } as never).data).toEqual({ orderId: 5 })
  })

  it('rejects an empty type and an invalid schema', () => {
    expect(() => defineEvent('')).toThrow('The type given to defineEvent()')
    expect(() => defineEvent(undefined as never)).toThrow('The type given to defineEvent()')
    expect(() => defineEvent('a', {} as never)).toThrow('must be a Standard Schema')
    expect(() => defineEvent('a', null as never)).toThrow('it is null')
  })
})
