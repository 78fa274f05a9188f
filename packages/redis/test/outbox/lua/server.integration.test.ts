import { silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { recordingLogger } from '@ackord/testkit'
import { Redis as Ioredis } from 'ioredis'
import { describe, expect, it, vi } from 'vitest'
import { startRedis } from '../../../../../scripts/servers/index.mjs'
import { fromIoredis } from '../../../src/index.ts'
import { luaOutbox } from '../../../src/outbox/lua/lua-outbox.ts'
import { redisKinds } from '../../support/redis-clients.ts'
import { until } from '../../support/until.ts'
import { brokenInvariants } from './invariants.ts'
import { failed, failedByStore, hour, idsOf, LuaWorld, lease, parked, published, record, records } from './lua-world.ts'

const clients = redisKinds.filter(({ name }) => name === 'ioredis 6' || name === 'node-redis')

describe('R3, edge 2: memory is full', () => {
  it('stores nothing, while settle, renew, release, claim and rearm still work', async () => {
    await using server = await startRedis()
    await using world = await LuaWorld.open({ url: server.url, outbox: { retain: true } })
    await world.store.enqueue([...records(8), record('later', { delay: hour })])
    const [done, waits, given, released, renewed, retried] = await world.store.claim({ limit: 6, lease })
    if (!(done && waits && given && released && renewed && retried)) throw new Error('expected six claimed records')
    await world.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    await world.command('CONFIG', 'SET', 'maxmemory', '1')

    const before = await world.dump()
    await expect(world.store.enqueue([record('refused')])).rejects.toThrow('OOM')
    const write = world.redis.write(async (transaction) => world.store.append(transaction, [record('refused')]))
    await expect(write).rejects.toThrow('OOM')
    expect(await world.dump()).toEqual(before)
    expect(await world.store.settle([published(done), failed(waits, hour, 'x'), parked(given), failedByStore(retried)])).toEqual([
      'applied',
      'applied',
      'applied',
      'applied',
    ])
    await world.store.release([released])
    expect(await world.store.renew([renewed], lease)).toEqual([true])
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e4', 'e7', 'e8'])
    expect(await world.store.rearm({ ids: [given.id] })).toBe(1)
    expect(await world.store.deletePublished({ olderThan: 0, limit: 10 })).toBe(1)
    await world.command('CONFIG', 'SET', 'maxmemory', '0')
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('a relay continues to publish, each record once', async () => {
    await using server = await startRedis()
    await using world = await LuaWorld.open({ url: server.url })
    await world.store.enqueue(records(50))
    await world.command('CONFIG', 'SET', 'maxmemory', '1')
    const arrived: (string | undefined)[] = []
    const relay = new Relay(world.store, {
      pollInterval: 20,
      batchSize: 7,
      logger: silentLogger,
      publisher: {
        async publish(_, messages) {
          arrived.push(...messages.map(({ id }) => id))
          return messages.map(() => ({ ok: true }))
        },
      },
    })
    relay.start()
    await vi.waitFor(async () => expect((await world.store.stats()).destinations).toEqual([]), 15_000)
    await relay.stop()
    expect(arrived.sort()).toEqual(idsOf(records(50)).sort())
  })
})

describe('R40, R41, edge 3: the server forgets its scripts', () => {
  it.each(clients)('everything continues to work after SCRIPT FLUSH at any time: $name', async (kind) => {
    await using server = await startRedis()
    await using world = await LuaWorld.open({ kind, url: server.url })
    const flush = () => world.command('SCRIPT', 'FLUSH')
    await world.store.enqueue(records(4))
    await flush()
    await world.redis.write(async (transaction) => world.store.append(transaction, [record('later', { delay: hour })]))
    await flush()
    const [done, again, given, released] = await world.store.claim({ limit: 10, lease })
    if (!(done && again && given && released)) throw new Error('expected four claimed records')
    await flush()
    expect(await world.store.renew([done], lease)).toEqual([true])
    await flush()
    await world.store.release([released])
    await flush()
    expect(await world.store.settle([published(done), failed(again), parked(given)])).toEqual(['applied', 'applied', 'applied'])
    await flush()
    expect(await world.store.rearm({ ids: [given.id] })).toBe(1)
    await flush()
    expect((await world.store.stats()).destinations).toMatchObject([{ ready: 3, waiting: 1 }])
    await flush()
    // Twenty concurrent calls: each receives NOSCRIPT, and sends its whole script.
    const results = await Promise.all(Array.from({ length: 20 }, (_, index) => world.store.enqueue([record(`many ${index}`)])))
    expect(results.flat().every((result) => result === 'inserted')).toBe(true)
    expect(world.reloads).toBeGreaterThanOrEqual(8)
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('an unanswered call can be repeated: stored records are duplicates, settled claims are lost', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue(records(2))
    expect(await world.store.enqueue(records(2))).toEqual(['duplicate', 'duplicate'])
    const held = await world.store.claim({ limit: 2, lease })
    await world.store.settle(held.map(published))
    expect(await world.store.settle(held.map(published))).toEqual(['lost', 'lost'])
    await world.store.release(held)
    expect((await world.store.stats()).destinations).toEqual([])
  })
})

describe('R39, edge 5: the server is killed', () => {
  it.each(['always', 'everysec'])(
    'with appendfsync %s the state is the same after the restart: no stored record is lost, no index is incomplete',
    async (fsync) => {
      await using server = await startRedis({ args: ['--appendfsync', fsync] })
      await using world = await LuaWorld.open({ url: server.url, outbox: { retain: true } })
      await world.store.enqueue([...records(6), record('later', { delay: hour })])
      const [done, waits, given, released, held] = await world.store.claim({ limit: 5, lease })
      if (!(done && waits && given && released && held)) throw new Error('expected five claimed records')
      await world.store.release([released])
      await world.store.settle([published(done), failed(waits, hour), parked(given)])
      // Stores records while the server is killed.
      const stored: string[] = []
      const storing = (async () => {
        for (let number = 0; ; number += 1) {
          await world.store.enqueue([record(`more ${number}`)])
          stored.push(`more ${number}`)
        }
      })().catch(() => {})
      await until('some are stored', () => stored.length > 20)
      const before = (await world.store.list({}, { limit: 10 })).records.slice(0, 7)
      await server.kill()
      await storing
      await server.restart()
      const after = await vi.waitFor(() => world.store.list({}, { limit: 10_000 }), 15_000)
      expect(after.records.slice(0, 7).map(({ id, state, attempts, lastError }) => [id, state, attempts, lastError])).toEqual(
        before.map(({ id, state, attempts, lastError }) => [id, state, attempts, lastError]),
      )
      expect(await brokenInvariants(world)).toEqual([])
      const found = new Set(idsOf(after.records))
      // A killed process leaves its written data in the kernel, so both settings survive. A power failure is not covered.
      expect(stored.filter((id) => !found.has(id))).toEqual([])
      expect(await world.store.settle([published(held)])).toEqual(['applied'])
    },
  )
})

describe('edge 21: the server is unavailable for a while', () => {
  it('a relay waits, logs it once, and continues by itself after a restart and after the server was a replica', async () => {
    await using server = await startRedis({ args: ['--appendfsync', 'always'] })
    await using other = await startRedis()
    await using world = await LuaWorld.open({ url: server.url })
    const arrived: (string | undefined)[] = []
    const logger = recordingLogger()
    const relay = new Relay(world.store, {
      pollInterval: 20,
      lease: 2000,
      publishTimeout: 1000,
      logger,
      publisher: {
        async publish(_, messages) {
          arrived.push(...messages.map(({ id }) => id))
          return messages.map(() => ({ ok: true }))
        },
      },
    })
    relay.start()
    await world.store.enqueue([record('before')])
    await vi.waitFor(() => expect(arrived).toContain('before'), 15_000)

    await server.kill()
    await until('the relay has noticed', () => relay.health().store === 'down')
    await server.restart()
    await until('it works again', () => relay.health().store === 'up')
    await vi.waitFor(() => world.store.enqueue([record('after the restart')]), 15_000)
    await vi.waitFor(() => expect(arrived).toContain('after the restart'), 15_000)

    await world.store.enqueue([record('kept', { delay: hour })])
    const { port } = new URL(other.url)
    await world.command('REPLICAOF', '127.0.0.1', port)
    await until('the relay has noticed that it cannot write', () => relay.health().store === 'down')
    await expect(world.store.enqueue([record('refused')])).rejects.toThrow(/READONLY/)
    await world.command('REPLICAOF', 'NO', 'ONE')
    await until('it works again', () => relay.health().store === 'up')
    await world.store.enqueue([record('at last')])
    await vi.waitFor(() => expect(arrived).toContain('at last'), 15_000)
    await relay.stop()
    // One line per start and end of an outage, plus those of the wake-ups; not one per attempt.
    const failures = logger.at('error').filter(({ text }) => text.includes('The outbox store failed'))
    expect(failures).toHaveLength(logger.at('info').filter(({ text }) => text.includes('The outbox store answers again')).length)
    expect([2, 3, 4]).toContain(failures.length)
  })
})

describe('R43, edge 19: missing permissions', () => {
  async function asUser(url: string, rules: readonly string[]) {
    const admin = new Ioredis(url)
    await admin.call('ACL', 'SETUSER', 'limited', 'reset', 'on', '>secret', ...rules)
    const client = new Ioredis(url, { username: 'limited', password: 'secret' })
    client.on('error', () => {})
    const redis = fromIoredis(client, { logger: silentLogger })
    return {
      store: luaOutbox(redis, { tag: 'acl' }),
      async [Symbol.asyncDispose]() {
        client.disconnect()
        admin.disconnect()
      },
    }
  }

  it.each([
    ['scripts', ['~*', '+@all', '-@scripting'], /NOPERM|eval/i],
    ['the keys', ['~other:*', '+@all'], /NOPERM|key/i],
    ['ZADD', ['~*', '+@all', '-zadd'], /ZADD/],
    ['HSET and XADD', ['~*', '+@all', '-hset', '-xadd'], /HSET.*XADD/],
  ])('verify() names it: %s', async (_, rules, expected) => {
    await using server = await startRedis()
    await using user = await asUser(server.url, rules)
    await expect(user.store.verify()).rejects.toThrow(expected)
    await expect(user.store.verify()).rejects.toThrow('cannot be used')
  })

  it('the permissions that it names are sufficient for everything', async () => {
    await using server = await startRedis()
    const names =
      'type time get incrby hget hset hsetnx hmget hstrlen hdel hincrby hgetall zadd zrem zrangebyscore zrangebylex zlexcount xadd xread xrevrange'
    const commands = `${names} eval evalsha set ping info client hello`.split(' ').map((name) => `+${name}`)
    await using user = await asUser(server.url, ['~{acl}:*', ...commands])
    const { store } = user
    await store.verify()
    await store.enqueue([...records(5), record('later', { delay: 1 })])
    const [done, again, given, released, renewed] = await store.claim({ limit: 5, lease })
    if (!(done && again && given && released && renewed)) throw new Error('expected five claimed records')
    await store.renew([renewed], lease)
    await store.release([released])
    await store.settle([published(done), failed(again), parked(given)])
    await store.rearm({ ids: [given.id] }, { data: Uint8Array.of(1) })
    await store.list({}, { limit: 10 })
    await store.deletePublished({ olderThan: 0, limit: 10 })
    expect((await store.stats()).destinations).toHaveLength(1)
  })

  it('records are found again after the server refused a write in the middle of a script', async () => {
    await using server = await startRedis()
    await using world = await LuaWorld.open({ url: server.url })
    await world.store.enqueue(records(6))
    const [again, given, released, done] = await world.store.claim({ limit: 4, lease })
    if (!(again && given && released && done)) throw new Error('expected four claimed records')
    for (const command of ['hset', 'zadd']) {
      await world.command('ACL', 'SETUSER', 'default', `-${command}`)
      await expect(world.store.enqueue([record(`refused by ${command}`)])).rejects.toThrow()
      await expect(world.store.settle([failed(again), parked(given)])).rejects.toThrow()
      await expect(world.store.release([released])).rejects.toThrow()
      await expect(world.store.claim({ limit: 10, lease })).rejects.toThrow()
      await world.command('ACL', 'SETUSER', 'default', `+${command}`)
    }
    await world.advance(lease + 1)
    expect(idsOf(await world.another().claim({ limit: 10, lease })).sort()).toEqual(['e1', 'e2', 'e3', 'e4', 'e5', 'e6'])
    expect((await world.store.list({}, { limit: 10 })).records).toHaveLength(6)
  })
})
