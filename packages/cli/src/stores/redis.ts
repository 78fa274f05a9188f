import { type Logger, silentLogger } from '@ackord/core'
import { checkDurability, fromIoredis, streamOutbox, transactional } from '@ackord/redis'
import { usageError } from '../command-error.ts'
import { connectRedis, removeKeys } from '../redis-client.ts'
import type { ServiceUrl } from '../service-url.ts'
import type { RedisStore, StorePlace } from './store.ts'

const defaultTag = 'ackord'

/** A server of Redis, with the outbox in streams. Connects. */
export async function openRedis(url: ServiceUrl, place: StorePlace, logger: Logger): Promise<RedisStore> {
  const { schema, prefix, stream, tag } = place
  if (schema !== undefined || prefix !== undefined) throw usageError('--schema and --prefix are for SQL databases; this store is Redis.')
  const client = await connectRedis(url)
  const redis = fromIoredis(client, { logger })
  const first = tag?.[0] ?? defaultTag
  const open = (given: Logger) => streamOutbox(redis, { stream, tags: tag, logger: given })

  return {
    kind: 'redis',
    address: url.address,
    tag: first,
    async connect() {
      await client.ping()
    },
    outbox({ order = 'none', retain = false, listen = false, logger: given }) {
      if (order !== 'none') throw usageError(`--order ${order} needs an SQL database: the streams of Redis have no order per key.`)
      if (retain) throw usageError('Redis keeps no published records: leave out --keep-published.')
      if (listen) throw usageError('--listen is for PostgreSQL: relays hear of new records in Redis anyway.')
      return open(given)
    },
    transactional: ({ consumer, destination, onDuplicate }) =>
      transactional(redis, {
        // What a crash costs: short enough to be watched.
        inbox: { consumer, tag: first, lease: 3000, onDuplicate },
        outbox: { outbox: open(silentLogger), destination },
      }),
    async append(records) {
      const outbox = open(silentLogger)
      await redis.write((transaction) => outbox.append(transaction, records))
    },
    send: (command, ...args) => client.call(command, ...args),
    push: (key, value) => redis.commands(undefined, { required: true }).rpush(key, value),
    removeKeys: (start) => removeKeys(client, start),
    checkDurability: () => checkDurability(redis),
    async [Symbol.asyncDispose]() {
      client.disconnect()
    },
  }
}
