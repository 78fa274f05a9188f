import { commandHandler, defineEvent, type Handler } from '@ackord/core'
import type { Database } from '@ackord/sql'
import type { Handle } from './database.ts'
import { orderPlaced } from './orders.ts'

const shipmentPlanned = defineEvent<{ orderId: string }>('shipment.planned')

/** Plans a shipment for each order and returns an event. `executor()` is the transaction of the inbox record and of the new event. */
export function shippingHandler(database: Database<Handle>): Handler {
  return commandHandler({ type: orderPlaced, source: '/shipping' }, async ({ id, product }) => {
    await database.executor().insertInto('shipments').values({ order_id: id, product }).execute()
    return [shipmentPlanned({ orderId: id }, { partitionkey: id })]
  })
}
