import { commandHandler, defineEvent, type Handler } from '@ackord/core'
import type { Order, Orders } from '../domain/order.ts'

export const placeOrder = defineEvent<Order>('order.place')
const orderPlaced = defineEvent<{ orderId: string; total: number }>('order.placed')

/** The handler: calls its port and returns an event. */
export function placeOrderHandler(orders: Orders): Handler {
  return commandHandler({ type: placeOrder, source: '/orders' }, async (order) => {
    await orders.save(order)
    return [orderPlaced({ orderId: order.id, total: order.total }, { partitionkey: order.customer })]
  })
}
