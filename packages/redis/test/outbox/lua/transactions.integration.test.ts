import { silentLogger } from '@ackord/core'
import { type OpenTransactionWorld, ResultTable, testInbox, testTransaction } from '@ackord/testkit/suites'
import { afterAll, describe, expect, it } from 'vitest'
import { isProof } from '../../../../../scripts/test-depth.mjs'
import { redisKey } from '../../../src/client/keys.ts'
import { type TransactionalOptions, transactional, transactionMiddleware } from '../../../src/index.ts'
import { luaOutbox } from '../../../src/outbox/lua/index.ts'
import { LuaShard } from '../../../src/outbox/lua/layout.ts'
import { openHandlingWorld, quiet, write } from '../../support/handling-world.ts'
import { type RedisKind, redisKinds, typicalKinds } from '../../support/redis-clients.ts'
import { brokenInvariants } from './invariants.ts'
import { hour, idsOf, LuaWorld, lease, record } from './lua-world.ts'

const results = new ResultTable()
afterAll(() => console.log(results.format()))

function transactionWorld(kind: RedisKind, transaction: TransactionalOptions['transaction'] = quiet): OpenTransactionWorld {
  return async () => {
    const world = await openHandlingWorld(kind)
    const { redis, command } = world
    const outbox = luaOutbox(redis, { tag: world.tag, logger: silentLogger })
    // A string under a key where the commit adds to a set.
    await command('SET', world.key('a text'), 'text')
    return {
      transaction: () => transactionMiddleware(redis, transaction),
      transactional: (consumer) =>
        transactional(redis, { inbox: world.inbox({ consumer }), outbox: { outbox, destination: 'events' }, transaction }),
      write: (context, key, value) => write(redis, context, world.key('entry', key), value),
      failWrite: (context) => write(redis, context, world.key('entry', 'key'), undefined as never),
      async failCommit(context) {
        await redis.commands(context).sadd(world.key('a text'), 'member')
      },
      async read(key) {
        return ((await command('GET', world.key('entry', key))) as string | null) ?? undefined
      },
      async events() {
        return (await outbox.list({}, { limit: 1000 })).records.map(({ message }) => message)
      },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}

for (const kind of isProof ? redisKinds : typicalKinds) {
  const runner = { describe, it }
  const features = { savepoints: true, failCommit: true }
  testTransaction(runner, { name: `LuaOutbox, ${kind.name}`, open: transactionWorld(kind), features, results })
  testInbox(runner, { name: `LuaOutbox, ${kind.name}`, open: transactionWorld(kind), results })
}
const [first] = redisKinds
if (first !== undefined) {
  const undo = { ...quiet, rollback: true }
  const name = `LuaOutbox, ${first.name}, with rollback`
  testTransaction(
    { describe, it },
    { name, open: transactionWorld(first, undo), features: { savepoints: true, failCommit: true }, results },
  )
}

describe('in one commit with business writes', () => {
  it.each([true, false])('a failed command leaves no event, with rollback: %s', async (rollback) => {
    await using world = await LuaWorld.open()
    const counter = redisKey(world.tag, 'counter')
    const order = redisKey(world.tag, 'order')
    await world.command('SET', counter, '9223372036854775807')
    const commit = world.redis.write(
      async (transaction) => {
        transaction.queue({ name: 'SET', args: [order, '1'], keys: [0], kind: 'string' })
        transaction.queue({ name: 'INCR', args: [counter], keys: [0], kind: 'any' })
        await world.store.append(transaction, [record('e1')])
      },
      { rollback },
    )
    await expect(commit).rejects.toThrow('increment or decrement would overflow')
    expect(await world.command('GET', order)).toBe(rollback ? null : '1')
    expect((await world.store.list({}, { limit: 10 })).records).toEqual([])
    expect(await brokenInvariants(world)).toEqual([])
    await world.command('DEL', counter, order)
  })

  it('transactions that share a call store their own events, and a refused one does not affect the others', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('taken', { data: Buffer.from('other') })])
    const ids = Array.from({ length: 30 }, (_, index) => (index % 10 === 5 ? 'taken' : `e${index}`))
    const commits = await Promise.allSettled(
      ids.map((id) =>
        world.redis.write(async (transaction) => world.store.append(transaction, [record(id, { delay: id === 'e7' ? hour : 0 })])),
      ),
    )
    expect(commits.map(({ status }) => status)).toEqual(ids.map((id) => (id === 'taken' ? 'rejected' : 'fulfilled')))
    expect(await brokenInvariants(world)).toEqual([])
    const expected = ['taken', ...ids.filter((id) => id !== 'taken' && id !== 'e7')]
    expect(idsOf(await world.store.claim({ limit: 100, lease }))).toEqual(expected)
  })

  it('events are stored in the slot of the other keys, whatever their ordering key', async () => {
    await using world = await LuaWorld.open({ outbox: { shards: 4 } })
    for (const shard of world.shards) {
      const key = redisKey(shard.tag, 'order')
      await world.redis.write(async (transaction) => {
        transaction.queue({ name: 'SET', args: [key, '1'], keys: [0], kind: 'string' })
        await world.store.append(transaction, [record(`in ${shard.number}`), record(`also in ${shard.number}`)])
      })
      expect(await world.command('HLEN', world.key('state', new LuaShard(shard.number, shard.tag, 'lua-outbox')))).toBe(2)
      await world.command('DEL', key)
    }
    expect(await world.store.claim({ limit: 100, lease })).toHaveLength(8)
    expect(world.store.tagOf('a')).toBe(world.store.tagOf('a'))
    expect(world.shards.map(({ tag }) => tag)).toContain(world.store.tagOf('a'))
  })
})
