import { type Message, silentLogger } from '@ackord/core'
import type { Service, ServiceOptions } from '@ackord/outbox/service'
import { fromIoredis, type StreamOutbox } from '@ackord/redis'
import { type LuaOutbox, luaOutbox } from '@ackord/redis/lua-outbox'
import { createService as createRedisService } from '@ackord/redis/service'
import { createService, type SqlServiceOptions } from '@ackord/sql/service'
import { Redis as Ioredis } from 'ioredis'
import { ownName } from '../../scripts/test-run.mjs'
import { mariadbOrders, type OrdersKind, postgresOrders, sqliteOrders } from '../testing/sql-orders.ts'

export type PayloadServiceOptions = Omit<ServiceOptions, 'logger'>

/** A service, with the parts that the tests use. */
interface PayloadService {
  readonly service: Service
  /** Runs the work in a transaction outside of the handlers. */
  write(work: (append: (...events: readonly Message[]) => Promise<void>) => Promise<void>): Promise<void>
}

/** A store of orders and events. Disposing it closes its services and removes what it has created. */
interface PayloadStore extends AsyncDisposable {
  createService(options: PayloadServiceOptions): PayloadService
  /** Writes an order in the transaction of the message that is being handled. */
  save(id: string): Promise<unknown>
  /** The committed orders. */
  orders(): Promise<readonly string[]>
}

export interface PayloadStoreKind {
  readonly name: string
  open(): Promise<PayloadStore>
}

export const payloadStores: readonly PayloadStoreKind[] = [
  sqlKind(postgresOrders),
  sqlKind(postgresOrders, { groupCommit: { size: 5 } }, ', group commit'),
  sqlKind(mariadbOrders),
  sqlKind(sqliteOrders),
  redisKind('Redis, stream outbox', (_, tag) => ({ tags: [tag] })),
  redisKind('Redis, Lua outbox', (redis, tag, options) => {
    const { eventSource: source, destination, codecs, codecTimeout } = options
    return luaOutbox(redis, { tag, logger: silentLogger, source, destination, codecs, codecTimeout })
  }),
]

function sqlKind<Handle>(kind: OrdersKind<Handle>, more: Partial<SqlServiceOptions<Handle>> = {}, suffix = ''): PayloadStoreKind {
  return {
    name: `${kind.name}${suffix}`,
    async open() {
      const home = await kind.open()
      const { database, insert, close } = await home.connect()
      const services: Service[] = []
      return {
        createService(options) {
          const service = createService({ database, logger: silentLogger, ...more, ...options })
          services.push(service)
          return {
            service,
            write: (work) =>
              database.write((transaction) => work((...events) => service.outbox.append(transaction, events)), { logger: silentLogger }),
          }
        },
        save: (id) => insert(database.executor(), id),
        orders: home.committed,
        async [Symbol.asyncDispose]() {
          await Promise.all(services.map((service) => service.close()))
          await close()
          await home[Symbol.asyncDispose]()
        },
      }
    },
  }
}

type Redis = ReturnType<typeof fromIoredis>
type RedisOutbox = Parameters<typeof createRedisService<StreamOutbox | LuaOutbox>>[0]['outbox']

function redisKind(name: string, outboxOf: (redis: Redis, tag: string, options: PayloadServiceOptions) => RedisOutbox): PayloadStoreKind {
  return {
    name,
    async open() {
      const client = new Ioredis(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379')
      const redis = fromIoredis(client, { logger: silentLogger })
      const tag = `test-${ownName()}`
      const orders = redis.key(tag, 'orders')
      const services: Service[] = []
      return {
        createService(options) {
          const outbox = outboxOf(redis, tag, options)
          const service = createRedisService<StreamOutbox | LuaOutbox>({ redis, inbox: { tag }, logger: silentLogger, ...options, outbox })
          services.push(service)
          return {
            service,
            write: (work) => redis.write((transaction) => work((...events) => service.outbox.append(transaction, events))),
          }
        },
        save: (id) => redis.commands().rpush(orders, id),
        orders: async () => (await client.lrange(String(orders), 0, -1)).toSorted(),
        async [Symbol.asyncDispose]() {
          await Promise.all(services.map((service) => service.close()))
          const keys = await client.keys(`{${tag}}*`)
          if (keys.length > 0) await client.del(...keys)
          client.disconnect()
        },
      }
    },
  }
}
