import { eventHandler, type Handler } from '@ackord/core'
import type { Database } from '@ackord/sql'
import type { Handle } from './database.ts'
import { orderPlaced } from './orders.ts'
import { invoices } from './tables.ts'

/** Writes an invoice for each order. `executor()` is the transaction in which the inbox records the event. */
export function invoiceHandler(database: Database<Handle>): Handler {
  return eventHandler({ type: orderPlaced }, async ({ id, quantity }) => {
    await database.executor().insert(invoices).values({ orderId: id, quantity })
  })
}
