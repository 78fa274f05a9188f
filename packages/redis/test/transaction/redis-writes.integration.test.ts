import { isAckordError, rootContext } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { type RedisWrites, transactionMiddleware } from '../../src/index.ts'
import { type HandlingWorld, openHandlingWorld } from '../support/handling-world.ts'
import { redisKinds } from '../support/redis-clients.ts'

type Write = (writes: RedisWrites, key: (...parts: string[]) => string) => Promise<void>

/** For each method: the setup, the write, and what redis-cli reads afterwards. */
const methods: Record<string, [setup: string[][], write: Write, look: string[], found: unknown]> = {
  set: [[], (w, k) => w.set(k('a'), 'x'), ['GET', 'a'], 'x'],
  'set with options': [[['SET', 'a', 'x']], (w, k) => w.set(k('a'), 'y', { only: 'missing', expiry: 1000 }), ['GET', 'a'], 'x'],
  setnx: [[], (w, k) => w.setnx(k('a'), 1), ['GET', 'a'], '1'],
  setex: [[], (w, k) => w.setex(k('a'), 100, 'x'), ['TTL', 'a'], 100],
  psetex: [[], (w, k) => w.psetex(k('a'), 100_000, 'x'), ['TTL', 'a'], 100],
  mset: [[], (w, k) => w.mset({ [k('a')]: 1, [k('b')]: 2n }), ['GET', 'b'], '2'],
  append: [[['SET', 'a', 'x']], (w, k) => w.append(k('a'), 'y'), ['GET', 'a'], 'xy'],
  setrange: [[['SET', 'a', 'xxx']], (w, k) => w.setrange(k('a'), 1, 'y'), ['GET', 'a'], 'xyx'],
  setbit: [[], (w, k) => w.setbit(k('a'), 7, 1), ['GET', 'a'], '\x01'],
  incr: [[['SET', 'a', '5']], (w, k) => w.incr(k('a')), ['GET', 'a'], '6'],
  incrby: [[], (w, k) => w.incrby(k('a'), 9007199254740993n), ['GET', 'a'], '9007199254740993'],
  incrbyfloat: [[['SET', 'a', '1.5']], (w, k) => w.incrbyfloat(k('a'), 0.25), ['GET', 'a'], '1.75'],
  decr: [[], (w, k) => w.decr(k('a')), ['GET', 'a'], '-1'],
  decrby: [[], (w, k) => w.decrby(k('a'), 3), ['GET', 'a'], '-3'],
  hset: [[], (w, k) => w.hset(k('a'), 'f', 'x'), ['HGET', 'a', 'f'], 'x'],
  'hset of fields': [[], (w, k) => w.hset(k('a'), { f: 1, g: 'x' }), ['HGET', 'a', 'g'], 'x'],
  hsetnx: [[], (w, k) => w.hsetnx(k('a'), 'f', 'x'), ['HGET', 'a', 'f'], 'x'],
  hdel: [[['HSET', 'a', 'f', '1', 'g', '2']], (w, k) => w.hdel(k('a'), 'f', 'h'), ['HLEN', 'a'], 1],
  hincrby: [[], (w, k) => w.hincrby(k('a'), 'f', 3), ['HGET', 'a', 'f'], '3'],
  hincrbyfloat: [[], (w, k) => w.hincrbyfloat(k('a'), 'f', 0.5), ['HGET', 'a', 'f'], '0.5'],
  lpush: [[], (w, k) => w.lpush(k('a'), 'x', 'y'), ['LINDEX', 'a', '0'], 'y'],
  rpush: [[], (w, k) => w.rpush(k('a'), 'x', 'y'), ['LINDEX', 'a', '0'], 'x'],
  lpushx: [[], (w, k) => w.lpushx(k('a'), 'x'), ['LLEN', 'a'], 0],
  rpushx: [[['RPUSH', 'a', 'x']], (w, k) => w.rpushx(k('a'), 'y'), ['LLEN', 'a'], 2],
  lpop: [[['RPUSH', 'a', 'x', 'y']], (w, k) => w.lpop(k('a')), ['LINDEX', 'a', '0'], 'y'],
  rpop: [[['RPUSH', 'a', 'x', 'y']], (w, k) => w.rpop(k('a')), ['LINDEX', 'a', '-1'], 'x'],
  rpoplpush: [[['RPUSH', 'a', 'x']], (w, k) => w.rpoplpush(k('a'), k('b')), ['LINDEX', 'b', '0'], 'x'],
  lrem: [[['RPUSH', 'a', 'x', 'x']], (w, k) => w.lrem(k('a'), 1, 'x'), ['LLEN', 'a'], 1],
  lset: [[['RPUSH', 'a', 'x']], (w, k) => w.lset(k('a'), 0, 'y'), ['LINDEX', 'a', '0'], 'y'],
  ltrim: [[['RPUSH', 'a', 'x', 'y']], (w, k) => w.ltrim(k('a'), 0, 0), ['LLEN', 'a'], 1],
  linsert: [[['RPUSH', 'a', 'x']], (w, k) => w.linsert(k('a'), 'BEFORE', 'x', 'y'), ['LINDEX', 'a', '0'], 'y'],
  sadd: [[], (w, k) => w.sadd(k('a'), 'x', 'y'), ['SCARD', 'a'], 2],
  srem: [[['SADD', 'a', 'x', 'y']], (w, k) => w.srem(k('a'), 'x'), ['SCARD', 'a'], 1],
  smove: [[['SADD', 'a', 'x']], (w, k) => w.smove(k('a'), k('b'), 'x'), ['SCARD', 'b'], 1],
  spop: [[['SADD', 'a', 'x']], (w, k) => w.spop(k('a')), ['SCARD', 'a'], 0],
  sinterstore: [
    [
      ['SADD', 'a', 'x'],
      ['SADD', 'b', 'x', 'y'],
    ],
    (w, k) => w.sinterstore(k('c'), k('a'), k('b')),
    ['SCARD', 'c'],
    1,
  ],
  sunionstore: [
    [
      ['SADD', 'a', 'x'],
      ['SADD', 'b', 'y'],
    ],
    (w, k) => w.sunionstore(k('c'), k('a'), k('b')),
    ['SCARD', 'c'],
    2,
  ],
  sdiffstore: [
    [
      ['SADD', 'a', 'x', 'y'],
      ['SADD', 'b', 'y'],
    ],
    (w, k) => w.sdiffstore(k('c'), k('a'), k('b')),
    ['SCARD', 'c'],
    1,
  ],
  zadd: [[], (w, k) => w.zadd(k('a'), 1.5, 'x'), ['ZSCORE', 'a', 'x'], '1.5'],
  'zadd of members': [[], (w, k) => w.zadd(k('a'), { x: 1, y: -Infinity }), ['ZCARD', 'a'], 2],
  zincrby: [[], (w, k) => w.zincrby(k('a'), 2, 'x'), ['ZSCORE', 'a', 'x'], '2'],
  zrem: [[['ZADD', 'a', '1', 'x']], (w, k) => w.zrem(k('a'), 'x'), ['ZCARD', 'a'], 0],
  zremrangebyrank: [[['ZADD', 'a', '1', 'x', '2', 'y']], (w, k) => w.zremrangebyrank(k('a'), 0, 0), ['ZCARD', 'a'], 1],
  zremrangebyscore: [[['ZADD', 'a', '1', 'x', '2', 'y']], (w, k) => w.zremrangebyscore(k('a'), '-inf', '(2'), ['ZCARD', 'a'], 1],
  zremrangebylex: [[['ZADD', 'a', '0', 'x', '0', 'y']], (w, k) => w.zremrangebylex(k('a'), '-', '(y'), ['ZCARD', 'a'], 1],
  zpopmin: [[['ZADD', 'a', '1', 'x', '2', 'y']], (w, k) => w.zpopmin(k('a')), ['ZSCORE', 'a', 'y'], '2'],
  zpopmax: [[['ZADD', 'a', '1', 'x', '2', 'y']], (w, k) => w.zpopmax(k('a')), ['ZSCORE', 'a', 'x'], '1'],
  zunionstore: [
    [
      ['ZADD', 'a', '1', 'x'],
      ['SADD', 'b', 'x'],
    ],
    (w, k) => w.zunionstore(k('c'), k('a'), k('b')),
    ['ZSCORE', 'c', 'x'],
    '2',
  ],
  zinterstore: [
    [
      ['ZADD', 'a', '1', 'x'],
      ['SADD', 'b', 'y'],
    ],
    (w, k) => w.zinterstore(k('c'), k('a'), k('b')),
    ['ZCARD', 'c'],
    0,
  ],
  xadd: [[], (w, k) => w.xadd(k('a'), { f: 1 }, { id: '5-1' }), ['XLEN', 'a'], 1],
  xdel: [[['XADD', 'a', '5-1', 'f', '1']], (w, k) => w.xdel(k('a'), '5-1'), ['XLEN', 'a'], 0],
  xtrim: [
    [
      ['XADD', 'a', '*', 'f', '1'],
      ['XADD', 'a', '*', 'f', '1'],
    ],
    (w, k) => w.xtrim(k('a'), 1),
    ['XLEN', 'a'],
    1,
  ],
  pfadd: [[], (w, k) => w.pfadd(k('a'), 'x', 'y'), ['PFCOUNT', 'a'], 2],
  pfmerge: [[['PFADD', 'a', 'x']], (w, k) => w.pfmerge(k('b'), k('a')), ['PFCOUNT', 'b'], 1],
  geoadd: [[], (w, k) => w.geoadd(k('a'), 13.4, 52.5, 'Berlin'), ['ZCARD', 'a'], 1],
  bitop: [
    [
      ['SET', 'a', 'a'],
      ['SET', 'b', 'c'],
    ],
    (w, k) => w.bitop('AND', k('c'), k('a'), k('b')),
    ['GET', 'c'],
    'a',
  ],
  del: [
    [
      ['SET', 'a', '1'],
      ['SET', 'b', '1'],
    ],
    (w, k) => w.del(k('a'), k('b')),
    ['EXISTS', 'b'],
    0,
  ],
  unlink: [[['SET', 'a', '1']], (w, k) => w.unlink(k('a')), ['EXISTS', 'a'], 0],
  expire: [[['SET', 'a', '1']], (w, k) => w.expire(k('a'), 100), ['TTL', 'a'], 100],
  pexpire: [[['SET', 'a', '1']], (w, k) => w.pexpire(k('a'), 100_000), ['TTL', 'a'], 100],
  expireat: [[['SET', 'a', '1']], (w, k) => w.expireat(k('a'), 1), ['EXISTS', 'a'], 0],
  pexpireat: [[['SET', 'a', '1']], (w, k) => w.pexpireat(k('a'), 1), ['EXISTS', 'a'], 0],
  persist: [[['SET', 'a', '1', 'EX', '100']], (w, k) => w.persist(k('a')), ['TTL', 'a'], -1],
  rename: [[['SET', 'a', 'x']], (w, k) => w.rename(k('a'), k('b')), ['GET', 'b'], 'x'],
  renamenx: [
    [
      ['SET', 'a', 'x'],
      ['SET', 'b', 'y'],
    ],
    (w, k) => w.renamenx(k('a'), k('b')),
    ['GET', 'b'],
    'y',
  ],
  'raw, keys first': [[['SET', 'a', 'xyz']], (w, k) => w.raw('bitfield', [k('a')], 'SET', 'u8', 0, 65), ['GET', 'a'], 'Ayz'],
  'raw, keys elsewhere': [[['SET', 'a', 'a']], (w, k) => w.raw('BITOP', [k('b'), k('a')], 'AND'), ['GET', 'b'], 'a'],
  'raw, keys in turn with values': [[], (w, k) => w.raw('MSET', [k('a'), k('b')], 'x', 'y'), ['GET', 'b'], 'y'],
}

