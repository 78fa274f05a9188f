import {
  commandHandler,
  defineEvent,
  exponentialBackoff,
  type Handler,
  jsonMarshaler,
  marshal,
  type RawMessage,
  Router,
  type Source,
  silentLogger,
} from '@ackord/core'
import { Relay } from '@ackord/outbox'
import type { RedisStore, SqlStore, Store } from '../stores/store.ts'
import { crashableOutbox, crashableSource, Lifeline, type Outage } from './failures.ts'

export interface OrderServiceOptions {
  readonly store: Store
  /** Owned by this service; it is disposed when the service ends. */
  readonly source: Source & AsyncDisposable
  readonly publisher: Outage
  readonly destination: string
  readonly saveOrder: (id: string) => Promise<void>
  /** The orders that have failed before: shared with the service that replaces this one. */
  readonly failed: Set<string>
  readonly onAcked: () => void
  readonly onDuplicate: () => void
}

/** Short, so that the records of a dead relay are claimed again soon. */
const lease = 3000

/** A service as it would run in a process of its own: a router with inbox and outbox around its handler, and a relay. */
export class OrderService {
  readonly lifeline: Lifeline = new Lifeline()
  readonly #router: Router
  readonly #relay: Relay
  readonly #source: Source & AsyncDisposable
  readonly #running: Promise<void>
  #failure: unknown

  constructor(options: OrderServiceOptions) {
    const { store, source, publisher, destination, saveOrder, failed, onAcked, onDuplicate } = options
    this.#source = source
    this.#router = new Router({ concurrency: 8, shutdownTimeout: 2000, logger: silentLogger })
    this.#router.use(store.transactional({ consumer: 'order-service', destination, onDuplicate }))
    this.#router.handle(placeOrderHandler(saveOrder, failed))
    this.#relay = new Relay(crashableOutbox(store.outbox({ logger: silentLogger }), this.lifeline), {
      publisher,
      lease,
      publishTimeout: 2500,
      pollInterval: 50,
      maxPollInterval: 250,
      destinationBackoff: exponentialBackoff({ initial: 100, max: 500 }),
      shutdownTimeout: 2000,
      logger: silentLogger,
    }).start()
    this.#running = this.#router.run(crashableSource(source, this.lifeline, onAcked)).catch((error: unknown) => {
      this.#failure = error
    })
  }

  /** Its last error, if any; it may have continued nevertheless. */
  get lastError(): unknown {
    return this.#failure ?? this.#relay.health().lastStoreError
  }

  /** Also called after a simulated crash: its remains in this process must end. Idempotent. */
  async stop(): Promise<void> {
    await this.#router.stop()
    await this.#running
    await this.#relay.stop()
    await this.#source[Symbol.asyncDispose]()
  }
}

interface Order {
  readonly id: string
}

const placeOrder = defineEvent<Order>('order.place')
const orderPlaced = defineEvent<{ readonly orderId: string }>('order.placed')

export function orderId(index: number): string {
  return `o-${index + 1}`
}

export function orderCommand(index: number): RawMessage {
  const id = orderId(index)
  return marshal(placeOrder({ id }, { id: `place-${id}`, source: '/shop', specversion: '1.0' }), jsonMarshaler)
}

/** Every third: brokers redeliver messages whose ack they did not receive. */
export function isRepeated(index: number): boolean {
  return index % 3 === 0
}

/** The handler of the service: it calls its port, and returns an event. Every tenth order fails at first, after it was written. */
function placeOrderHandler(save: (id: string) => Promise<void>, failed: Set<string>): Handler {
  return commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
    await save(id)
    if (Number(id.slice(2)) % 10 === 0 && !failed.has(id)) {
      failed.add(id)
      throw new Error('The payment service is busy.')
    }
    return [orderPlaced({ orderId: id }, { partitionkey: id })]
  })
}

/** The orders of the demo, stored beside Ackord's tables or keys, under names of this run. */
export interface DemoStore {
  create(): Promise<void>
  /** Stores the order in the transaction of the current message. There is no unique constraint: a repeated order would be visible. */
  saveOrder(id: string): Promise<void>
  /** The ids of all stored orders, counting each occurrence. */
  orders(): Promise<readonly string[]>
  /** Removes all data of this run. Idempotent. */
  remove(): Promise<void>
}

export function demoStore(store: Store): DemoStore {
  return store.kind === 'redis' ? onRedis(store) : onSql(store)
}

function onSql(store: SqlStore): DemoStore {
  const orders = store.table('orders')
  const isPostgres = store.kind === 'postgres' || store.kind === 'pglite'
  // MySQL may be configured to require a primary key.
  const key = store.kind === 'mysql' ? 'seq BIGINT AUTO_INCREMENT PRIMARY KEY, ' : ''
  const insert = `INSERT INTO ${orders} (id) VALUES (${isPostgres ? '$1' : '?'})`
  return {
    async create() {
      await store.createSchema()
      await store.define(`CREATE TABLE ${orders} (${key}id VARCHAR(40) NOT NULL)`)
    },
    saveOrder: (id) => store.change(insert, [id]),
    async orders() {
      const rows = await store.query(`SELECT id FROM ${orders}`)
      return rows.map((row) => String(row['id']))
    },
    async remove() {
      for (const name of tableNames) await store.define(`DROP TABLE IF EXISTS ${store.table(name)}`)
      if (!isPostgres) return
      for (const name of ['append', 'keep', 'valid']) await store.define(`DROP FUNCTION IF EXISTS ${store.table(name)}`)
    },
  }
}

/** In this order: the log uses the numbers of the outbox. The last one is specific to MySQL. */
const tableNames = [
  'orders',
  'inbox',
  'log',
  'cursors',
  'taken',
  'readers',
  'outbox',
  'hands',
  'partitions',
  'relays',
  'notes',
  'idempotency',
  'process',
  'meta',
  'outbox_locks',
]

function onRedis(store: RedisStore): DemoStore {
  const orders = `{${store.tag}}:orders`
  return {
    create: () => Promise.resolve(),
    saveOrder: (id) => store.push(orders, id),
    async orders() {
      return (await store.send('LRANGE', orders, 0, -1)) as string[]
    },
    remove: () => store.removeKeys(`{${store.tag}}`),
  }
}
