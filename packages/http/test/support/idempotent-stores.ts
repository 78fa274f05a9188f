import { defineEvent, silentLogger } from '@ackord/core'
import type { IdempotencyStore } from '@ackord/outbox'
import { fromNodeRedis, redisIdempotency, streamOutbox } from '@ackord/redis'
import { createSchema, sqlIdempotency, sqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { createClient } from 'redis'
import { ownName } from '../../../../scripts/test-run.mjs'
import { openSchema, startOptions } from '../../../sql/test/support/own-schema.ts'
import { pg } from '../../../sql/test/support/pg.ts'
import { postgresUrl } from '../../../sql/test/support/postgres-url.ts'

export interface Order {
  readonly product: string
}

const orderPlaced = defineEvent<Order>('order.placed')

/** A shop whose orders, events and answers are in one store. A process connects to it by a name. */
interface Shop extends AsyncDisposable {
  readonly store: IdempotencyStore<unknown>
  /** Stores an order and its event, in the ambient transaction. */
  place(order: Order): Promise<void>
  orders(): Promise<number>
  events(): Promise<number>
}

export interface OpenedShop extends Shop {
  /** By which another process connects to it. */
  readonly name: string
}

export interface ShopKind {
  /** With tables or keys of its own, which are removed at the end. */
  open(): Promise<OpenedShop>
  connect(name: string): Promise<Shop>
}

const events = { source: '/orders', destination: 'order-events', logger: silentLogger }

const postgres: ShopKind = {
  async open() {
    const own = await openSchema()
    const shop = await postgres.connect(own.schema)
    return {
      ...shop,
      name: own.schema,
      async [Symbol.asyncDispose]() {
        await shop[Symbol.asyncDispose]()
        await own[Symbol.asyncDispose]()
      },
    }
  },

  async connect(name) {
    const pool = new pg.Pool({ connectionString: postgresUrl, options: startOptions(name) })
    pool.on('error', () => {})
    const database = fromPg(pool, { logger: silentLogger })
    await createSchema(database)
    await pool.query('CREATE TABLE IF NOT EXISTS placed (product text NOT NULL)')
    const outbox = sqlOutbox(database, events)
    const count = async (table: string) => Number((await pool.query(`SELECT count(*) AS n FROM ${table}`)).rows[0].n)
    return {
      store: sqlIdempotency(database),
      place: (order) =>
        database.write(async (transaction) => {
          await transaction.query('INSERT INTO placed VALUES ($1)', [order.product])
          await outbox.append(transaction, orderPlaced(order))
        }),
      orders: () => count('placed'),
      events: () => count('ackord_outbox'),
      [Symbol.asyncDispose]: () => pool.end(),
    }
  },
}

const redisUrl = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'

async function openClient() {
  const client = createClient({ url: redisUrl })
  client.on('error', () => {})
  return await client.connect()
}

const redis: ShopKind = {
  async open() {
    const name = `ackord-test-${ownName()}`
    const shop = await redis.connect(name)
    return {
      ...shop,
      name,
      async [Symbol.asyncDispose]() {
        await shop[Symbol.asyncDispose]()
        const client = await openClient()
        const keys = await client.keys(`{${name}}*`)
        if (keys.length > 0) await client.del(keys)
        client.destroy()
      },
    }
  },

  async connect(name) {
    const client = await openClient()
    const store = fromNodeRedis(client, { logger: silentLogger })
    const outbox = streamOutbox(store, { ...events, tags: [name] })
    return {
      store: redisIdempotency(store, { tag: name }),
      place: (order) =>
        store.write(async (transaction, context) => {
          await store.commands(context).rpush(store.key(name, 'orders'), order.product)
          await outbox.append(transaction, orderPlaced(order))
        }),
      orders: () => client.lLen(store.key(name, 'orders')),
      events: async () => (await outbox.list({}, { limit: 1000 })).records.length,
      async [Symbol.asyncDispose]() {
        client.destroy()
      },
    }
  },
}

export const shopKinds: Readonly<Record<string, ShopKind>> = { PostgreSQL: postgres, Redis: redis }
