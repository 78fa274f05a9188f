import { silentLogger } from '@ackord/core'
import { trackedMessage } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type QueuedCommand, type RedisTransaction, streamOutbox, transactional } from '../../src/index.ts'
import { luaOutbox } from '../../src/outbox/lua/index.ts'
import { deliver, errorOf, placed } from '../support/deliver.ts'
import { type HandlingWorld, openHandlingWorld, quiet } from '../support/handling-world.ts'
import { redisKinds } from '../support/redis-clients.ts'

const single = redisKinds.filter(({ cluster }) => !cluster)

/** From this number on, Lua's `unpack` fails in the middle of a script. */
const tooManyForLua = 8_500

/** All keys that a transaction wrote, except the record of its commit. */
async function written({ keys }: HandlingWorld): Promise<string[]> {
  return (await keys()).filter((found) => !found.startsWith('ackord-tx:'))
}

function numbered(count: number, prefix = ''): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`)
}

for (const kind of single) {
  describe(`commands with thousands of arguments, ${kind.name}`, () => {
    it('stores the events for 8,500 destinations in the stream outbox', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key, tag, command } = world
      const outbox = streamOutbox(redis, { tags: [tag], logger: silentLogger })
      const use = [
        transactional(redis, {
          inbox: world.inbox(),
          outbox: { outbox, destination: (message) => `to-${message.data}` },
          transaction: quiet,
        }),
      ]
      const order = trackedMessage('m1')
      const handle = async () => {
        await redis.commands().incr(key('count'))
        return numbered(tooManyForLua).map((data) => placed(data))
      }
      await deliver({ use, handle }, order)
      expect(order.verdicts).toEqual(['ack'])
      expect(await command('GET', key('count'))).toBe('1')
      expect(await command('SCARD', key('outbox', 'destinations'))).toBe(tooManyForLua)
      expect(await world.keys('outbox:to:')).toHaveLength(tooManyForLua)
    }, 60_000)

    it('refuses an event with 4,100 fields before anything is written', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key, tag } = world
      const outbox = streamOutbox(redis, {
        tags: [tag],
        logger: silentLogger,
        marshal: () => Object.fromEntries(numbered(4_100, 'field-').map((name) => [name, 'x'])),
        unmarshal: () => {
          throw new Error('nothing is read')
        },
      })
      const use = [transactional(redis, { inbox: world.inbox(), outbox: { outbox, destination: 'events' }, transaction: quiet })]
      const order = trackedMessage('m1')
      const handle = async () => {
        await redis.commands().incr(key('count'))
        return [placed('x')]
      }
      await deliver({ use, handle }, order)
      expect(order.verdicts).toEqual(['reject'])
      expect(errorOf(order)).toMatchObject({ code: 'ACKORD_COMMAND_TOO_LONG', retryable: false })
      expect(await written(world)).toEqual([])
    })

    it('stores 2,000 records of one message in the Lua outbox', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, tag, command, key } = world
      const outbox = luaOutbox(redis, { tag, logger: silentLogger })
      const use = [transactional(redis, { inbox: world.inbox(), outbox: { outbox, destination: 'events' }, transaction: quiet })]
      const order = trackedMessage('m1')
      await deliver({ use, handle: async () => numbered(2_000).map((data) => placed(data)) }, order)
      expect(order.verdicts).toEqual(['ack'])
      expect(await command('HLEN', key('lua-outbox', 'entries'))).toBe(2_000)
    })

    type Splittable = [name: string, command: (key: string) => QueuedCommand, look: (key: string) => string[], found: number]
    const values = numbered(9_000)
    const first = [0]
    const splittable: Splittable[] = [
      ['RPUSH', (key) => ({ name: 'RPUSH', args: [key, ...values], keys: first, kind: 'list' }), (key) => ['LLEN', key], 9_000],
      ['sadd in lower case', (key) => ({ name: 'sadd', args: [key, ...values], keys: first, kind: 'set' }), (key) => ['SCARD', key], 9_000],
      ['HSET', (key) => ({ name: 'HSET', args: [key, ...values], keys: first, kind: 'hash' }), (key) => ['HLEN', key], 4_500],
      ['ZADD', (key) => ({ name: 'ZADD', args: [key, ...values], keys: first, kind: 'zset' }), (key) => ['ZCARD', key], 4_500],
      ['PFADD', (key) => ({ name: 'PFADD', args: [key, ...values], keys: first, kind: 'string' }), (key) => ['EXISTS', key], 1],
    ]
    it.each(splittable)('splits %s with 9,000 values given to queue()', async (_, commandOn, look, found) => {
      await using world = await openHandlingWorld(kind)
      const { redis, key, command } = world
      await redis.write(async (transaction) => transaction.queue(commandOn(key('a'))), quiet)
      expect(await command(...look(key('a')))).toBe(found)
    })

    it('splits DEL of 9,000 keys, in the order of the other commands', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key, command } = world
      await command('MSET', ...values.flatMap((value) => [key('k', value), 'x']))
      const args = values.map((value) => key('k', value))
      await redis.write(async (transaction) => {
        transaction.queue({ name: 'DEL', args, keys: args.map((_, index) => index), kind: 'any' })
        transaction.queue({ name: 'SET', args: [key('k', '8999'), 'y'], keys: first, kind: 'any' })
      }, quiet)
      expect(await written(world)).toEqual(['k:8999'])
    })

    type Refused = [name: string, command: (key: string) => QueuedCommand]
    const refused: Refused[] = [
      ['XADD', (key) => ({ name: 'XADD', args: [key, '*', ...values], keys: first, kind: 'stream' })],
      ['ZADD with an option', (key) => ({ name: 'ZADD', args: [key, 'NX', ...values], keys: first, kind: 'zset' })],
      ['an unknown command', (key) => ({ name: 'FOO.ADD', args: [key, ...values], keys: first, kind: 'any' })],
    ]
    it.each(refused)('refuses %s with 9,000 values in queue(), and the rest can still be committed', async (_, commandOn) => {
      await using world = await openHandlingWorld(kind)
      const { redis, key, command } = world
      const queue = (transaction: RedisTransaction) => transaction.queue(commandOn(key('a')))
      await redis.write(async (transaction) => {
        expect(() => queue(transaction)).toThrow(expect.objectContaining({ code: 'ACKORD_COMMAND_TOO_LONG', retryable: false }))
        await redis.commands().set(key('b'), 'x')
      }, quiet)
      expect(await written(world)).toEqual(['b'])
      expect(await command('GET', key('b'))).toBe('x')
    })

    it('undoes 8,500 entries of a stream when a later command fails', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key, command } = world
      await command('XADD', key('log'), '1-1', 'f', 'x')
      await command('SET', key('text'), 'x')
      const writing = redis.write(
        async (transaction) => {
          for (const value of numbered(tooManyForLua)) await redis.commands().xadd(key('log'), { value })
          // The type is right when the commit checks it, and wrong when the command runs.
          await redis.commands().del(key('text'))
          transaction.queue({ name: 'RPUSH', args: [key('text'), 'x'], keys: [0], kind: 'any' })
          transaction.queue({ name: 'INCR', args: [key('text')], keys: [0], kind: 'any' })
        },
        { ...quiet, rollback: true },
      )
      await expect(writing).rejects.toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
      expect(await command('XLEN', key('log'))).toBe(1)
      expect(await command('GET', key('text'))).toBe('x')
    })

    it('refuses a transaction with more arguments than a Redis server accepts in one call', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key } = world
      const args = [key('a'), ...numbered(6_000)]
      const writing = redis.write(async (transaction) => {
        for (let count = 0; count < 170; count += 1) transaction.queue({ name: 'SADD', args, keys: first, kind: 'set' })
      }, quiet)
      await expect(writing).rejects.toMatchObject({ code: 'ACKORD_COMMAND_TOO_LONG', retryable: false })
      expect(await written(world)).toEqual([])
    })

    it('commits a hash of 130,000 fields', async () => {
      await using world = await openHandlingWorld(kind)
      const { redis, key, command } = world
      const fields = Object.fromEntries(numbered(130_000, 'f').map((name) => [name, 'x']))
      await redis.write(async () => await redis.commands().hset(key('a'), fields), quiet)
      expect(await command('HLEN', key('a'))).toBe(130_000)
    }, 30_000)
  })
}
