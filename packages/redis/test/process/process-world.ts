import { silentLogger } from '@ackord/core'
import type { ProcessPeer, ProcessWorld } from '@ackord/testkit/suites'
import { type Redis, redisProcesses, streamOutbox, transactional } from '../../src/index.ts'
import { openHandlingWorld, quiet } from '../support/handling-world.ts'
import type { ClientSettings, RedisKind, TestRedis } from '../support/redis-clients.ts'

/** Moves the expiry of all instances of a tag. KEYS: selects the node of a cluster. ARGV: the pattern of the keys, milliseconds. */
const advanceLua = `
for _, instance in ipairs(redis.call('KEYS', ARGV[1])) do
  local left = redis.call('PTTL', instance)
  if left >= 0 then redis.call('PEXPIRE', instance, left - ARGV[2]) end
end`

/** Processes with a stream outbox, both under a tag of their own. */
export async function openProcessWorld(kind: RedisKind, settings: ClientSettings = {}): Promise<ProcessWorld> {
  const world = await openHandlingWorld(kind, settings)
  const { tag, key, command } = world
  const others: TestRedis[] = []
  const outbox = { tags: [tag], logger: silentLogger }

  function peerOn(redis: Redis): ProcessPeer {
    return {
      store: redisProcesses(redis, { tag }),
      transactional: (consumer) =>
        transactional(redis, {
          inbox: { consumer, tag },
          transaction: quiet,
          outbox: { outbox: streamOutbox(redis, outbox), destination: 'commands' },
        }),
    }
  }

  return {
    ...peerOn(world.redis),
    async another() {
      const other = await kind.open({ ...settings, options: { ...quiet, ...settings.options } })
      others.push(other)
      return peerOn(other.redis)
    },
    records: async () => (await streamOutbox(world.redis, outbox).list({}, { limit: 1000 })).records,
    async advance(duration) {
      await command('EVAL', advanceLua, '1', key('any'), `${key('process')}:*`, String(duration))
    },
    async [Symbol.asyncDispose]() {
      for (const other of others) await other[Symbol.asyncDispose]()
      await world[Symbol.asyncDispose]()
    },
  }
}
