import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { defineEvent, type EventDefinition } from '../../src/message/define-event.ts'
import type { Message } from '../../src/message/message.ts'

interface OrderPlaced {
  readonly orderId: string
}

describe('defineEvent', () => {
  it('is typed by its type argument', () => {
    const orderPlaced = defineEvent<OrderPlaced>('order.placed')
    expectTypeOf(orderPlaced).toEqualTypeOf<EventDefinition<OrderPlaced>>()
    expectTypeOf(orderPlaced({ orderId: 'o-1' })).toEqualTypeOf<Message<OrderPlaced>>()
    expectTypeOf(orderPlaced.type).toEqualTypeOf<string>()
    // @ts-expect-error: an order id is a string
    orderPlaced({ orderId: 5 })
    // @ts-expect-error: the data is missing
    orderPlaced()
  })

  it("is typed by the output of any library's schema", () => {
    const fromZod = defineEvent('a', z.object({ at: z.string().transform((text) => new Date(text)) }))
    const fromValibot = defineEvent(
      'a',
      v.object({
        at: v.pipe(
          v.string(),
          v.transform((text) => new Date(text)),
        ),
      }),
    )
    const fromArktype = defineEvent('a', type({ at: ['string', '=>', (text) => new Date(text)] }))
    expectTypeOf(fromZod).parameter(0).toEqualTypeOf<{ at: Date }>()
    expectTypeOf(fromValibot).parameter(0).toEqualTypeOf<{ at: Date }>()
    expectTypeOf(fromArktype).parameter(0).toEqualTypeOf<{ at: Date }>()
    // @ts-expect-error: this is the schema's input, not its output
    fromZod({ at: '2026-01-01' })
  })

  it('accepts anything if nothing determines its type', () => {
    const anything = defineEvent('a')
    expectTypeOf(anything).parameter(0).toEqualTypeOf<unknown>()
  })

  it('narrows messages', () => {
    const orderPlaced = defineEvent<OrderPlaced>('order.placed')
    const read = (message: Message): string | undefined => {
      expectTypeOf(message.data).toEqualTypeOf<unknown>()
      return orderPlaced.is(message) ? message.data.orderId : undefined
    }
    expectTypeOf(read).returns.toEqualTypeOf<string | undefined>()
  })

  it('accepts attributes, except for the type', () => {
    const orderPlaced = defineEvent<OrderPlaced>('order.placed')
    orderPlaced({ orderId: 'o-1' }, { subject: 'o-1', tenant: 'a', priority: 5 })
    // @ts-expect-error: the type comes from the definition
    orderPlaced({ orderId: 'o-1' }, { type: 'order.cancelled' })
    // @ts-expect-error: a subject is a string
    orderPlaced({ orderId: 'o-1' }, { subject: 5 })
  })
})
