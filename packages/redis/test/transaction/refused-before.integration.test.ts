import { describe, expect, it } from 'vitest'
import type { RedisWrites } from '../../src/index.ts'
import { type HandlingWorld, openHandlingWorld, quiet } from '../support/handling-world.ts'
import { type RedisKind, redisKinds } from '../support/redis-clients.ts'

const [ioredis6] = redisKinds as readonly [RedisKind]

type Key = (...parts: string[]) => string
type Case = [name: string, setup: string[][], write: (writes: RedisWrites, key: Key) => Promise<void> | Promise<void>[]]

const largest = '9223372036854775807'
const smallest = '-9223372036854775808'

/** Writes that Redis would refuse in the middle of a transaction, because of the value of the key. */
const byValue: Case[] = [
  ['ZUNIONSTORE of a text', [['SET', 'b', 'x']], (w, k) => w.zunionstore(k('c'), k('a'), k('b'))],
  ['ZINTERSTORE of a hash', [['HSET', 'b', 'f', 'x']], (w, k) => w.zinterstore(k('c'), k('b'))],
  ['ZUNIONSTORE of a hash into its own key', [['HSET', 'c', 'f', 'x']], (w, k) => w.zunionstore(k('c'), k('a'), k('c'))],
  ['SADD to a key that is made a hash before', [], (w, k) => [w.hset(k('a'), 'f', 'x'), w.expire(k('a'), 100), w.sadd(k('a'), 'm')]],
  ['SADD to a hash that is given an expiry before', [['HSET', 'a', 'f', 'x']], (w, k) => [w.expire(k('a'), 100), w.sadd(k('a'), 'm')]],
  [
    'INCR of a text that is given an expiry before',
    [['SET', 'a', 'x']],
    (w, k) => [w.pexpireat(k('a'), 4_102_444_800_000), w.incr(k('a'))],
  ],
  ['SUNIONSTORE of a sorted set', [['ZADD', 'b', '1', 'y']], (w, k) => w.sunionstore(k('c'), k('b'))],
  ['BITOP of a hash', [['HSET', 'b', 'f', 'x']], (w, k) => w.bitop('OR', k('c'), k('a'), k('b'))],
  ['PFADD to a text', [['SET', 'a', 'x']], (w, k) => w.pfadd(k('a'), 'x')],
  ['PFADD to a text that looks like one', [['SET', 'a', 'HYLL\0aaaaaaaaaaaa']], (w, k) => w.pfadd(k('a'), 'x')],
  ['PFMERGE of a text', [['SET', 'b', 'x']], (w, k) => w.pfmerge(k('a'), k('b'))],
  ['INCR over 64 bits', [['SET', 'a', largest]], (w, k) => w.incr(k('a'))],
  ['DECR over 64 bits', [['SET', 'a', smallest]], (w, k) => w.decr(k('a'))],
  ['INCRBY over 64 bits', [['SET', 'a', '1']], (w, k) => w.incrby(k('a'), 9223372036854775807n)],
  ['DECRBY over 64 bits', [['SET', 'a', '-2']], (w, k) => w.decrby(k('a'), 9223372036854775807n)],
  ['INCR twice over 64 bits', [['SET', 'a', '9223372036854775806']], (w, k) => [w.incr(k('a')), w.incr(k('a'))]],
  ['INCR of a number of more than 64 bits', [['SET', 'a', '9223372036854775808']], (w, k) => w.decr(k('a'))],
  ['INCRBYFLOAT of a text with a blank', [['SET', 'a', ' 5']], (w, k) => w.incrbyfloat(k('a'), 1)],
  ['INCRBYFLOAT of nan', [['SET', 'a', 'nan']], (w, k) => w.incrbyfloat(k('a'), 1)],
  ['INCRBYFLOAT of inf', [['SET', 'a', 'inf']], (w, k) => w.incrbyfloat(k('a'), 1)],
  ['HINCRBY of a text', [['HSET', 'a', 'f', 'x']], (w, k) => w.hincrby(k('a'), 'f', 1)],
  ['HINCRBY over 64 bits', [['HSET', 'a', 'f', largest]], (w, k) => [w.hincrby(k('a'), 'g', 1), w.hincrby(k('a'), 'f', 1)]],
  ['HINCRBYFLOAT of a text', [['HSET', 'a', 'f', ' 5']], (w, k) => w.hincrbyfloat(k('a'), 'f', 0.5)],
  ['LSET out of range', [['RPUSH', 'a', 'x']], (w, k) => w.lset(k('a'), 5, 'y')],
]

