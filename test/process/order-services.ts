import { eventHandler, type Handler, type Message, Router, silentLogger } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import { Relay } from '@ackord/outbox'
import { rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { sqlOutbox, sqlProcesses, transactional } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { connect } from 'amqplib'
import pg from 'pg'
import {
  cancelOrder,
  confirmOrder,
  createOrderProcess,
  orderShipped,
  paymentDeclined,
  paymentReceived,
  refundPayment,
  requestPayment,
  shipOrder,
  shippingFailed,
} from './order-process.ts'

/** The services of a shop in one process, which is killed when it reaches a point for the nth time. */
const { SHOP_POSTGRES = '', SHOP_RABBITMQ = '', SHOP_SCHEMA = '', SHOP_KILL_AT, SHOP_KILL_HIT = '1' } = process.env

let hits = 0
installProbe((point) => {
  if (point !== SHOP_KILL_AT) return undefined
  hits += 1
  if (hits < Number(SHOP_KILL_HIT)) return undefined
  process.kill(process.pid, 'SIGKILL')
  return new Promise(() => {})
})

const pool = new pg.Pool({ connectionString: SHOP_POSTGRES, options: `-c search_path=${SHOP_SCHEMA}` })
const database = fromPg(pool, { logger: silentLogger })
const connection = await connect(SHOP_RABBITMQ)
const publisher = rabbitmqPublisher(connection)
const queue = (name: string) => `${SHOP_SCHEMA}.${name}`

const commandQueues: Readonly<Record<string, string>> = {
  'payment.request': 'payments',
  'payment.refund': 'payments',
  'shipping.request': 'shipping',
  'order.cancel': 'orders',
  'order.confirm': 'orders',
}
const destination = ({ type = '' }: Message) => queue(commandQueues[type] ?? 'order-process')

/** An effect of a service. The table has no unique key: what is done twice is there twice. */
async function effect(text: string): Promise<void> {
  await database.executor(undefined, { required: true }).query('INSERT INTO effects (text) VALUES ($1)', [text])
}

const answers: Readonly<Record<string, (orderId: string) => Message | undefined>> = {
  paid: (orderId) => paymentReceived({ orderId, paymentId: `p-${orderId}` }),
  declined: (orderId) => paymentDeclined({ orderId }),
  silent: () => undefined,
  unshippable: (orderId) => paymentReceived({ orderId, paymentId: `p-${orderId}` }),
}
const source = '/shop'
const services: Readonly<Record<string, readonly Handler[]>> = {
  'order-process': createOrderProcess(queue('order-process'), (total) => (total === 1 ? 200 : 600_000)).handlers(sqlProcesses(database)),
  payments: [
    eventHandler({ type: requestPayment, source }, async ({ orderId }) => {
      await effect(`charge ${orderId}`)
      const answer = answers[orderId]?.(orderId)
      return answer === undefined ? [] : [answer]
    }),
    eventHandler({ type: refundPayment, source }, ({ paymentId }) => effect(`refund ${paymentId}`)),
  ],
  shipping: [
    eventHandler({ type: shipOrder, source }, async ({ orderId }) => {
      await effect(`ship ${orderId}`)
      return [orderId === 'unshippable' ? shippingFailed({ orderId }) : orderShipped({ orderId })]
    }),
  ],
  orders: [
    eventHandler({ type: cancelOrder, source }, ({ orderId, reason }) => effect(`cancel ${orderId}: ${reason}`)),
    eventHandler({ type: confirmOrder, source }, ({ orderId }) => effect(`confirm ${orderId}`)),
  ],
}

new Relay(sqlOutbox(database), {
  publisher,
  lease: 1000,
  publishTimeout: 800,
  pollInterval: 20,
  maxPollInterval: 50,
  logger: silentLogger,
}).start()
for (const [consumer, handlers] of Object.entries(services)) {
  const router = new Router({ logger: silentLogger })
    .use(transactional(database, { inbox: { consumer }, outbox: { destination }, transaction: { logger: silentLogger } }))
    .handleAll(...handlers)
  void router.run(rabbitmqSource(connection, { queue: queue(consumer), prefetch: 8 }))
}
process.send?.({ ready: true })
