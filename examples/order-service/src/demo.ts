import { jsonMarshaler, MemoryBroker, marshal, publishAll, Router, silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { createSchema, sqlOutbox, transactional } from '@ackord/sql'
import { fromPglite } from '@ackord/sql/postgres'
import { PGlite } from '@electric-sql/pglite'
import { BusyOrders } from './adapters/busy-orders.ts'
import { PostgresOrders } from './adapters/postgres-orders.ts'
import { placeOrder, placeOrderHandler } from './application/place-order.ts'
import type { Order } from './domain/order.ts'

export interface DemoResult {
  readonly orders: number
  /** The number of orders in the database. */
  readonly applied: number
  /** The number of distinct events at the broker. */
  readonly events_published: number
  readonly duplicates_skipped: number
  /** The number of orders without a row or without an event. */
  readonly lost: number
  readonly applied_twice: number
}

/** Callbacks that report the progress of the demo. */
export interface DemoEvents {
  readonly onStep: (text: string) => void
  readonly onProgress: (applied: number, published: number) => void
}

/**
 * A service on PostgreSQL (PGlite, in this process) and a broker. Every third command is delivered twice, every tenth fails at first,
 * and in the middle the broker accepts no events for a while. At the end every order is stored once, and its event is published once.
 */
export async function demo(count: number, { onStep, onProgress }: DemoEvents): Promise<DemoResult> {
  onStep('Starting PostgreSQL in this process …')
  const pglite = await PGlite.create()
  const database = fromPglite(pglite)
  await createSchema(database)
  // Has no key: an order that is applied twice would show as two rows.
  await pglite.exec('CREATE TABLE orders (id text NOT NULL, customer text NOT NULL, total integer NOT NULL)')

  await using broker = new MemoryBroker({ history: Infinity, logger: silentLogger })
  let duplicates = 0
  const inbox = {
    consumer: 'order-service',
    onDuplicate() {
      duplicates += 1
    },
  }
  const router = new Router({ concurrency: 8, logger: silentLogger })
  router.use(transactional(database, { inbox, outbox: { destination: 'order-events' } }))
  router.handle(placeOrderHandler(new BusyOrders(new PostgresOrders(database))))
  const relay = new Relay(sqlOutbox(database, { logger: silentLogger }), { publisher: broker, pollInterval: 50, logger: silentLogger })

  const published = () => new Set(broker.published('order-events').map(({ id }) => id)).size
  const progress = setInterval(() => onProgress(router.health().handled - duplicates, published()), 100)
  try {
    relay.start()
    const running = router.run(broker.source('orders', { group: 'order-service' }))
    const send = (from: number, to: number) => publishAll(broker, 'orders', commands(from, to))

    onStep(`${count} orders arrive; every third is delivered twice, every tenth fails at first.`)
    await send(0, count / 2)
    await broker.idle('orders', 'order-service')
    await drained(relay, pglite)
    onStep('The broker is down for events; orders keep arriving and are committed.')
    broker.fail('order-events', new Error('The broker is down.'))
    await send(count / 2, count)
    await broker.idle('orders', 'order-service')
    onStep(`The broker is up again; ${count - published()} events that waited in the outbox are published.`)
    broker.fail('order-events', undefined)
    await drained(relay, pglite)
    await router.stop()
    await running
    await relay.stop()

    const { rows } = await pglite.query<{ applied: number; orders: number }>(
      'SELECT count(*)::int AS applied, count(DISTINCT id)::int AS orders FROM orders',
    )
    const { applied = 0, orders = 0 } = rows[0] ?? {}
    const events = published()
    return {
      orders: count,
      applied,
      events_published: events,
      duplicates_skipped: duplicates,
      lost: count - Math.min(orders, events),
      applied_twice: applied - orders,
    }
  } finally {
    clearInterval(progress)
    await router.stop()
    await relay.stop()
    await pglite.close()
  }
}

/** Sends every third command twice, as a broker does that is unsure of a delivery. */
function commands(from: number, to: number): ReturnType<typeof marshal>[] {
  return Array.from({ length: to - from }, (_, index) => {
    const order: Order = { id: `o-${from + index + 1}`, customer: `c-${index % 50}`, total: index }
    const command = marshal(placeOrder(order, { id: `place-${order.id}`, source: '/shop', specversion: '1.0' }), jsonMarshaler)
    return index % 3 === 0 ? [command, command] : [command]
  }).flat()
}

/** Polls the outbox until it is empty: settled records are deleted from it. */
async function drained(relay: Relay, pglite: PGlite): Promise<void> {
  for (;;) {
    relay.wake()
    const { rows } = await pglite.query<{ left: number }>('SELECT count(*)::int AS left FROM ackord_outbox')
    if (rows[0]?.left === 0) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
