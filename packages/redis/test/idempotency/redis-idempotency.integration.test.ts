import { Message, rootContext } from '@ackord/core'
import type { IdempotencyKey, StoredAnswer } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { inboxMiddleware, redisIdempotency } from '../../src/index.ts'
import { luaOutbox } from '../../src/outbox/lua/index.ts'
import { quiet } from '../support/handling-world.ts'
import { type RedisKind, redisKinds, typicalKinds } from '../support/redis-clients.ts'
import { recordRedis } from '../support/redis-recording.ts'
import { openIdempotencyWorld, type RedisIdempotencyWorld } from './idempotency-world.ts'

const [ioredis6] = redisKinds as readonly [RedisKind]
const key: IdempotencyKey = { scope: 'POST /orders', key: 'k1' }
const created: StoredAnswer = { status: 201, headers: [['location', '/orders/1']], body: new Uint8Array([0, 10, 13, 255]) }
const retention = 3_600_000
const day = 86_400_000

function claim({ store }: Pick<RedisIdempotencyWorld, 'store'>, fingerprint = 'f1') {
  return store.claim(key, { fingerprint, lease: 60_000 })
}

async function claimed(world: Pick<RedisIdempotencyWorld, 'store'>): Promise<string> {
  const found = await claim(world)
  if (found.state !== 'claimed') throw new Error(`The key is ${found.state}.`)
  return found.token
}

/** Writes an order and answers that it was created. */
function write({ store, redis, key: keyOf }: Pick<RedisIdempotencyWorld, 'store' | 'redis' | 'key'>, token: string): Promise<StoredAnswer> {
  const work = async () => {
    await redis.commands().rpush(keyOf('orders'), '1')
    return created
  }
  return store.write(key, token, work, { retention })
}

/** The entries of the store, as full keys. */
async function entriesOf(world: RedisIdempotencyWorld): Promise<string[]> {
  return (await world.keys('idempotency')).map((name) => `{${world.tag}}:${name}`)
}

describe.each(typicalKinds)('redisIdempotency() on $name', (kind) => {
  it('refuses a write to a key in another slot than the entry, and nothing is written', async () => {
    await using world = await openIdempotencyWorld(kind)
    const { redis, store, command } = world
    const token = await claimed(world)
    const elsewhere = redis.key(`${world.tag} elsewhere`, 'orders')
    const work = async () => {
      await redis.commands().rpush(world.key('orders'), '1')
      await redis.commands().rpush(elsewhere, '1')
      return created
    }
    const writing = store.write(key, token, work, { retention })
    await expect(writing).rejects.toMatchObject({
      code: 'ACKORD_CROSS_SLOT',
      message: expect.stringMatching(/redisIdempotency\(\) have the option tag/),
    })
    expect(await command('EXISTS', elsewhere)).toBe(0)
    expect(await world.keys('orders')).toEqual([])
    expect(await claim(world)).toMatchObject({ state: 'running' })
  })

  it('derives the tag from the key of the request, so that requests of several slots have their own entries', async () => {
    await using world = await openIdempotencyWorld(kind)
    const { redis, tag, command } = world
    const tagOf = ({ scope }: IdempotencyKey) => `${tag} ${scope}`
    const store = redisIdempotency(redis, { tag: tagOf })
    for (const scope of ['tenant 1', 'tenant 2']) {
      const own = { scope, key: 'k1' }
      const orders = redis.key(tagOf(own), 'orders')
      const found = await store.claim(own, { fingerprint: 'f1', lease: 60_000 })
      if (found.state !== 'claimed') throw new Error(`The key is ${found.state}.`)
      const work = async () => {
        await redis.commands().set(orders, scope, { expiry: 60_000 })
        return created
      }
      await store.write(own, found.token, work, { retention: 60_000 })
      expect(await command('GET', orders)).toBe(scope)
      expect(await store.claim(own, { fingerprint: 'f1', lease: 60_000 })).toEqual({ state: 'answered', answer: created })
      await command('DEL', orders)
    }
  })

  it('has one key per request, which expires a day after the lease of a claim, and at the end of the retention of an answer', async () => {
    await using world = await openIdempotencyWorld(kind)
    const token = await claimed(world)
    const [entry = '', ...others] = await entriesOf(world)
    expect(others).toEqual([])
    const leased = Number(await world.command('PTTL', entry))
    expect(leased).toBeGreaterThan(day + 50_000)
    expect(leased).toBeLessThanOrEqual(day + 60_000)
    await write(world, token)
    expect((await world.keys()).toSorted()).toEqual([entry.slice(`{${world.tag}}:`.length), 'orders'])
    const retained = Number(await world.command('PTTL', entry))
    expect(retained).toBeGreaterThan(retention - 10_000)
    expect(retained).toBeLessThanOrEqual(retention)
  })

  it('an entry that is evicted during the work is a lost claim, and nothing is written', async () => {
    await using world = await openIdempotencyWorld(kind)
    const { store, redis, command } = world
    const token = await claimed(world)
    const work = async () => {
      await redis.commands().rpush(world.key('orders'), '1')
      for (const entry of await entriesOf(world)) await command('DEL', entry)
      return created
    }
    await expect(store.write(key, token, work, { retention })).rejects.toMatchObject({ code: 'ACKORD_CLAIM_LOST' })
    expect(await world.keys()).toEqual([])
    await write(world, await claimed(world))
    expect(await command('LRANGE', world.key('orders'), '0', '-1')).toEqual(['1'])
  })

  it('an evicted answer is absent', async () => {
    await using world = await openIdempotencyWorld(kind)
    await write(world, await claimed(world))
    for (const entry of await entriesOf(world)) await world.command('DEL', entry)
    expect(await claim(world)).toMatchObject({ state: 'claimed' })
  })
})

