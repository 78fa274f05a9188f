import { silentLogger } from '@ackord/core'
import { type NewOutboxRecord, Relay } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { redisKey } from '../../../../src/client/keys.ts'
import type { RedisPort } from '../../../../src/client/port.ts'
import { keysWithExpiry } from '../../../../src/outbox/lua/expiry/due-expiry.ts'
import { luaExpiry } from '../../../../src/outbox/lua/expiry/lua-expiry.ts'
import { luaOutbox } from '../../../../src/outbox/lua/lua-outbox.ts'
import { repairLuaOutbox } from '../../../../src/outbox/lua/repair/repair.ts'
import { outboxLua } from '../../../../src/outbox/lua/scripts/prelude.ts'
import { Redis } from '../../../../src/transaction/redis.ts'
import { until } from '../../../support/until.ts'
import { namespace } from '../expiry/expiry-world.ts'
import { brokenInvariants } from '../invariants.ts'
import {
  failed,
  hour,
  idsOf,
  ioredis6,
  LuaWorld,
  type LuaWorldSettings,
  lease,
  parked,
  published,
  type RecordSettings,
  record,
} from '../lua-world.ts'

const order = 'perKey'

function openOrdered(settings: LuaWorldSettings = {}): Promise<LuaWorld> {
  return LuaWorld.open({ ...settings, outbox: { order, ...settings.outbox } })
}

function keyed(key: string, number: number, settings: RecordSettings = {}): NewOutboxRecord {
  return record(`${key}${number}`, { ...settings, attributes: { partitionkey: key, ...settings.attributes } })
}

