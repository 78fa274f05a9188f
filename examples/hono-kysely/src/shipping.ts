import { commandHandler, defineEvent, type Handler } from '@ackord/core'
import type { Database } from '@ackord/sql'
import type { Handle } from './database.ts'
import { orderPlaced } from './orders.ts'

const shipmentPlanned = defineEvent<{ orderId: string }>('shipment.planned')

/** Plans a shipment for each order, and says so. `executor()` is the transaction in which the inbox remembers the event, and the outbox keeps the new one. */
export function shippingHandler(database: Database<Handle>): Handler {
  return commandHandler({ type: orderPlaced, source: '/shipping' }, async ({ id, product }) => {
    await database.executor().insertInto('shipments').values({ order_id: id, product }).execute()
    return [shipmentPlanned({ orderId: id }, { partitionkey: id })]
  })
}