describe.each(redisKinds.filter(({ cluster }) => !cluster))('redisIdempotency() on $name', (kind) => {
  it('works with a key prefix of the client', async () => {
    await using world = await openIdempotencyWorld(kind, { keyPrefix: 'shop:' })
    await write(world, await claimed(world))
    expect(await claim(world)).toEqual({ state: 'answered', answer: created })
    expect(await world.keys('idempotency')).toHaveLength(1)
  })

  it('a claim, a commit, a repeated claim and a release are one call each', async () => {
    await using server = await startRedis()
    await using world = await openIdempotencyWorld(kind, { url: server.url })
    // Loads the scripts.
    const first = await claimed(world)
    await write(world, first)
    await world.store.release(key, first)
    await world.command('FLUSHALL')
    await using recording = await recordRedis(server.url)
    const calls = async () => (await recording.commands()).filter(({ inScript }) => !inScript).map(({ words }) => words[0]?.toUpperCase())
    const token = await claimed(world)
    expect(await calls()).toEqual(['EVALSHA'])
    await write(world, token)
    expect(await calls()).toEqual(['EVALSHA', 'EVALSHA'])
    await claim(world)
    expect(await calls()).toEqual(['EVALSHA', 'EVALSHA', 'EVALSHA'])
    await world.store.release(key, token)
    expect(await calls()).toEqual(['EVALSHA', 'EVALSHA', 'EVALSHA', 'EVALSHA'])
  })
})