/** Runs a method on a key and reads the result as redis-cli would. */
async function tryOut(world: HandlingWorld, method: string, inTransaction: boolean): Promise<unknown> {
  const [setup, write, [name = '', last = '', ...rest]] = methods[method] as (typeof methods)[string]
  const key = (...parts: string[]) => world.key(method, String(inTransaction), ...parts)
  for (const [command = '', ...words] of setup) {
    const [first = '', ...others] = words
    await world.command(command, key(first), ...others)
  }
  if (inTransaction) await world.redis.write(async (_, context) => await write(world.redis.commands(context), key))
  else await write(world.redis.commands(rootContext()), key)
  return await world.command(name, key(last), ...rest)
}

for (const kind of redisKinds.filter(({ name }) => name === 'ioredis 6' || name.includes('node-redis'))) {
  describe(`commands() on ${kind.name}`, () => {
    it('writes the same in a transaction and without one', async () => {
      await using world = await openHandlingWorld(kind)
      for (const [method, [, , , expected]] of Object.entries(methods)) {
        for (const inTransaction of [true, false]) {
          const found = await tryOut(world, method, inTransaction)
          expect([method, inTransaction, found]).toEqual([method, inTransaction, expected])
        }
      }
      // The table covers every method.
      const tried = new Set(Object.keys(methods).map((name) => name.split(/[ ,]/)[0]))
      const all = Object.getOwnPropertyNames(Object.getPrototypeOf(world.redis.commands())).filter((name) => name !== 'constructor')
      expect(all.filter((name) => !tried.has(name))).toEqual([])
    })
  })
}

