import { isAckordError, type Logger, silentLogger } from '@ackord/core'
import type { OutboxAdmin, OutboxStore, OutboxWriter } from '@ackord/outbox'
import {
  checkDurability,
  fromIoredis,
  type Redis,
  type RedisTransaction,
  redisInbox,
  redisProcesses,
  streamOutbox,
  transactional,
} from '@ackord/redis'
import { luaOutbox } from '@ackord/redis/lua-outbox'
import { CommandError, exitCode, usageError } from '../output/errors.ts'
import type { ServiceUrl } from '../settings/urls.ts'
import { connectLater, connectRedis, pingRedis, removeKeys } from './redis-client.ts'
import type { OutboxChoices, RedisStore, StoreLocation } from './store.ts'

const defaultTag = 'ackord'

type Order = NonNullable<OutboxChoices['order']>

export interface RedisChoices {
  /** Whether to connect now. Otherwise the client connects as soon as the server answers. */
  readonly connect: boolean
  readonly logger: Logger
}

/** A Redis server or cluster, with a stream outbox or a Lua outbox. */
export async function openRedis(url: ServiceUrl, location: StoreLocation, { connect, logger }: RedisChoices): Promise<RedisStore> {
  const { schema, prefix } = location
  if (schema !== undefined || prefix !== undefined) throw usageError('--schema and --prefix are for SQL databases; this store is Redis.')
  const open = redisOutboxes(location)
  const client = await (connect ? connectRedis(url) : connectLater(url))
  const redis = fromIoredis(client, { logger })
  const tag = location.tag?.[0] ?? defaultTag
  const outbox = () => open(redis, { logger: silentLogger })

  async function verifyAs(order: Order): Promise<void> {
    await open(redis, { order, logger: silentLogger }).verify?.()
  }

  async function isVerified(order: Order): Promise<boolean> {
    try {
      await verifyAs(order)
      return true
    } catch {
      return false
    }
  }

  return {
    kind: 'redis',
    address: url.address,
    outboxKind: location.outbox ?? 'stream',
    user: url.user ?? 'default',
    tag,
    tags: tagsOf(location),
    async connect() {
      await pingRedis(client)
    },
    outbox: (choices) => open(redis, choices),
    processes: () => redisProcesses(redis, { tag }),
    async verify(order) {
      try {
        await verifyAs(order ?? 'none')
      } catch (error) {
        // Only the writing services know whether the outbox was created with order.
        if (order === undefined && (await isVerified('perKey'))) return
        if (!isAckordError(error, 'ACKORD_SCHEMA')) throw error
        throw new CommandError(error.message, {
          exitCode: exitCode.refused,
          hint: / has layout /.test(error.message)
            ? 'Set --order to the same value as in the writing services.'
            : 'Change the ACL of the user, or use another one.',
          cause: error,
        })
      }
    },
    inbox: (given) => redisInbox(redis, { tag, logger: given }),
    transactional: ({ consumer, destination, onDuplicate }) =>
      transactional(redis, {
        // The time that a crash costs: short enough to watch.
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

interface RedisOutbox extends OutboxStore, OutboxAdmin, OutboxWriter<RedisTransaction> {
  /** Whether the user may run everything that the scripts need; Lua outbox only. */
  verify?(): Promise<void>
}

/** A Lua outbox with several shards has a tag for each, as `luaOutbox()` names them. */
function tagsOf({ tag = [defaultTag], shards = 1 }: StoreLocation): readonly string[] {
  return Array.from({ length: shards }, (_, number) => tag.map((each) => (number === 0 ? each : `${each}:${number}`))).flat()
}

type OpenOutbox = (redis: Redis, choices: OutboxChoices) => RedisOutbox

/** Which of the two Redis outboxes to use, by the options of the command. Rejects options of the other one. */
function redisOutboxes(location: StoreLocation): OpenOutbox {
  const { outbox = 'stream', stream, tag, shards } = location
  if (outbox === 'lua') {
    if (tag !== undefined && tag.length > 1)
      throw usageError('--tag is passed more than once, and a Lua outbox has one.', 'Use --shards to divide a Lua outbox.')
    return (redis, { order, retain, listen, logger }) => {
      checkListen(listen)
      return luaOutbox(redis, { name: stream, tag: tag?.[0], shards, order, retain, logger })
    }
  }
  if (shards !== undefined)
    throw usageError('--shards is for the Lua outbox.', 'Add --outbox lua, or divide a stream outbox with several --tag options.')
  return (redis, { order = 'none', retain = false, listen, logger }) => {
    checkListen(listen)
    if (order !== 'none')
      throw usageError(`--order ${order} requires an SQL database or a Lua outbox.`, 'Add --outbox lua if the writing services use one.')
    if (retain) throw usageError('Redis Streams keep no published records: remove --keep-published.')
    return streamOutbox(redis, { stream, tags: tag, logger })
  }
}

function checkListen(listen = false): void {
  if (listen) throw usageError('--listen is for PostgreSQL: with Redis, relays are notified of new records anyway.')
}
