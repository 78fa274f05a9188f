import { defineEvent } from '@ackord/core'
import type { OutboxWriter } from '@ackord/outbox'
import type { Database } from '@ackord/sql'
import { and, eq, gte, sql } from 'drizzle-orm'
import type { Handle } from './database.ts'
import { orders, stock } from './tables.ts'

export interface Order {
  readonly id: string
  readonly product: string
  readonly quantity: number
}

export const orderPlaced = defineEvent<Order>('order.placed')

/** Fastify uses the error's status code for the answer. It is thrown, so nothing is stored: the client may send the request again later. */
class ConflictError extends Error {
  readonly statusCode = 409
}

export class Orders {
  readonly #database: Database<Handle>
  readonly #outbox: OutboxWriter<Handle>

  constructor(database: Database<Handle>, outbox: OutboxWriter<Handle>) {
    this.#database = database
    this.#outbox = outbox
  }

  /** The order, its event and the reservation are committed together or not at all: in the transaction of the request, or in one of their own. */
  async place(order: Order): Promise<void> {
    await this.#database.write(async (transaction) => {
      const placed = await transaction.insert(orders).values(order).onConflictDoNothing().returning()
      if (placed.length === 0) throw new ConflictError(`There is an order '${order.id}' already.`)
      await this.#outbox.append(transaction, orderPlaced(order, { partitionkey: order.id }))
      const reserved = await transaction
        .update(stock)
        .set({ available: sql`${stock.available} - ${order.quantity}` })
        .where(and(eq(stock.product, order.product), gte(stock.available, order.quantity)))
        .returning()
      // All writes above are rolled back, including the event.
      if (reserved.length === 0) throw new ConflictError(`There are not ${order.quantity} of '${order.product}'.`)
    })
  }
}
