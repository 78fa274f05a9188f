import { Message, type Middleware, Router, silentLogger } from '@ackord/core'
import { MemoryStore, type MemoryTable } from '../../src/helpers/memory-store.ts'

/** Counts the applications of each order, so that an order that is applied twice is detected. */
export function placeOrder(table: MemoryTable, id: string): void {
  table.set(id, Number(table.get(id) ?? 0) + 1)
}

export function orderPlaced(orderId: string): Message {
  return new Message({ orderId }, { type: 'order.placed' })
}

/** A router whose handler places an order in the store of its context, and returns an event. */
export function orderRouter(store: MemoryStore, ...use: readonly Middleware[]): Router {
  return new Router({ source: '/orders', logger: silentLogger })
    .use(...use, store.transactional({ consumer: 'orders', destination: 'order-events' }))
    .handle({
      type: 'order.place',
      async handle(message) {
        const { orderId } = message.data as { orderId: string }
        placeOrder(store.executor(), orderId)
        return [orderPlaced(orderId)]
      },
    })
}

export { MemoryStore }