describe('order per key', () => {
  it('edge 12: claims ten thousand records of one moment in their order, key by key', { timeout: 60_000 }, async () => {
    await using world = await openOrdered()
    await world.stopClockAt(Date.UTC(2026, 5, 1))
    const all = Array.from({ length: 10_000 }, (_, number) => keyed(`key-${number % 20}-`, number))
    for (let start = 0; start < all.length; start += 1000) await world.store.enqueue(all.slice(start, start + 1000))
    const seen: (string | undefined)[] = []
    for (let claimed = await claimSome(); claimed.length > 0; claimed = await claimSome()) {
      await world.store.settle(claimed.map(published))
      seen.push(...idsOf(claimed))
    }

    expect(seen).toHaveLength(10_000)
    for (let key = 0; key < 20; key += 1) {
      const start = `key-${key}-`
      expect(seen.filter((id) => id?.startsWith(start))).toEqual(idsOf(all).filter((id) => id?.startsWith(start)))
    }

    async function claimSome() {
      return await world.store.claim({ limit: 1000, lease })
    }
  })

  it('a claim, a renewal and a settlement are one round trip each', async () => {
    await using world = await openOrdered()
    await world.store.enqueue([keyed('a', 1), keyed('a', 2), keyed('b', 1), record('free')])
    let calls = 0
    const port: RedisPort = {
      ...world.port,
      evaluate(...call) {
        calls += 1
        return world.port.evaluate(...call)
      },
    }
    const store = luaOutbox(new Redis({}, port, { logger: world.logger }), { tag: world.tag, order })
    const claimed = await store.claim({ limit: 10, lease })
    expect([claimed.length, calls]).toEqual([4, 1])
    await store.renew(claimed, lease)
    await store.settle(claimed.map(published))
    expect(calls).toBe(3)
  })

  it('is kept across a transaction, a MULTI and a script of the user', async () => {
    await using world = await openOrdered()
    await world.redis.write((transaction) => world.store.append(transaction, [keyed('a', 1), keyed('b', 1)]))
    const multi = world.store.prepare([keyed('a', 2)])
    await world.command('EVAL', multi.lua, String(multi.keys.length), ...multi.keys, ...multi.args.map((word) => Buffer.from(word)))
    const { keys, args } = world.store.prepare([keyed('a', 3)], { tag: world.store.tagOf('a') })
    const script = `${outboxLua}
local problem = ackord.check(2, 2)
if problem then return redis.error_reply(problem) end
ackord.enqueue(2, 2)
redis.call('SET', KEYS[1], ARGV[1])
return 'minted'`
    const ticket = redisKey(world.tag, 'ticket')
    const words = args.map((word) => Buffer.from(word))
    expect(await world.command('EVAL', script, String(keys.length + 1), ticket, ...keys, 'x', ...words)).toBe('minted')
    await world.command('DEL', ticket)
    await world.store.enqueue([keyed('a', 4)])

    const claimed = await world.store.claim({ limit: 10, lease })

    expect(idsOf(claimed).filter((id) => id?.startsWith('a'))).toEqual(['a1', 'a2', 'a3', 'a4'])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('storing a record twice is a duplicate, also after an operator changed its key, and different content is a conflict', async () => {
    await using world = await openOrdered({ outbox: { retain: true } })
    expect(await world.store.enqueue([keyed('a', 1), keyed('b', 1)])).toEqual(['inserted', 'inserted'])
    const claimed = await world.store.claim({ limit: 10, lease, destinations: ['orders'] })
    await world.store.settle(claimed.map((claim) => parked(claim)))
    const [first] = claimed.filter(({ message }) => message.id === 'a1')

    expect(await world.store.rearm({ ids: [first?.id ?? ''] }, { attributes: { partitionkey: 'b' } })).toBe(1)

    expect(await brokenInvariants(world)).toEqual([])
    expect(await world.store.enqueue([keyed('a', 1)])).toEqual(['duplicate'])
    expect(await world.store.enqueue([keyed('a', 1, { data: Buffer.from('other') })])).toEqual(['conflict'])
    // The record has a position under its new key now, before the parked record.
    expect(idsOf(await world.store.claim({ limit: 10, lease, behindParked: 'kept' }))).toEqual(['a1'])
  })

  it('records behind one that cannot be read are not claimed before that one is parked', async () => {
    await using world = await openOrdered()
    await world.store.enqueue([keyed('a', 1), keyed('a', 2), keyed('a', 3), keyed('b', 1)])
    const listed = (await world.store.list({ orderingKey: 'a' }, { limit: 10 })).records
    const id = listed[1]?.id.split('.')[0] ?? ''
    await world.command('HSET', world.key('entries'), id, '17;{')

    const first = await world.store.claim({ limit: 10, lease, behindParked: 'kept' })
    expect(idsOf(first).toSorted()).toEqual(['a1', 'b1'])
    await world.store.settle(first.map(published))
    expect(await world.store.claim({ limit: 10, lease, behindParked: 'kept' })).toEqual([])
    expect(await brokenInvariants(world)).toEqual([])
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['a3'])
  })

  it('a record without a body or state is parked, and its key continues', async () => {
    await using world = await openOrdered()
    await world.store.enqueue([keyed('a', 1), keyed('a', 2), keyed('a', 3)])
    const [one, two] = (await world.store.list({}, { limit: 10 })).records.map(({ id }) => id.split('.')[0] ?? '')
    await world.command('HDEL', world.key('entries'), one ?? '')
    await world.command('HSET', world.key('state'), two ?? '', 'no state at all')
    const seen: (string | undefined)[] = []
    for (let claims = 0; claims < 3; claims += 1) seen.push(...idsOf(await world.store.claim({ limit: 10, lease })))
    expect(seen).toEqual(['a3'])
    expect((await world.store.stats()).destinations).toMatchObject([{ ready: 1, parked: 2 }])
  })

  it('a cancelled delayed record no longer blocks its key', async () => {
    await using world = await openOrdered()
    await world.store.enqueue([keyed('a', 1, { delay: hour }), keyed('a', 2)])
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])
    expect(await world.store.cancelNow([{ destination: 'orders', source: '/shop', id: 'a1' }])).toEqual([true])
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['a2'])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('a published record that is re-armed comes before those behind it, and not while one of them is in flight', async () => {
    await using world = await openOrdered({ outbox: { retain: true } })
    await world.store.enqueue([keyed('a', 1), keyed('a', 2)])
    const [first, second] = await world.store.claim({ limit: 10, lease })
    if (!(first && second)) throw new Error('expected two claimed records')
    await world.store.settle([published(first)])
    expect(await world.store.rearm({ ids: [first.id] }, {}, { state: 'published' })).toBe(1)
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])
    await world.store.settle([failed(second)])
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['a1', 'a2'])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('records of a claim whose answer was lost are claimed again when its lease has expired, although its store continues to claim', async () => {
    await using world = await openOrdered()
    await world.store.enqueue([keyed('a', 1), keyed('a', 2)])
    await world.store.claim({ limit: 10, lease })
    await world.advance(lease / 2)
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])
    await world.advance(lease / 2 + 1)
    const again = await world.store.claim({ limit: 10, lease })
    expect(again.map(({ message, attempts }) => [message.id, attempts])).toEqual([
      ['a1', 1],
      ['a2', 1],
    ])
  })

  it('operators can use it without the option order', async () => {
    await using world = await openOrdered()
    const operator = world.another({ order: 'none' })
    await world.store.enqueue([keyed('a', 1), keyed('a', 2), keyed('b', 1)])
    const claimed = await world.store.claim({ limit: 10, lease })
    expect((await operator.stats()).destinations).toMatchObject([{ ready: 3, leased: 0 }])
    expect((await operator.list({ orderingKey: 'a' }, { limit: 10 })).records.map(({ state }) => state)).toEqual(['ready', 'ready'])
    await world.store.settle(claimed.map((claim) => parked(claim)))
    expect(await operator.rearm({ filter: { orderingKey: 'a' } }, { data: Uint8Array.of(1) })).toBe(2)
    expect(await operator.discard([claimed.find(({ message }) => message.id === 'b1')?.id ?? ''], 'not needed')).toBe(1)
    expect(await brokenInvariants(world)).toEqual([])
    expect((await repairLuaOutbox(operator)).counts).toMatchObject({ strays: 0, orphans: 0 })
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['a1', 'a2'])
  })
})

