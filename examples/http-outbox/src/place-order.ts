import { defineEvent } from '@ackord/core'
import type { OutboxWriter } from '@ackord/outbox'
import type pg from 'pg'

export interface Order {
  readonly id: string
  readonly product: string
  readonly quantity: number
}

const orderPlaced = defineEvent<Order>('order.placed')

export class OutOfStockError extends Error {}

export interface PlaceOrderOptions {
  readonly pool: pg.Pool
  readonly outbox: OutboxWriter<pg.ClientBase>
}

/**
 * An ordinary transaction of a service that had no outbox before. The only addition is the call to `append()`, with the client that began the
 * transaction. `false`: the order was placed before.
 */
export async function placeOrder(order: Order, { pool, outbox }: PlaceOrderOptions): Promise<boolean> {
  const { id, product, quantity } = order
  const client = await pool.connect()
  let failure: Error | undefined
  try {
    await client.query('BEGIN')
    const placed = await client.query('INSERT INTO orders VALUES ($1, $2, $3) ON CONFLICT DO NOTHING', [id, product, quantity])
    if (placed.rowCount === 1) {
      await outbox.append(client, orderPlaced(order, { partitionkey: id }))
      const update = 'UPDATE stock SET available = available - $2 WHERE product = $1 AND available >= $2'
      const reserved = await client.query(update, [product, quantity])
      if (reserved.rowCount === 0) throw new OutOfStockError(`There are not ${quantity} of '${product}'.`)
    }
    await client.query('COMMIT')
    return placed.rowCount === 1
  } catch (error) {
    await client.query('ROLLBACK').catch((broken: Error) => {
      failure = broken
    })
    throw error
  } finally {
    // A client that could not roll back must not return to the pool.
    client.release(failure)
  }
}
