import { defineEvent, type Handler, type MemoryBroker, type Message, silentLogger } from '@ackord/core'
import { Service, type ServiceOptions, type ServiceTelemetry } from '@ackord/outbox/service'
import { fromIoredis } from '@ackord/redis'
import { createService as createRedisService } from '@ackord/redis/service'
import { createSchema } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { createService } from '@ackord/sql/service'
import { MemoryStore } from '@ackord/testkit'
import { Redis as Ioredis } from 'ioredis'
import { ownName } from '../../../../scripts/test-run.mjs'
import { openSchema, postgresUrl } from '../../../sql/test/support/own-schema.ts'
import { pg } from '../../../sql/test/support/pg.ts'

export const placeOrder = defineEvent<{ id: string }>('order.place')
export const orderPlaced = defineEvent<{ orderId: string }>('order.placed')

/** A store, and what creates services on it. */
interface StoreWorld extends AsyncDisposable {
  createService(options: ServiceOptions): RunningService
}

/** The part of a service that scenarios use. */
export interface RunningService extends AsyncDisposable {
  start(): unknown
  stop(): Promise<void>
  /** Commits an event outside of a handler. */
  append(...events: readonly Message[]): Promise<void>
}

export type OpenStore = () => Promise<StoreWorld>

export const stores: Readonly<Record<string, OpenStore>> = {
  'in memory': async () => {
    const store = new MemoryStore({ source: '/orders', destination: 'order-events' })
    return {
      createService(options) {
        const service = new Service(
          () => ({ outbox: store.outbox, transactional: (consumer, { destination }) => store.transactional({ consumer, destination }) }),
          options,
        )
        return running(service, (events) => store.write((transaction) => service.outbox.append(transaction.events as never, events)))
      },
      async [Symbol.asyncDispose]() {},
    }
  },
  PostgreSQL: async () => {
    const own = await openSchema()
    const pool = new pg.Pool({ connectionString: postgresUrl, options: `-c search_path=${own.schema}` })
    const database = fromPg(pool, { logger: silentLogger })
    await createSchema(database)
    return {
      createService(options) {
        const service = createService({ ...options, database })
        return running(service, (events) => database.write((transaction) => service.outbox.append(transaction, events)))
      },
      async [Symbol.asyncDispose]() {
        await pool.end()
        await own[Symbol.asyncDispose]()
      },
    }
  },
  Redis: async () => {
    const client = new Ioredis(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379')
    const redis = fromIoredis(client, { logger: silentLogger })
    const tag = `test-${ownName()}`
    return {
      createService(options) {
        const service = createRedisService({ ...options, redis, inbox: { tag }, outbox: { tags: [tag] } })
        return running(service, (events) => redis.write((transaction) => service.outbox.append(transaction, events)))
      },
      async [Symbol.asyncDispose]() {
        const keys = await client.keys(`*{${tag}}*`)
        if (keys.length > 0) await client.del(...keys)
        client.disconnect()
      },
    }
  },
}

function running(
  service: Pick<Service, 'start' | 'stop' | 'close'>,
  append: (events: readonly Message[]) => Promise<unknown>,
): RunningService {
  return {
    start: () => service.start(),
    stop: () => service.stop(),
    async append(...events) {
      await append(events)
    },
    [Symbol.asyncDispose]: () => service.close(),
  }
}

/** The options of a service that handles orders, with its broker in memory. */
export function orderService(
  broker: MemoryBroker,
  telemetry: ServiceTelemetry,
  handlers: readonly Handler[],
  options: Partial<ServiceOptions> = {},
): ServiceOptions {
  return {
    consumer: 'orders',
    source: broker.source('orders'),
    handlers,
    publisher: broker,
    destination: 'order-events',
    eventSource: '/orders',
    relay: { pollInterval: 20 },
    router: { redeliveryDelay: () => 10 },
    logger: silentLogger,
    telemetry,
    ...options,
  }
}
