import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { isAckordError } from '../../src/errors.ts'
import { snakeCase } from '../../src/handler/naming.ts'
import { eventHandler } from '../../src/handler/typed-handler.ts'
import { rootContext } from '../../src/message/context.ts'
import { defineEvent } from '../../src/message/define-event.ts'
import { Message } from '../../src/message/message.ts'

class OrderPlaced {
  readonly orderId: string
  constructor(orderId: string) {
    this.orderId = orderId
  }
}

const orderPlaced = defineEvent('order.placed', z.object({ orderId: z.string() }))
const invoiceSent = defineEvent<{ invoice: string }>('invoice.sent')
const context = rootContext()

describe('eventHandler', () => {
  it('requires no source when it returns nothing', async () => {
    const seen: string[] = []
    const handler = eventHandler({ type: orderPlaced }, async (event) => {
      seen.push(event.orderId)
    })
    expect(handler.type).toBe('order.placed')
    expect(await handler.handle(orderPlaced({ orderId: 'o-1' }), context)).toEqual([])
    expect(seen).toEqual(['o-1'])
  })

  it('returns events of its own under its source', async () => {
    const handler = eventHandler({ type: orderPlaced, source: '/invoices', attributes: { tenant: 'a' } }, (event) => [
      invoiceSent({ invoice: event.orderId }),
    ])
    const [output] = await handler.handle(orderPlaced({ orderId: 'o-1' }), context)
    expect(output?.attributes).toEqual({ type: 'invoice.sent', source: '/invoices', tenant: 'a' })
  })

  it('leaves the source of its events to the router if it has none', async () => {
    const handler = eventHandler({ type: orderPlaced }, () => [
      invoiceSent({ invoice: 'i-1' }),
      invoiceSent({ invoice: 'i-2' }, { source: '' }),
    ])
    const outputs = await handler.handle(orderPlaced({ orderId: 'o-1' }), context)
    expect(outputs.map(({ attributes }) => attributes)).toEqual([{ type: 'invoice.sent' }, { type: 'invoice.sent' }])
  })

  it('passes on events that have a source', async () => {
    const handler = eventHandler({ type: orderPlaced }, () => [invoiceSent({ invoice: 'i-1' }, { source: '/own' })])
    const [output] = await handler.handle(orderPlaced({ orderId: 'o-1' }), context)
    expect(output?.source).toBe('/own')
  })

  it('accepts strings and classes as types, too', async () => {
    expect(eventHandler({ type: 'order.placed' }, () => {}).type).toBe('order.placed')
    const received: unknown[] = []
    const handler = eventHandler({ type: OrderPlaced, naming: snakeCase }, (event) => void received.push(event))
    expect(handler.type).toBe('order_placed')
    await handler.handle(new Message({ orderId: 'o-1' }, { type: 'order_placed' }), context)
    expect(received[0]).toBeInstanceOf(OrderPlaced)
  })

  it('rejects data that its schema rejects', async () => {
    const handler = eventHandler({ type: orderPlaced }, () => {})
    await expect(handler.handle(new Message({}, { type: 'order.placed' }), context)).rejects.toSatisfy(
      (error) => isAckordError(error, 'ACKORD_VALIDATION_FAILED') && !error.retryable,
    )
  })

  it('validates its options as commandHandler does', () => {
    expect(() => eventHandler({ type: '' }, () => {})).toThrow('type must be a non-empty string')
    expect(() => eventHandler({ type: 'a', source: '' }, () => {})).toThrow('source must be a non-empty string')
    expect(() => eventHandler({ type: 'a', attributes: { id: '1' } }, () => {})).toThrow("must not contain 'id'")
  })
})
