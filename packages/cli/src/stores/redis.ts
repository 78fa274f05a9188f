import { isAckordError, type Logger, silentLogger } from '@ackord/core'
import { checkDurability, fromIoredis, transactional } from '@ackord/redis'
import { CommandError, usageError } from '../command-error.ts'
import { exitCode } from '../exit-code.ts'
import { connectRedis, removeKeys } from '../redis-client.ts'
import type { ServiceUrl } from '../service-url.ts'
import { redisOutboxes } from './redis-outboxes.ts'
import type { RedisStore, StorePlace } from './store.ts'

const defaultTag = 'ackord'

/** A server or a cluster of Redis, with the outbox in streams or in scripts. Connects. */
export async function openRedis(url: ServiceUrl, place: StorePlace, logger: Logger): Promise<RedisStore> {
  const { schema, prefix } = place
  if (schema !== undefined || prefix !== undefined) throw usageError('--schema and --prefix are for SQL databases; this store is Redis.')
  const open = redisOutboxes(place)
  const client = await connectRedis(url)
  const redis = fromIoredis(client, { logger })
  const tag = place.tag?.[0] ?? defaultTag
  const outbox = () => open(redis, { logger: silentLogger })

  return {
    kind: 'redis',
    address: url.address,
    tag,
    async connect() {
      await client.ping()
    },
    outbox: (choices) => open(redis, choices),
    async verify() {
      const { verify } = outbox()
      if (verify === undefined) return
      try {
        await verify()
      } catch (error) {
        if (!isAckordError(error, 'ACKORD_SCHEMA')) throw error
        throw new CommandError(error.message, {
          exitCode: exitCode.refused,
          hint: 'Change the ACL of the user, or use another one.',
          cause: error,
        })
      }
    },
    transactional: ({ consumer, destination, onDuplicate }) =>
      transactional(redis, {
        // What a crash costs: short enough to be watched.
        inbox: { consumer, tag, lease: 3000, onDuplicate },
        outbox: { outbox: outbox(), destination },
      }),
    async append(records) {
      const writer = outbox()
      await redis.write((transaction) => writer.append(transaction, records))
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
