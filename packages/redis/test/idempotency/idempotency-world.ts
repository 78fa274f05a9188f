import { silentLogger } from '@ackord/core'
import type { IdempotencyStore } from '@ackord/outbox'
import type { IdempotencyProcess, IdempotencyWorld, IdempotentWork } from '@ackord/testkit/suites'
import { type Redis, type RedisIdempotencyOptions, type RedisTransaction, redisIdempotency, streamOutbox } from '../../src/index.ts'
import { type HandlingWorld, openHandlingWorld, quiet } from '../support/handling-world.ts'
import type { ClientSettings, RedisKind, TestRedis } from '../support/redis-clients.ts'

/** Moves the expiry of all entries of a tag. KEYS: selects the node of a cluster. ARGV: the pattern of the entries, milliseconds. */
const advanceLua = `
for _, entry in ipairs(redis.call('KEYS', ARGV[1])) do
  redis.call('PEXPIRE', entry, redis.call('PTTL', entry) - ARGV[2])
end`

export interface RedisIdempotencyWorld extends IdempotencyWorld, Pick<HandlingWorld, 'redis' | 'tag' | 'key' | 'keys' | 'command'> {
  readonly store: IdempotencyStore<RedisTransaction>
  /** With a client of its own; by default with the settings of the world's. */
  another(settings?: ClientSettings): Promise<RedisProcess>
}

export interface RedisProcess extends IdempotencyProcess {
  readonly store: IdempotencyStore<RedisTransaction>
}

/** A store with a stream outbox, both under a tag of their own. */
export async function openIdempotencyWorld(
  kind: RedisKind,
  settings: ClientSettings = {},
  options: RedisIdempotencyOptions = {},
): Promise<RedisIdempotencyWorld> {
  const world = await openHandlingWorld(kind, settings)
  const { tag, key, command } = world
  const others: TestRedis[] = []
  const orderKey = (name: string) => key('order', name)
  const outboxOn = (redis: Redis) => streamOutbox(redis, { tags: [tag], logger: silentLogger })

  function processOn(redis: Redis): RedisProcess {
    const outbox = outboxOn(redis)
    return {
      store: redisIdempotency(redis, { tag, ...options }),
      put: ({ context }, name, value) => redis.commands(context, { required: true }).set(orderKey(name), value),
      // The transaction that the store passes to the work.
      append: ({ transaction }: IdempotentWork, events) => outbox.append(transaction as RedisTransaction, events),
    }
  }

  return {
    ...world,
    ...processOn(world.redis),
    async another(own = settings) {
      const other = await kind.open({ ...own, options: { ...quiet, ...own.options } })
      others.push(other)
      return processOn(other.redis)
    },
    async read(name) {
      return ((await command('GET', orderKey(name))) as string | null) ?? undefined
    },
    async events() {
      const { records } = await outboxOn(world.redis).list({}, { limit: 1000 })
      return records.map(({ message }) => message)
    },
    async advance(duration) {
      await command('EVAL', advanceLua, '1', key('any'), `${key('idempotency')}:*`, String(duration))
    },
    async [Symbol.asyncDispose]() {
      for (const other of others) await other[Symbol.asyncDispose]()
      await world[Symbol.asyncDispose]()
    },
  }
}
