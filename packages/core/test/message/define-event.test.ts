import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { isAckordError } from '../../src/errors.ts'
import { defineEvent } from '../../src/message/define-event.ts'
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
