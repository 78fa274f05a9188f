// @ts-check
import { silentLogger } from '@ackord/core'
import { fromIoredis, redisInbox, streamOutbox, transactional, transactionMiddleware } from '@ackord/redis'
import { luaOutbox } from '@ackord/redis/lua-outbox'
import { createService } from '@ackord/redis/service'
import * as suites from '@ackord/testkit/suites'
// @ts-expect-error A dependency of the project in which this runs, and not of the workspace.
import { Redis } from 'ioredis'
import { testService } from './service.mjs'

/** @param {import('./checks.mjs').Checks} checks */
export async function register(checks) {
  const name = 'Redis with ioredis'
  const quiet = { logger: silentLogger }
  const client = new Redis(process.env['REDIS_URL'] ?? '')
  const plain = client.duplicate()
  const redis = fromIoredis(client, quiet)
  let count = 0
  const nextTag = () => {
    count += 1
    return `${process.env['NAME']}-${count}`
  }

  testService(checks, name, async () => {
    const tag = nextTag()
    return {
      createService: (options) => createService({ ...options, redis, inbox: { tag }, outbox: luaOutbox(redis, { tag, order: 'perKey' }) }),
      save: (key) => redis.commands().set(redis.key(tag, key), 'saved'),
      isSaved: async (key) => (await plain.exists(redis.key(tag, key))) === 1,
      close: async () => {},
    }
  })

  /** @param {'exclusive' | 'optimistic'} mode @returns {import('@ackord/testkit/suites').OpenTransactionWorld} */
  const worlds = (mode) => async () => {
    const tag = nextTag()
    const key = (/** @type {string[]} */ ...parts) => redis.key(tag, ...parts)
    const outbox = streamOutbox(redis, { tags: [tag], claimInterval: 0 })
    // A string under a key where the commit adds to a set.
    await plain.set(key('a text'), 'text')
    return {
      transaction: () => transactionMiddleware(redis, quiet),
      transactional: (consumer) =>
        transactional(redis, { inbox: { consumer, tag, mode }, outbox: { outbox, destination: 'events' }, transaction: quiet }),
      write: async (context, entry, value) => void (await redis.commands(context).set(key('entry', entry), value)),
      failWrite: async (context) =>
        void (await redis.commands(context).set(key('entry', 'key'), /** @type {string} */ (/** @type {unknown} */ (undefined)))),
      failCommit: async (context) => void (await redis.commands(context).sadd(key('a text'), 'member')),
      read: async (entry) => (await plain.get(key('entry', entry))) ?? undefined,
      inbox: redisInbox(redis, { tag, ...quiet }),
      events: async () => (await outbox.list({}, { limit: 100 })).records.map(({ message }) => message),
      [Symbol.asyncDispose]: async () => {},
    }
  }

  suites.testTransaction(checks, { name, open: worlds('exclusive'), features: { savepoints: true, failCommit: true } })
  suites.testInbox(checks, { name, open: worlds('exclusive') })
  suites.testInbox(checks, { name: `${name}, optimistic`, open: worlds('optimistic'), duplicates: 'handled' })
  return async () => {
    client.disconnect()
    plain.disconnect()
  }
}
