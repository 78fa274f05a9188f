import { defineEvent } from '@ackord/core'
import type { Database, SqlOutbox } from '@ackord/sql'
import { and, eq, gte, sql } from 'drizzle-orm'
import type { Handle } from './database.ts'
import { orders, stock } from './tables.ts'

export interface Order {
  readonly id: string
  readonly product: string
  readonly quantity: number
}

export const orderPlaced = defineEvent<Order>('order.placed')

/** Fastify uses the error's status code for the answer. */
class OutOfStockError extends Error {
  readonly statusCode = 409
}

export class Orders {
  readonly #database: Database<Handle>
  readonly #outbox: SqlOutbox<Handle>

  constructor(database: Database<Handle>, outbox: SqlOutbox<Handle>) {
    this.#database = database
    this.#outbox = outbox
  }

  /** The order, its event and the reservation are committed together or not at all. `false`: the order was placed before, and nothing was changed. */
  async place(order: Order): Promise<boolean> {
    return await this.#database.write(async (transaction) => {
      const placed = await transaction.insert(orders).values(order).onConflictDoNothing().returning()
      if (placed.length === 0) return false
      await this.#outbox.append(transaction, orderPlaced(order, { partitionkey: order.id }))
      const reserved = await transaction
        .update(stock)
        .set({ available: sql`${stock.available} - ${order.quantity}` })
        .where(and(eq(stock.product, order.product), gte(stock.available, order.quantity)))
        .returning()
      // All writes above are rolled back, including the event.
      if (reserved.length === 0) throw new OutOfStockError(`There are not ${order.quantity} of '${order.product}'.`)
      return true
    })
  }
}
