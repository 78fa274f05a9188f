// A service in memory that waits for a signal while it handles a message. Prints what it does.
import { commandHandler, defineEvent, jsonMarshaler, MemoryBroker, marshal, publishAll, silentLogger } from '@ackord/core'
import { Service } from '@ackord/outbox/service'
import { MemoryStore } from '@ackord/testkit'

const placeOrder = defineEvent<{ id: string }>('order.place')
const orderPlaced = defineEvent<{ orderId: string }>('order.placed')
const store = new MemoryStore()
const broker = new MemoryBroker()
const events = new MemoryBroker({ history: 10 })
const signalled = new Promise((resolve) => {
  for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, resolve)
})

const handler = commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
  console.log('handling')
  await signalled
  console.log('handled')
  return [orderPlaced({ orderId: id })]
})
const service = new Service(
  () => ({ outbox: store.outbox, transactional: (consumer, { destination }) => store.transactional({ consumer, destination }) }),
  {
    source: broker.source('orders'),
    handlers: [handler],
    consumer: 'orders',
    // Not closed with the service, so that its messages can be counted.
    publisher: { publish: (destination, messages) => events.publish(destination, messages) },
    destination: 'order-events',
    logger: silentLogger,
    async onClose() {
      // Published, or still in the outbox.
      const { records } = await store.outbox.list({}, { limit: 10 })
      console.log(`closed with ${records.length + events.published('order-events').length} event`)
    },
  },
)
await publishAll(broker, 'orders', [marshal(placeOrder({ id: 'o-1' }, { id: 'm-1', source: '/shop' }), jsonMarshaler)])
await service.runUntilSignal()
