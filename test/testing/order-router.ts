import { Message, type Middleware, Router, silentLogger } from '@ackord/core'
import { transactional } from '@ackord/sql'
import type { Orders } from './sql-orders.ts'

export const placeOrder = { type: 'order.place', data: { orderId: 'o-1' } }

export type Handle<Client> = (orders: Orders<Client>, orderId: string) => Promise<readonly Message[]>

/** Written as a user would: the adapter finds the transaction by itself. */
export async function saveOrder<Client>({ database, insert }: Orders<Client>, orderId: string): Promise<readonly Message[]> {
  await insert(database.executor(), orderId)
  return [new Message({ orderId }, { type: 'order.placed' })]
}

export function orderRouter<Client>(orders: Orders<Client>, handle: Handle<Client>, ...use: readonly Middleware[]): Router {
  const store = transactional(orders.database, {
    inbox: { consumer: 'orders' },
    outbox: { destination: 'order-events' },
    transaction: { logger: silentLogger },
  })
  return new Router({ source: '/orders', logger: silentLogger }).use(...use, store).handle({
    type: 'order.place',
    handle: ({ data }) => handle(orders, (data as typeof placeOrder.data).orderId),
  })
}