/** Writes that every server refuses, whatever the key holds. */
const byArgument: Case[] = [
  ['SETBIT at 2^40', [], (w, k) => w.setbit(k('a'), 2 ** 40, 1)],
  ['SETRANGE at 2^40', [], (w, k) => w.setrange(k('a'), 2 ** 40, 'x')],
  ['PEXPIRE of 2^63-1', [['SET', 'a', 'x']], (w, k) => w.pexpire(k('a'), 9223372036854775807n)],
  ['EXPIRE of 2^62', [['SET', 'a', 'x']], (w, k) => w.expire(k('a'), 2n ** 62n)],
  ['EXPIREAT of 2^62', [['SET', 'a', 'x']], (w, k) => w.expireat(k('a'), 2n ** 62n)],
  ['PSETEX of 2^63-1', [], (w, k) => w.psetex(k('a'), 9223372036854775807n, 'x')],
  ['SETEX of 2^62', [], (w, k) => w.setex(k('a'), 2n ** 62n, 'x')],
  ['XADD with the id 0-0', [], (w, k) => w.xadd(k('a'), { f: 1 }, { id: '0-0' })],
  ['XADD with the id 0', [], (w, k) => w.xadd(k('a'), { f: 1 }, { id: '0' })],
  ['XADD with an id of 2^64', [], (w, k) => w.xadd(k('a'), { f: 1 }, { id: '18446744073709551616-0' })],
  ['XADD with a sequence of 2^64', [], (w, k) => w.xadd(k('a'), { f: 1 }, { id: '1-18446744073709551616' })],
  ['XDEL of an id of 2^64', [['XADD', 'a', '1-1', 'f', '1']], (w, k) => w.xdel(k('a'), '18446744073709551616')],
  ['DECRBY of -2^63', [], (w, k) => w.decrby(k('a'), -9223372036854775808n)],
]

/** Similar writes that are valid. */
const allowed: [...Case, look: string[], found: unknown][] = [
  ['INCR up to 64 bits', [['SET', 'a', '9223372036854775806']], (w, k) => w.incr(k('a')), ['GET', 'a'], largest],
  ['DECR down to 64 bits', [['SET', 'a', '-9223372036854775807']], (w, k) => w.decr(k('a')), ['GET', 'a'], smallest],
  [
    'INCRBY and DECRBY around the limit',
    [['SET', 'a', largest]],
    (w, k) => [w.decrby(k('a'), 9223372036854775807n), w.incrby(k('a'), -1), w.decrby(k('a'), 9223372036854775807n)],
    ['GET', 'a'],
    smallest,
  ],
  ['INCR after SET', [['SET', 'a', 'x']], (w, k) => [w.set(k('a'), 5), w.incr(k('a'))], ['GET', 'a'], '6'],
  ['INCRBYFLOAT of an exponent', [['SET', 'a', '3.0e3']], (w, k) => w.incrbyfloat(k('a'), 200), ['GET', 'a'], '3200'],
  ['HINCRBY of two fields', [], (w, k) => [w.hincrby(k('a'), 'f', 1), w.hincrby(k('a'), 'g', -1)], ['HGET', 'a', 'g'], '-1'],
  ['HINCRBYFLOAT', [['HSET', 'a', 'f', '1.5']], (w, k) => w.hincrbyfloat(k('a'), 'f', 0.5), ['HGET', 'a', 'f'], '2'],
  ['PFADD twice', [['PFADD', 'a', 'x']], (w, k) => [w.pfadd(k('a'), 'y'), w.pfadd(k('a'), 'z')], ['PFCOUNT', 'a'], 3],
  [
    'ZUNIONSTORE of a set and a sorted set, over a text',
    [
      ['SADD', 'a', 'x'],
      ['ZADD', 'b', '1', 'y'],
      ['SET', 'c', 'text'],
    ],
    (w, k) => w.zunionstore(k('c'), k('a'), k('b'), k('none')),
    ['ZCARD', 'c'],
    2,
  ],
  ['SADD after HSET and DEL', [], (w, k) => [w.hset(k('a'), 'f', 'x'), w.del(k('a')), w.sadd(k('a'), 'm')], ['SCARD', 'a'], 1],
  ['APPEND after HSET and SET', [], (w, k) => [w.hset(k('a'), 'f', 'x'), w.set(k('a'), 'x'), w.append(k('a'), 'y')], ['GET', 'a'], 'xy'],
  [
    'RPUSH after HSET and RENAME',
    [],
    (w, k) => [w.hset(k('a'), 'f', 'x'), w.rename(k('a'), k('b')), w.rpush(k('a'), 'y')],
    ['LLEN', 'a'],
    1,
  ],
  [
    'SADD after HSET and an expiry that has passed',
    [],
    (w, k) => [w.hset(k('a'), 'f', 'x'), w.expire(k('a'), 0), w.sadd(k('a'), 'm')],
    ['SCARD', 'a'],
    1,
  ],
  [
    'SUNIONSTORE over a hash',
    [
      ['HSET', 'a', 'f', 'x'],
      ['SADD', 'b', 'm'],
    ],
    (w, k) => w.sunionstore(k('a'), k('b')),
    ['SCARD', 'a'],
    1,
  ],
  [
    'BITOP over a hash',
    [
      ['HSET', 'a', 'f', 'x'],
      ['SET', 'b', 'x'],
    ],
    (w, k) => w.bitop('OR', k('a'), k('b')),
    ['GET', 'a'],
    'x',
  ],
  ['LSET', [['RPUSH', 'a', 'x']], (w, k) => w.lset(k('a'), -1, 'y'), ['LINDEX', 'a', '0'], 'y'],
  ['XADD with the largest id', [], (w, k) => w.xadd(k('a'), { f: 1 }, { id: '18446744073709551615-1' }), ['XLEN', 'a'], 1],
  ['SETRANGE', [], (w, k) => w.setrange(k('a'), 1000, 'x'), ['STRLEN', 'a'], 1001],
  ['PEXPIRE of a hundred years', [['SET', 'a', 'x']], (w, k) => w.pexpire(k('a'), 3_155_760_000_000), ['EXISTS', 'a'], 1],
]