describe('the poller lease', () => {
  it('edge 17: a relay that was paused for longer than its lease settles, renews and releases nothing, and the other one is unaffected', async () => {
    await using world = await openOrdered({ outbox: { exclusive: true } })
    const other = world.another()
    await world.store.enqueue([keyed('a', 1), keyed('a', 2), keyed('b', 1), record('free')])
    const stale = await world.store.claim({ limit: 10, lease })
    expect(stale).toHaveLength(4)
    await world.advance(lease + 1)
    const held = await other.claim({ limit: 10, lease })
    expect(held.map(({ attempts }) => attempts)).toEqual([2, 2, 2, 2])

    expect(await world.store.renew(stale, lease)).toEqual([false, false, false, false])
    expect(await world.store.settle(stale.map(published))).toEqual(['lost', 'lost', 'lost', 'lost'])
    await world.store.release(stale)
    await world.store.leave?.()
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])

    expect(await other.renew(held, lease)).toEqual([true, true, true, true])
    expect(await other.settle(held.map(published))).toEqual(['applied', 'applied', 'applied', 'applied'])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('exclusive: one store object at a time polls, and the next one takes over when it leaves', async () => {
    await using world = await openOrdered({ outbox: { exclusive: true } })
    const other = world.another()
    const third = world.another()
    await world.store.enqueue([keyed('a', 1), keyed('b', 1), record('free')])
    const held = await world.store.claim({ limit: 10, lease })
    expect(held).toHaveLength(3)
    await world.store.release(held)
    expect(await other.claim({ limit: 10, lease })).toEqual([])
    await world.store.leave?.()
    const taken = await other.claim({ limit: 10, lease })
    expect(taken.map(({ attempts }) => attempts)).toEqual([1, 1, 1])
    expect(await third.claim({ limit: 10, lease })).toEqual([])
  })

  it('another relay publishes the records of a relay that crashed, when its lease has expired', async () => {
    await using world = await openOrdered()
    await world.store.enqueue([keyed('a', 1), keyed('a', 2), keyed('b', 1)])
    const client = await ioredis6.open()
    const inHand = await luaOutbox(client.redis, { tag: world.tag, order }).claim({ limit: 10, lease: 400 })
    expect(inHand).toHaveLength(3)
    await client[Symbol.asyncDispose]()
    const arrived: (string | undefined)[] = []
    const relay = new Relay(world.store, {
      pollInterval: 20,
      logger: silentLogger,
      publisher: {
        async publish(_, messages) {
          arrived.push(...messages.map(({ id }) => id))
          return messages.map(() => ({ ok: true }))
        },
      },
    }).start()
    await until('another relay has published them', () => arrived.length >= 3)
    await relay.stop()

    expect(arrived.filter((id) => id?.startsWith('a'))).toEqual(['a1', 'a2'])
    expect(arrived).toHaveLength(3)
    expect(await world.command('ZCARD', world.key('pollers'))).toBe(0)
  })
})

