import {
  afterCommit,
  commandHandler,
  defineEvent,
  eventHandler,
  jsonMarshaler,
  marshal,
  publishAll,
  type RawMessage,
  Router,
  silentLogger,
} from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { inboxMiddleware, sqlOutbox, transactional, transactionMiddleware } from '@ackord/sql'
import { fromPg, pgNotifications } from '@ackord/sql/postgres'
import pg from 'pg'
import { type Broker, destinationOf } from './brokers.ts'
import { now } from './protocol.ts'
import { createPool, postgresUrl, schemaOf } from './tables.ts'

/** The connections of a service, and the messages that it handles concurrently. */
const concurrency = 16
/** A relay claims and settles, and renews its lease beside. */
const relayConnections = 2
const keys = 1000
const batchSize = 500
const note = 'x'.repeat(200)
const insertOrder = 'INSERT INTO orders (id, total) VALUES ($1, $2)'
/** The relays share the partitions, so that each of them has work. */
const order = 'perKey'

interface Order {
  readonly id: string
  readonly total: number
  readonly note: string
  /** Milliseconds, by the clock that all processes share. */
  readonly publishedAt: number
}

const placeOrder = defineEvent<Order>('order.place')
const orderPlaced = defineEvent<Order>('order.placed')

export type Stop = () => Promise<void>

/** Publishes orders. Resolves to the time of the first publish when all are confirmed. */
export async function publishOrders(broker: Broker, prefix: string, count: number, perSecond: number | undefined): Promise<number> {
  const destination = destinationOf(prefix, 'orders')
  const startedAt = now()
  if (perSecond === undefined) {
    for (let sent = 0; sent < count; sent += batchSize) {
      await publishAll(broker.publisher, destination, Array.from({ length: Math.min(batchSize, count - sent) }, newOrder))
    }
    return startedAt
  }
  const publishing: Promise<void>[] = []
  for (let index = 0; index < count; index += 1) {
    const wait = startedAt + (index * 1000) / perSecond - now()
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait))
    publishing.push(publishAll(broker.publisher, destination, [newOrder()]))
  }
  await Promise.all(publishing)
  return startedAt
}

let created = 0

function newOrder(): RawMessage {
  created += 1
  const id = `order-${created}`
  return marshal(placeOrder({ id, total: 5, note, publishedAt: now() }, { id, source: '/client' }), jsonMarshaler)
}

/** The first service: stores the order and an event in one transaction. */
export function startOrders(broker: Broker, prefix: string): Stop {
  const pool = createPool(schemaOf(prefix, 'orders'), concurrency)
  const database = fromPg(pool, { order, notify: true, logger: silentLogger })
  const router = new Router({ concurrency, logger: silentLogger })
    .use(transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: destinationOf(prefix, 'order-events') } }))
    .handle(
      commandHandler({ type: placeOrder, source: '/orders' }, async (placed) => {
        await database.executor().query(insertOrder, [placed.id, placed.total])
        return [orderPlaced(placed, { partitionkey: `customer-${Number(placed.id.slice('order-'.length)) % keys}` })]
      }),
    )
  return stopOf(router, broker.source('orders'), pool)
}

/** Publishes the events of the first service. */
export function startRelay(broker: Broker, prefix: string): Stop {
  const schema = schemaOf(prefix, 'orders')
  const pool = createPool(schema, relayConnections)
  const notifications = pgNotifications(() => new pg.Client({ connectionString: postgresUrl, options: `-c search_path=${schema}` }))
  const outbox = sqlOutbox(fromPg(pool, { order, logger: silentLogger }), { notifications, logger: silentLogger })
  const relay = new Relay(outbox, { publisher: broker.publisher, logger: silentLogger }).start()
  return async () => {
    await relay.stop()
    await pool.end()
  }
}

/** The second service: stores the order once. Calls `onCommit` with the time of the publish of the order. */
export function startShipping(broker: Broker, prefix: string, onCommit: (publishedAt: number) => void): Stop {
  const pool = createPool(schemaOf(prefix, 'shipping'), concurrency)
  const database = fromPg(pool, { logger: silentLogger })
  const router = new Router({ concurrency, logger: silentLogger })
    .use(transactionMiddleware(database), inboxMiddleware(database, { consumer: 'shipping' }))
    .handle(
      eventHandler({ type: orderPlaced }, async (placed, context) => {
        await database.executor().query(insertOrder, [placed.id, placed.total])
        afterCommit(context, () => onCommit(placed.publishedAt))
      }),
    )
  return stopOf(router, broker.source('order-events'), pool)
}

function stopOf(router: Router, source: ReturnType<Broker['source']>, pool: pg.Pool): Stop {
  const running = router.run(source)
  // A source that cannot continue ends the process, and with it the benchmark.
  running.catch((error: unknown) => {
    console.error(error)
    process.exit(1)
  })
  return async () => {
    await router.stop()
    await running
    await source.close?.()
    await pool.end()
  }
}
