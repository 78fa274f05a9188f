import { type Context, defineEvent, type StandardSchema } from '@ackord/core'
import { of } from 'rxjs'
import { expectTypeOf, it } from 'vitest'
import { OnCommand, OnEvent } from '../../src/index.ts'

interface Order {
  readonly orderId: string
}

class OrderShipped {
  readonly orderId: string = ''
}

declare const schema: StandardSchema<Order>
const placeOrder = defineEvent('order.place', schema)
const orderPlaced = defineEvent<Order>('order.placed')

it('a decorator accepts methods whose first parameter accepts the data', () => {
  class Handlers {
    @OnCommand(placeOrder)
    async place(order: Order, context: Context) {
      expectTypeOf(context.signal).toEqualTypeOf<AbortSignal>()
      return [orderPlaced(order)]
    }

    @OnEvent(orderPlaced, { consumer: 'billing', instance: 'shop' })
    placed({ orderId }: { orderId: string }) {
      expectTypeOf(orderId).toBeString()
    }

    @OnEvent(orderPlaced)
    nothing() {}

    @OnEvent(OrderShipped)
    shipped(_event: OrderShipped, _context: Context, _decorated: number) {
      return of([])
    }

    @OnEvent<Order>('order.placed')
    byName(_order: Order) {}

    @OnEvent('order.placed')
    unknown(_data: unknown) {}
  }
  expectTypeOf<Handlers>().toBeObject()
})

it('a decorator refuses methods with another parameter or result', () => {
  class Handlers {
    // @ts-expect-error The data has no quantity.
    @OnCommand(placeOrder)
    place(_order: { quantity: number }) {}

    // @ts-expect-error Handlers return arrays of events.
    @OnEvent(orderPlaced)
    placed() {
      return 'done'
    }

    // @ts-expect-error The instances have no quantity.
    @OnEvent(OrderShipped)
    shipped(_event: { quantity: number }) {}

    // @ts-expect-error Without a type the data is unknown.
    @OnEvent('order.placed')
    byName(_order: Order) {}
  }
  expectTypeOf<Handlers>().toBeObject()
})