const [kind] = redisKinds

describe('commands()', () => {
  it('rejects arguments that a client would convert to arbitrary strings, in the stack of the caller', async () => {
    await using world = await openHandlingWorld(kind as NonNullable<typeof kind>)
    const { redis, key } = world
    const bad = [undefined, null, true, Number.NaN, Infinity, {}, [], ['a'], new Date(), Symbol('a'), () => {}]
    for (const context of [undefined, 'transaction'] as const) {
      const check = async (writes: RedisWrites) => {
        for (const value of bad) {
          expect(() => void writes.set(key('a'), value as never)).toThrow('must be a string')
          expect(() => void writes.hset(key('a'), 'f', value as never)).toThrow('must be a string')
          expect(() => void writes.rpush(key('a'), 'x', value as never)).toThrow('must be a string')
        }
        for (const value of [...bad, 5, 5n]) expect(() => void writes.set(value as never, 'x')).toThrow('A key of SET must be')
        for (const value of [1.5, 2 ** 53, '1', 2n ** 63n]) expect(() => void writes.incrby(key('a'), value as never)).toThrow('integer')
        expect(() => void writes.del()).toThrow('at least one key')
        expect(() => void writes.sadd(key('a'))).toThrow('nothing to write')
        expect(() => void writes.zremrangebyscore(key('a'), 'low', 'high')).toThrow('form')
        expect(() => void writes.xdel(key('a'), 'five')).toThrow('form')
        expect(() => void writes.set(key('a'), 'x', { expire: 5 } as never)).toThrow("no option 'expire'")
      }
      if (context === undefined) await check(redis.commands(rootContext()))
      else await redis.write(async (_, inside) => await check(redis.commands(inside)))
    }
    expect(await world.keys()).toEqual([])
  })

  it('accepts all bytes, as values and as keys', async () => {
    await using world = await openHandlingWorld(kind as NonNullable<typeof kind>)
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index)
    const name = Buffer.concat([Buffer.from(world.key('binary')), bytes])
    await world.redis.write(async (_, context) => {
      await world.redis.commands(context).set(name, bytes)
      await world.redis.commands(context).set(world.key('numbers'), '3.14159265358979312')
      await world.redis.commands(context).set(world.key('empty'), '')
    })
    expect(await world.command('STRLEN', name)).toBe(256)
    expect(await world.command('GETRANGE', name, '65', '67')).toBe('ABC')
    expect(await world.command('GET', world.key('numbers'))).toBe('3.14159265358979312')
    expect(await world.command('EXISTS', world.key('empty'))).toBe(1)
    await world.command('DEL', name)
  })

  it('splits commands that are too long for a script, and writes a megabyte', async () => {
    await using world = await openHandlingWorld(kind as NonNullable<typeof kind>)
    const { redis, key } = world
    const members = Array.from({ length: 20_000 }, (_, index) => `m${index}`)
    const fields = Object.fromEntries(members.map((member) => [member, 1]))
    await redis.write(async (_, context) => {
      const writes = redis.commands(context)
      await writes.sadd(key('set'), ...members)
      await writes.hset(key('hash'), fields)
      await writes.zadd(key('zset'), fields)
      await writes.set(key('large'), Buffer.alloc(1_048_576, 'x'))
      expect(() => void writes.raw('SADD', [key('set')], ...members)).toThrow('4000')
    })
    expect(await world.command('SCARD', key('set'))).toBe(20_000)
    expect(await world.command('HLEN', key('hash'))).toBe(20_000)
    expect(await world.command('ZCARD', key('zset'))).toBe(20_000)
    expect(await world.command('STRLEN', key('large'))).toBe(1_048_576)
  })

  it('asks the server about a raw command before anything is written, also if it is not awaited', async () => {
    await using world = await openHandlingWorld(kind as NonNullable<typeof kind>)
    const { redis, key } = world
    const wrong: [string, string[], string[], string][] = [
      ['NONSENSE', ['a'], [], 'does not know'],
      ['GET', ['a'], [], 'writes nothing'],
      ['LPUSH', ['a'], [], 'not what the command takes'],
      ['BLPOP', ['a'], ['0'], 'cannot be in a script'],
      ['ZUNIONSTORE', ['a', 'b'], ['1'], 'no fixed positions'],
      ['SET', ['a', 'b'], [], 'names 2 keys'],
    ]
    for (const [name, keys, args, problem] of wrong) {
      for (const awaited of [true, false]) {
        const writing = redis.write(async (_, context) => {
          const writes = redis.commands(context)
          await writes.set(key('before'), 'x')
          const raw = writes.raw(
            name,
            keys.map((part) => key(part)),
            ...args,
          )
          if (awaited) await raw
          else raw.catch(() => {})
        })
        await expect(writing, `${name}, ${awaited}`).rejects.toThrow(problem)
      }
      const direct = async () =>
        await redis.commands(rootContext()).raw(
          name,
          keys.map((part) => key(part)),
          ...args,
        )
      await expect(direct()).rejects.toThrow(problem)
    }
    expect(await world.keys()).toEqual([])
  })

  it('requires a transaction with required: true, and has it in the middleware', async () => {
    await using world = await openHandlingWorld(kind as NonNullable<typeof kind>)
    const { redis } = world
    expect(() => redis.commands(rootContext(), { required: true })).toThrow('found no transaction')
    expect(redis.transaction(rootContext())).toBeUndefined()
    expect(() => redis.withTransaction(rootContext(), {} as never)).toThrow('requires a transaction')
    await redis.write(async (transaction, context) => {
      expect(redis.transaction(context)).toBe(transaction)
      expect(redis.transaction(redis.withTransaction(rootContext(), transaction))).toBe(transaction)
      expect(redis.transaction()).toBe(transaction)
    })
    expect(() => transactionMiddleware(redis, { retry: 1 } as never)).toThrow("no option 'retry'")
    const refused = await redis.write(async () => await Promise.reject(new Error('no'))).catch((error: unknown) => error)
    expect(isAckordError(refused)).toBe(false)
  })
})
