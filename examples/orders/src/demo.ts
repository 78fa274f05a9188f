import { jsonMarshaler, MemoryBroker, marshal, publishAll, Router, silentLogger } from '@ackord/core'
import type { Order } from './order.ts'
import { placeOrder, placeOrderHandler } from './place-order.ts'
import { UnreliableOrders } from './unreliable-orders.ts'

export interface DemoResult {
  readonly orders: number
  readonly saved: number
  readonly events_published: number
  readonly redelivered: number
  readonly dead_lettered: number
  readonly lost: number
}

/** Sends orders through a router: some fail at first and come again, some can never be handled and go to the dead letter, none is lost. */
export async function demo(count: number, onProgress: (done: number, count: number) => void): Promise<DemoResult> {
  await using broker = new MemoryBroker({ history: Infinity, logger: silentLogger })
  const orders = new UnreliableOrders()
  let redelivered = 0
  let reported = 0

  const router = new Router({ concurrency: 16, orderingKey: 'partitionkey', logger: silentLogger })
  router.use((next) => async (message, context) => {
    if ((message.deliveryCount ?? 1) > 1) redelivered += 1
    const outputs = await next(message, context)
    if (orders.saved.size > reported && orders.saved.size % 50 === 0) {
      reported = orders.saved.size
      onProgress(reported, count)
    }
    return outputs
  })
  router.handle(placeOrderHandler(orders))

  const source = broker.source('orders', { group: 'order-service', deadLetter: 'orders.dead', orderPerKey: true })
  const running = router.run(source, { publisher: broker, destination: 'order-events' })

  await publishOrders(broker, count)
  await broker.idle('orders', 'order-service')
  await router.stop()
  await running

  const saved = orders.saved.size
  const deadLettered = broker.published('orders.dead').length
  return {
    orders: count,
    saved,
    events_published: new Set(broker.published('order-events').map((event) => event.id)).size,
    redelivered,
    dead_lettered: deadLettered,
    lost: count - saved - deadLettered,
  }
}

async function publishOrders(broker: MemoryBroker, count: number): Promise<void> {
  const messages = Array.from({ length: count }, (_, index) => {
    const order: Order = { id: `o-${index + 1}`, customer: `c-${index % 50}`, total: index % 250 === 249 ? -1 : index }
    const command = placeOrder(order, { id: `place-${order.id}`, source: '/shop', specversion: '1.0', partitionkey: order.customer })
    return marshal(command, jsonMarshaler)
  })
  await publishAll(broker, 'orders', messages)
}
