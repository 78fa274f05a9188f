import { defineEvent } from '@ackord/core'
import type { Database, SqlOutbox } from '@ackord/sql'
import type { Handle } from './database.ts'

export interface Order {
  readonly id: string
  readonly product: string
  readonly quantity: number
}

export const orderPlaced = defineEvent<Order>('order.placed')

export class OutOfStockError extends Error {}

/** Places an order: the row, its event and the reservation are committed together or not at all. `false`: the order was placed before. */
export type PlaceOrder = (order: Order) => Promise<boolean>

export function placeOrderOn(database: Database<Handle>, outbox: SqlOutbox<Handle>): PlaceOrder {
  return (order) =>
    database.write(async (transaction) => {
      const placed = await transaction
        .insertInto('orders')
        .values(order)
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst()
      if (placed.numInsertedOrUpdatedRows === 0n) return false
      await outbox.append(transaction, orderPlaced(order, { partitionkey: order.id }))
      const reserved = await transaction
        .updateTable('stock')
        .set(({ eb }) => ({ available: eb('available', '-', order.quantity) }))
        .where('product', '=', order.product)
        .where('available', '>=', order.quantity)
        .executeTakeFirst()
      // All writes above are rolled back, including the event.
      if (reserved.numUpdatedRows === 0n) throw new OutOfStockError(`There are not ${order.quantity} of '${order.product}'.`)
      return true
    })
}
