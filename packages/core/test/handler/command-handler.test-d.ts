import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import type { Handler } from '../../src/handler/handler.ts'
import { commandHandler, eventHandler } from '../../src/handler/typed-handler.ts'
import type { Context } from '../../src/message/context.ts'
import { defineEvent } from '../../src/message/define-event.ts'

class PlaceOrder {
  readonly orderId: string
  constructor(orderId: string) {
    this.orderId = orderId
  }
  get label(): string {
    return this.orderId
  }
}

const source = '/orders'
const orderPlaced = defineEvent<{ orderId: string }>('order.placed')
const schema = z.object({ orderId: z.string(), at: z.string().transform((text) => new Date(text)) })

describe('commandHandler', () => {
  it('infers the command from the output of a schema', () => {
    const handler = commandHandler({ type: 'order.place', schema, source }, async (command, context) => {
      expectTypeOf(command).toEqualTypeOf<{ orderId: string; at: Date }>()
      expectTypeOf(context).toEqualTypeOf<Context>()
      return [orderPlaced({ orderId: command.orderId })]
    })
    expectTypeOf(handler).toEqualTypeOf<Handler>()
    commandHandler({ type: 'a', schema: v.object({ n: v.pipe(v.string(), v.transform(Number)) }), source }, (command) => {
      expectTypeOf(command).toEqualTypeOf<{ n: number }>()
    })
    commandHandler({ type: 'a', schema: type({ n: 'number' }), source }, (command) => {
      expectTypeOf(command).toEqualTypeOf<{ n: number }>()
    })
  })

  it('infers the command from a class, also beside a schema', () => {
    commandHandler({ type: PlaceOrder, source }, (command) => {
      expectTypeOf(command).toEqualTypeOf<PlaceOrder>()
    })
    commandHandler({ type: PlaceOrder, schema: z.object({ orderId: z.string() }), source }, (command) => {
      expectTypeOf(command).toEqualTypeOf<PlaceOrder>()
    })
    abstract class Abstract {
      abstract readonly n: number
    }
    commandHandler({ type: Abstract, source }, (command) => {
      expectTypeOf(command.n).toEqualTypeOf<number>()
    })
  })

  it('infers the command from a definition', () => {
    commandHandler({ type: orderPlaced, source }, (command) => {
      expectTypeOf(command).toEqualTypeOf<{ orderId: string }>()
    })
    commandHandler({ type: defineEvent('order.place', schema), source }, (command) => {
      expectTypeOf(command).toEqualTypeOf<{ orderId: string; at: Date }>()
    })
  })

  it('trusts a type argument or a parameter type if nothing else determines it', () => {
    commandHandler<{ n: number }>({ type: 'a', source }, (command) => {
      expectTypeOf(command).toEqualTypeOf<{ n: number }>()
    })
    commandHandler({ type: 'a', source }, (command: { n: number }) => void command.n)
    commandHandler({ type: 'a', source }, (command) => {
      expectTypeOf(command).toEqualTypeOf<unknown>()
    })
  })

  it('does not trust a parameter type that contradicts the schema', () => {
    // @ts-expect-error: the schema returns a string
    commandHandler({ type: 'a', schema, source }, (command: { orderId: number }) => void command)
    // @ts-expect-error: the class has no such member
    commandHandler({ type: PlaceOrder, source }, (command: { quantity: number }) => void command)
  })

  it('accepts functions with and without events, asynchronous or not', () => {
    commandHandler({ type: 'a', source }, () => {})
    commandHandler({ type: 'a', source }, async () => {})
    commandHandler({ type: 'a', source }, () => [])
    commandHandler({ type: 'a', source }, () => [orderPlaced({ orderId: '1' }), new PlaceOrder('1')])
    commandHandler({ type: 'a', source }, async (command: { big: boolean }) => {
      if (!command.big) return
      return [orderPlaced({ orderId: '1' })]
    })
    commandHandler({ type: 'a', source }, async () => Object.freeze([orderPlaced({ orderId: '1' })]))
  })

  it('rejects functions that return something else', () => {
    // @ts-expect-error: an array is required for a single event, too
    commandHandler({ type: 'a', source }, async () => orderPlaced({ orderId: '1' }))
    // @ts-expect-error: strings are not events
    commandHandler({ type: 'a', source }, async () => ['order.placed'])
    // @ts-expect-error: nothing is undefined, not null
    commandHandler({ type: 'a', source }, async () => null)
    // @ts-expect-error: a number is not an event
    commandHandler({ type: 'a', source }, () => 5)
    // @ts-expect-error: a set is not an array
    commandHandler({ type: 'a', source }, async () => new Set([orderPlaced({ orderId: '1' })]))
    // @ts-expect-error: a generator is not an array
    commandHandler({ type: 'a', source }, async function* () {
      yield orderPlaced({ orderId: '1' })
    })
  })

  it('requires a source and knows its options', () => {
    // @ts-expect-error: the source is missing
    commandHandler({ type: 'a' }, () => {})
    // @ts-expect-error: there is no such option
    commandHandler({ type: 'a', source, name: 'x' }, () => {})
    // @ts-expect-error: naming is a function
    commandHandler({ type: 'a', source, naming: 'dot' }, () => {})
    commandHandler({ type: 'a', source, naming: undefined, attributes: undefined, schema: undefined }, () => {})
  })
})

describe('eventHandler', () => {
  it('infers the event in the same ways, and requires no source', () => {
    eventHandler({ type: orderPlaced }, (event) => {
      expectTypeOf(event).toEqualTypeOf<{ orderId: string }>()
    })
    eventHandler({ type: PlaceOrder, source: undefined }, (event) => {
      expectTypeOf(event).toEqualTypeOf<PlaceOrder>()
    })
    eventHandler({ type: 'a', schema }, (event) => {
      expectTypeOf(event).toEqualTypeOf<{ orderId: string; at: Date }>()
    })
    // @ts-expect-error: an array is required for a single event, too
    eventHandler({ type: orderPlaced, source }, () => orderPlaced({ orderId: '1' }))
  })
})
