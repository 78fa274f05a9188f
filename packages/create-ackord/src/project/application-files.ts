import { memoryOrders } from '../pieces/memory-orders.ts'

/** The part of a project that knows neither store nor broker nor framework: the domain and the messages. */
export const applicationFiles: Readonly<Record<string, string>> = {
  'src/domain/order.ts': `/** The domain. It knows no message, broker or store. */
export interface Order {
  readonly id: string
  readonly total: number
}

/** The port for storing orders; \`src/adapters\` implements it. */
export interface Orders {
  /** Resolves to \`false\` if there is an order with this id already. */
  add(order: Order): Promise<boolean>
  /** Resolves to \`false\` if there is no such order. */
  markPaid(id: string): Promise<boolean>
}
`,
  'src/application/messages.ts': `import { defineEvent } from '@ackord/core'
import { z } from 'zod'

/** The CloudEvents source of the events of this service. */
export const eventSource = '/orders'

export const orderSchema = z.object({ id: z.string().min(1).max(36), total: z.int32().nonnegative() })

/** A command: asks this service to place an order. Messages that do not match their schema go to the dead letters. */
export const placeOrder = defineEvent('order.place', orderSchema)

/** An event of this service. */
export const orderPlaced = defineEvent('order.placed', z.object({ orderId: z.string(), total: z.int32() }))

/** An event of another service, which takes payments. */
export const paymentReceived = defineEvent('payment.received', z.object({ orderId: z.string() }))

/** An event of this service. */
export const orderPaid = defineEvent('order.paid', z.object({ orderId: z.string() }))
`,
}

/** The handlers and their test, for projects with `createService()`. */
export const handlerFiles: Readonly<Record<string, string>> = {
  'src/application/place-order.ts': `import { commandHandler, type Handler } from '@ackord/core'
import type { Orders } from '../domain/order.ts'
import { eventSource, orderPlaced, placeOrder } from './messages.ts'

/** The order, the returned event and the record that this command was handled are committed together, or not at all. */
export function placeOrderHandler(orders: Orders): Handler {
  return commandHandler({ type: placeOrder, source: eventSource }, async (order) => {
    const isNew = await orders.add(order)
    return isNew ? [orderPlaced({ orderId: order.id, total: order.total })] : []
  })
}
`,
  'src/application/record-payment.ts': `import { eventHandler, type Handler } from '@ackord/core'
import type { Orders } from '../domain/order.ts'
import { orderPaid, paymentReceived } from './messages.ts'

export function recordPaymentHandler(orders: Orders): Handler {
  return eventHandler({ type: paymentReceived }, async ({ orderId }) => {
    // The message is delivered again later: the payment may have overtaken the order.
    if (!(await orders.markPaid(orderId))) throw new Error(\`There is no order '\${orderId}'.\`)
    return [orderPaid({ orderId })]
  })
}
`,
  'test/handlers.test.ts': `import { Router, silentLogger } from '@ackord/core'
import {
  assertHandledOnce,
  assertNothingPublished,
  assertPublished,
  MemoryStore,
  sourceOf,
  trackedMessage,
} from '@ackord/testkit'
import { expect, it } from 'vitest'
import { eventSource } from '../src/application/messages.ts'
import { placeOrderHandler } from '../src/application/place-order.ts'
import { recordPaymentHandler } from '../src/application/record-payment.ts'
import type { Order, Orders } from '../src/domain/order.ts'

${memoryOrders}

function openWorld() {
  const store = new MemoryStore()
  const orders = new MemoryOrders(store)
  const router = new Router({ source: eventSource, logger: silentLogger })
    .use(store.transactional({ consumer: 'orders', destination: 'order-events' }))
    .handleAll(placeOrderHandler(orders), recordPaymentHandler(orders))
  return { orders, router, state: () => store.executor().entries(), events: { outbox: store.outbox } }
}

const payment = { type: 'payment.received', data: { orderId: 'o-1' } }

it('places an order once, although its command is delivered twice', async () => {
  const { router, state, events } = openWorld()
  await assertHandledOnce(router, { type: 'order.place', data: { id: 'o-1', total: 42 } }, { state, events })
  await assertPublished(events, { type: 'order.placed', data: { orderId: 'o-1', total: 42 } })
})

it('records a payment once', async () => {
  const { orders, router, state, events } = openWorld()
  await orders.add({ id: 'o-1', total: 42 })
  await assertHandledOnce(router, payment, { state, events })
  await assertPublished(events, { type: 'order.paid', data: { orderId: 'o-1' } })
})

it('leaves a payment without an order for later', async () => {
  const { router, events } = openWorld()
  const message = trackedMessage('m-1', { data: payment.data, attributes: { type: payment.type } })
  await router.run(sourceOf(message))
  expect(message.verdicts).toEqual(['nack'])
  await assertNothingPublished(events)
})

it('rejects a command that does not match its schema', async () => {
  const { router, events } = openWorld()
  const message = trackedMessage('m-1', { data: { id: 'o-1', total: -1 } })
  await router.run(sourceOf(message))
  expect(message.verdicts).toEqual(['reject'])
  await assertNothingPublished(events)
})
`,
}
