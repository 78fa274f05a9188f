import { silentLogger } from '@ackord/core'
import { type OpenTransactionWorld, ResultTable, testInbox, testInboxAdmin, testTransaction } from '@ackord/testkit/suites'
import { afterAll, describe, it } from 'vitest'
import { isProof } from '../../../scripts/test-depth.mjs'
import { type InboxOptions, redisInbox, transactional, transactionMiddleware } from '../src/index.ts'
import { openHandlingWorld, quiet, write } from './support/handling-world.ts'
import { type RedisKind, redisKinds, typicalKinds } from './support/redis-clients.ts'

const results = new ResultTable()

afterAll(() => console.log(results.format()))

function transactionWorld(kind: RedisKind, mode: InboxOptions['mode']): OpenTransactionWorld {
  return async () => {
    const world = await openHandlingWorld(kind)
    const { redis, outbox, command } = world
    // A string under a key where the commit adds to a set.
    await command('SET', world.key('a text'), 'text')
    return {
      transaction: () => transactionMiddleware(redis, quiet),
      transactional: (consumer) =>
        transactional(redis, {
          inbox: world.inbox({ consumer, mode }),
          outbox: { outbox, destination: 'events' },
          transaction: quiet,
        }),
      write: (context, key, value) => write(redis, context, world.key('entry', key), value),
      failWrite: (context) => write(redis, context, world.key('entry', 'key'), undefined as never),
      async failCommit(context) {
        await redis.commands(context).sadd(world.key('a text'), 'member')
      },
      async read(key) {
        return ((await command('GET', world.key('entry', key))) as string | null) ?? undefined
      },
      inbox: redisInbox(redis, { tag: world.tag, logger: silentLogger }),
      events: () => world.events(),
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}

for (const kind of isProof ? redisKinds : typicalKinds) {
  const runner = { describe, it }
  // A transaction queues its commands in a list; a nested transaction is a section of the list that can be dropped.
  const features = { savepoints: true, failCommit: true }
  testTransaction(runner, { name: kind.name, open: transactionWorld(kind, 'exclusive'), features, results })
  testInbox(runner, { name: `${kind.name}, exclusive`, open: transactionWorld(kind, 'exclusive'), results })
  testInboxAdmin(runner, { name: kind.name, open: transactionWorld(kind, 'exclusive'), searches: false, results })
  testInbox(runner, { name: `${kind.name}, optimistic`, open: transactionWorld(kind, 'optimistic'), duplicates: 'handled', results })
}