async function setUp({ command, key }: HandlingWorld, setup: string[][]): Promise<void> {
  for (const [name = '', first = '', ...others] of setup) await command(name, key(first), ...others)
}

async function commit({ redis, key }: HandlingWorld, write: Case[2]): Promise<void> {
  await redis.write(async () => {
    await redis.commands().set(key('first'), 'x')
    await Promise.all([write(redis.commands(), key)].flat())
    await redis.commands().set(key('last'), 'x')
  }, quiet)
}

async function textOf(world: HandlingWorld, name: string): Promise<unknown> {
  return await world.command('GET', world.key(name))
}

describe('writes that Redis would refuse in the middle of a commit', () => {
  it.each(byValue)('%s is refused before the first write', async (_, setup, write) => {
    await using world = await openHandlingWorld(ioredis6)
    await setUp(world, setup)
    await expect(commit(world, write)).rejects.toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
    expect([await textOf(world, 'first'), await textOf(world, 'last')]).toEqual([null, null])
  })

  it.each(byArgument)('%s is refused when it is queued', async (_, setup, write) => {
    await using world = await openHandlingWorld(ioredis6)
    await setUp(world, setup)
    await expect(commit(world, write)).rejects.toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    expect([await textOf(world, 'first'), await textOf(world, 'last')]).toEqual([null, null])
  })

  it.each(allowed)('%s is possible', async (_, setup, write, [name = '', on = '', ...others], found) => {
    await using world = await openHandlingWorld(ioredis6)
    await setUp(world, setup)
    await commit(world, write)
    expect(await world.command(name, world.key(on), ...others)).toEqual(found)
    expect(await textOf(world, 'last')).toBe('x')
  })

  it('is not searched in a value that an earlier command of the transaction replaces, also if a message of the same call has written to the key', async () => {
    await using world = await openHandlingWorld(ioredis6)
    const { redis, key, command } = world
    await command('HSET', key('hash'), 'count', 'none yet')
    const add = async (index: number) =>
      await redis.write(async () => {
        const writes = redis.commands()
        await writes.rpush(key('list'), 'x')
        await writes.lset(key('list'), index, index)
        await writes.hset(key('hash'), 'count', 0)
        await writes.hincrby(key('hash'), 'count', index)
      }, quiet)
    await Promise.all([0, 1, 2].map(add))
    expect(await command('LRANGE', key('list'), '0', '-1')).toEqual(['0', '1', '2'])
    expect(await command('HGET', key('hash'), 'count')).toBe('2')
  })
})