describe('with several shards', () => {
  it('stores the events of a key in its shard, whatever the transaction wrote before, and refuses another slot', async () => {
    await using world = await openOrdered({ outbox: { shards: 4 } })
    const { store, redis } = world
    const [one, other] = twoKeys((key) => store.tagOf(key))
    const write = (key: string, ...records: readonly NewOutboxRecord[]) =>
      redis.write(async (transaction) => {
        await redis.commands().set(redis.key(store.tagOf(key), 'order'), '1')
        await store.append(transaction, records)
      })

    await write(one, keyed(one, 1), record('free'))
    await store.enqueue([keyed(one, 2), keyed(other, 1)])
    await expect(write(one, keyed(one, 3), keyed(other, 2))).rejects.toMatchObject({ code: 'ACKORD_CROSS_SLOT' })
    expect(() => store.prepare([keyed(other, 2)], { tag: store.tagOf(one) })).toThrow(/ordering key/)

    const seen: (string | undefined)[] = []
    for (let claims = 0; claims < 2; claims += 1) {
      const claimed = await store.claim({ limit: 10, lease })
      await store.settle(claimed.map(published))
      seen.push(...idsOf(claimed))
    }
    expect(seen.toSorted()).toEqual(['free', `${one}1`, `${one}2`, `${other}1`].toSorted())
    for (const shard of world.shards) {
      expect(await brokenInvariants(world, shard)).toEqual([])
      await world.command('DEL', redisKey(shard.tag, 'order'))
    }
    await store.leave?.()
    for (const shard of world.shards) expect(await world.command('EXISTS', world.key('pollers', shard))).toBe(0)
  })

  it('an expiry stores an event of its own key, parks one of another shard, and refuses to revoke with one', async () => {
    await using world = await openOrdered({ outbox: { shards: 4 } })
    const [one, other] = twoKeys((key) => world.store.tagOf(key))
    const expiry = luaExpiry(world.store, namespace)
    const dueAt = Date.now() - 1000
    const event = (key: string) => () => keyed(key, 1)
    for (const subject of [one, `${one}again`]) await expiry.recordExpiry(subject, dueAt, Buffer.from('x'))
    const context = Buffer.from('x')

    expect(await expiry.decideExpiry({ subject: one, dueAt, context }, event(one))).toBe('enqueued')
    const elsewhere = world.store.tagOf(`${one}again`) === world.store.tagOf(one) ? other : one
    expect(await expiry.decideExpiry({ subject: `${one}again`, dueAt, context }, event(elsewhere))).toBe('parked')
    await expect(expiry.revoke(one, keyed(other, 2))).rejects.toThrow(/ordering key/)

    for (const shard of world.shards) {
      expect(await brokenInvariants(world, shard)).toEqual([])
      await world.command('DEL', ...keysWithExpiry(shard, 'expiry'))
    }
  })

  function twoKeys(tagOf: (key: string) => string): readonly [string, string] {
    const other = Array.from({ length: 100 }, (_, number) => `k${number}-`).find((key) => tagOf(key) !== tagOf('k0-'))
    return ['k0-', other ?? '']
  }
})

describe('an outbox', () => {
  it('without order has no further keys, and layout 1', async () => {
    await using world = await LuaWorld.open()
    await world.store.verify()
    await world.store.enqueue([keyed('a', 1), keyed('a', 2)])
    const claimed = await world.store.claim({ limit: 10, lease })
    await world.store.settle(claimed.map((claim, index) => (index === 0 ? parked(claim) : failed(claim))))
    await repairLuaOutbox(world.store)
    expect(await world.command('EXISTS', world.key('keys'), world.key('pollers'))).toBe(0)
    expect(await world.command('HGET', world.key('meta'), 'layout')).toBe('1')
  })

  it('that was begun without order cannot be used with it, nor the other way round, and verify() begins neither', async () => {
    await using world = await openOrdered()
    const plain = world.another({ order: 'none' })
    await plain.verify()
    await world.store.verify()
    await world.store.enqueue([keyed('a', 1)])
    const before = await world.dump()
    const wrong = /layout 2: it was begun with order per key/
    await expect(plain.verify()).rejects.toThrow(wrong)
    await expect(plain.enqueue([keyed('a', 2)])).rejects.toThrow(wrong)
    await expect(plain.claim({ limit: 10, lease })).rejects.toThrow(wrong)
    expect(await world.dump()).toEqual(before)

    await using unordered = await LuaWorld.open()
    await unordered.store.enqueue([keyed('a', 1)])
    const ordered = unordered.another({ order })
    await expect(ordered.verify()).rejects.toThrow(/layout 1: it was begun without order/)
    await expect(ordered.claim({ limit: 10, lease })).rejects.toThrow(/layout 1/)
    await expect(ordered.enqueue([keyed('a', 2)])).rejects.toThrow(/layout 1/)
  })

  it.each(['keys', 'pollers'] as const)('with order refuses a %s of the wrong type, and writes nothing', async (name) => {
    await using world = await openOrdered()
    await world.store.enqueue([keyed('a', 1), keyed('a', 2)])
    const claimed = await world.store.claim({ limit: 1, lease })
    await world.command('DEL', world.key(name))
    await world.command('SET', world.key(name), 'a text')
    const before = await world.dump()
    const calls = [
      () => world.store.enqueue([keyed('a', 3)]),
      () => world.store.claim({ limit: 1, lease }),
      () => world.store.renew(claimed, lease),
      () => world.store.release(claimed),
      () => world.store.settle(claimed.map(published)),
      () => world.store.leave?.() ?? Promise.resolve(),
    ]
    for (const call of calls) await expect(call()).rejects.toThrow(world.key(name))
    expect(await world.dump()).toEqual(before)
  })

  it('rejects options that cannot be combined', async () => {
    await using world = await LuaWorld.open()
    expect(() => world.another({ exclusive: true })).toThrow(/exclusive needs order 'perKey'/)
    expect(() => world.another({ order: 'perShard' as 'perKey' })).toThrow(/order must be/)
  })
})