describe('redisIdempotency()', () => {
  it('a conflict is an error: the work is done once, nothing is written, and the claim stays', async () => {
    await using world = await openIdempotencyWorld(ioredis6)
    const { store, redis, command } = world
    const token = await claimed(world)
    let works = 0
    const writing = store.write(
      key,
      token,
      async (transaction) => {
        works += 1
        transaction.expect(world.key('version'), '1')
        await redis.commands().rpush(world.key('orders'), '1')
        return created
      },
      { retention },
    )
    await expect(writing).rejects.toMatchObject({ code: 'ACKORD_TRANSACTION_CONFLICT' })
    expect(works).toBe(1)
    expect(await world.keys('orders')).toEqual([])
    expect(await claim(world)).toMatchObject({ state: 'running' })
    await command('SET', world.key('version'), '1')
    await write(world, token)
  })

  it('after a partial commit the request is neither answered nor carried out again, until the retention ends', async () => {
    await using world = await openIdempotencyWorld(ioredis6)
    const { store, redis, command } = world
    await command('SET', world.key('counter'), '9223372036854775807')
    const token = await claimed(world)
    const work = async () => {
      await redis.commands().rpush(world.key('orders'), '1')
      await redis.commands().raw('INCR', [world.key('counter')])
      return created
    }
    const partial = { code: 'ACKORD_PARTIAL_COMMIT', retryable: false, message: expect.stringContaining('the idempotency key "k1"') }
    await expect(store.write(key, token, work, { retention })).rejects.toMatchObject(partial)
    await store.release(key, token)
    await expect(claim(world)).rejects.toMatchObject(partial)
    await expect(claim(world)).rejects.toThrow(/2 .*increment or decrement would overflow.*, at an earlier attempt/)
    expect(await claim(world, 'f2')).toEqual({ state: 'mismatch' })
    await expect(write(world, token)).rejects.toMatchObject({ code: 'ACKORD_CLAIM_LOST' })
    expect(await command('LLEN', world.key('orders'))).toBe(1)
    await world.advance(retention)
    expect(await claim(world)).toMatchObject({ state: 'claimed' })
  })

  it('with rollback: true a command that fails undoes the others, and gives the claim back', async () => {
    await using world = await openIdempotencyWorld(ioredis6, {}, { rollback: true })
    const { store, redis, command } = world
    await command('SET', world.key('counter'), '9223372036854775807')
    const work = async () => {
      await redis.commands().rpush(world.key('orders'), '1')
      await redis.commands().raw('INCR', [world.key('counter')])
      return created
    }
    const writing = store.write(key, await claimed(world), work, { retention })
    await expect(writing).rejects.toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
    expect(await world.keys()).toEqual(['counter'])
    await write(world, await claimed(world))
    expect(await claim(world)).toEqual({ state: 'answered', answer: created })
  })

  it('commits with the events of a Lua outbox', async () => {
    await using world = await openIdempotencyWorld(ioredis6)
    const { store, redis, tag } = world
    const outbox = luaOutbox(redis, { tag, logger: quiet.logger })
    const message = new Message(new Uint8Array(), { id: 'e1', type: 'order.placed', source: '/orders' })
    const token = await claimed(world)
    for (const expected of ['committed', 'lost'] as const) {
      const writing = store.write(
        key,
        token,
        async (transaction) => {
          await outbox.append(transaction, {
            destination: 'events',
            message: new Message(message.data, { ...message.attributes, id: expected }),
          })
          return created
        },
        { retention },
      )
      if (expected === 'lost') await expect(writing).rejects.toMatchObject({ code: 'ACKORD_CLAIM_LOST' })
      else expect(await writing).toEqual(created)
    }
    const { records } = await outbox.list({}, { limit: 10 })
    expect(records.map(({ message: { id } }) => id)).toEqual(['committed'])
    expect(await claim(world)).toEqual({ state: 'answered', answer: created })
  })

  it('refuses to write inside of another transaction', async () => {
    await using world = await openIdempotencyWorld(ioredis6)
    const token = await claimed(world)
    const nested = world.redis.write(async () => await write(world, token))
    await expect(nested).rejects.toMatchObject({ code: 'ACKORD_MIDDLEWARE_ORDER' })
    expect(await world.keys('orders')).toEqual([])
    await write(world, token)
  })

  it('inside of an inbox, outside of its transaction, commits by itself, and a message that is handled again finds the answer', async () => {
    await using world = await openIdempotencyWorld(ioredis6)
    const message = new Message({}, { id: 'm1', type: 'order.place', source: '/shop' })
    const found: string[] = []
    const handle = inboxMiddleware(world.redis, { consumer: 'orders', tag: world.tag, ...quiet })(async () => {
      const { state, ...rest } = await claim(world)
      found.push(state)
      if ('token' in rest) {
        await write(world, rest.token)
        throw new Error('The process failed after the write.')
      }
      return []
    })
    await expect(handle(message, message.context(rootContext()))).rejects.toThrow('failed after the write')
    await handle(message, message.context(rootContext()))
    expect(found).toEqual(['claimed', 'answered'])
    expect(await world.command('LRANGE', world.key('orders'), '0', '-1')).toEqual(['1'])
  })

  it('rejects when the key of an entry has another type', async () => {
    await using world = await openIdempotencyWorld(ioredis6)
    const token = await claimed(world)
    const [entry = ''] = await entriesOf(world)
    await world.command('DEL', entry)
    await world.command('SADD', entry, 'x')
    await expect(claim(world)).rejects.toThrow(/^WRONGTYPE/)
    await expect(write(world, token)).rejects.toMatchObject({ code: 'ACKORD_CLAIM_LOST' })
    await expect(world.store.release(key, token)).rejects.toThrow(/WRONGTYPE/)
    expect(await world.command('SMEMBERS', entry)).toEqual(['x'])
  })

  it('rejects invalid options', async () => {
    await using world = await openIdempotencyWorld(ioredis6)
    expect(() => redisIdempotency(world.redis, { tags: 'a' } as object)).toThrow("no option 'tags'")
    expect(() => redisIdempotency(world.redis, { tag: '' })).toThrow('tag')
    await expect(redisIdempotency(world.redis, { tag: () => '' }).claim(key, { fingerprint: 'f1', lease: 1 })).rejects.toThrow('tag')
  })
})
