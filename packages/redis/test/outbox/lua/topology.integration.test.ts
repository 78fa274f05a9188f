import { randomUUID } from 'node:crypto'
import { silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { describe, expect, it, vi } from 'vitest'
import { startRedis, startRedisCluster } from '../../../../../scripts/servers/index.mjs'
import { redisKey } from '../../../src/client/keys.ts'
import { streamOutbox } from '../../../src/index.ts'
import { luaOutbox, waitForReplicas } from '../../../src/outbox/lua/index.ts'
import { LuaShard } from '../../../src/outbox/lua/layout.ts'
import { redisKinds } from '../../support/redis-clients.ts'
import { until } from '../../support/until.ts'
import { brokenInvariants } from './invariants.ts'
import { idsOf, LuaWorld, lease, published, record, records } from './lua-world.ts'

const clusters = redisKinds.filter(({ cluster }) => cluster)

describe('edge 14: on a cluster', () => {
  it.each(clusters)('a relay finds the records of all shards, each in one slot and on several nodes: $name', async (kind) => {
    await using world = await LuaWorld.open({ kind, outbox: { shards: 8 } })
    const slots = new Set<unknown>()
    for (const { keys } of world.shards) {
      const own = new Set(await Promise.all(keys.map((key) => world.command('CLUSTER', 'KEYSLOT', key))))
      expect(own.size).toBe(1)
      for (const slot of own) slots.add(slot)
    }
    expect(slots.size).toBe(8)
    const all = Array.from({ length: 200 }, (_, index) => record(`e${index}`, { attributes: { partitionkey: `k${index % 20}` } }))
    expect((await world.store.enqueue(all)).every((result) => result === 'inserted')).toBe(true)
    expect(await world.store.enqueue(all.slice(0, 50))).toEqual(Array.from({ length: 50 }, () => 'duplicate'))
    const held = await world.store.claim({ limit: 150, lease })
    expect(held).toHaveLength(150)
    expect(await world.store.renew(held, lease)).toEqual(held.map(() => true))
    expect((await world.store.settle(held.map(published))).every((answer) => answer === 'applied')).toBe(true)
    const left = await world.store.list({}, { limit: 1000 })
    expect(left.records).toHaveLength(50)
    expect(new Set([...idsOf(held), ...idsOf(left.records)]).size).toBe(200)
    for (const shard of world.shards) expect(await brokenInvariants(world, shard)).toEqual([])
  })

  it('the server refuses a key of the user without the tag before anything is written', async () => {
    const [kind] = clusters
    await using world = await LuaWorld.open({ kind })
    const { lua, keys, args } = world.store.prepare([record('e1')])
    const elsewhere = redisKey(randomUUID(), 'ticket')
    const call = world.command('EVAL', lua, String(keys.length + 1), ...keys, elsewhere, ...args)
    await expect(call).rejects.toThrow(/CROSSSLOT|same slot|hash slot/i)
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])
  })

  it('while a slot is moved, calls fail and can be repeated, and a relay continues by itself afterwards', {
    timeout: 120_000,
  }, async () => {
    await using cluster = await startRedisCluster()
    const [kind] = clusters
    if (kind === undefined) throw new Error('There is no client.')
    await using client = await kind.open({ url: cluster.url, options: { logger: silentLogger } })
    const shard = new LuaShard(0, 'moving', 'lua-outbox')
    const store = luaOutbox(client.redis, { tag: 'moving' })
    const arrived: (string | undefined)[] = []
    const relay = new Relay(store, {
      pollInterval: 20,
      lease: 5000,
      publishTimeout: 2000,
      logger: silentLogger,
      publisher: {
        async publish(_, messages) {
          arrived.push(...messages.map(({ id }) => id))
          return messages.map(() => ({ ok: true }))
        },
      },
    })
    relay.start()
    const stored: string[] = []
    const stop = new AbortController()
    let failures = 0
    const storing = (async () => {
      for (let number = 0; !stop.signal.aborted; number += 1) {
        // Repeats the same record until the store has confirmed it.
        for (let known = false; !known; ) {
          try {
            await store.enqueue([record(`e${number}`)])
            known = true
          } catch {
            failures += 1
          }
        }
        stored.push(`e${number}`)
      }
    })()
    await until('some are stored', () => stored.length > 20)

    const single = redisKinds.find(({ cluster: isCluster }) => !isCluster)
    const slot = String(await client.command('CLUSTER', 'KEYSLOT', shard.key('state')))
    const nodes = await Promise.all(
      cluster.nodes.map(async ({ url }) => {
        const opened = await single?.open({ url })
        if (opened === undefined) throw new Error('There is no client.')
        return { url, opened, id: String(await opened.command('CLUSTER', 'MYID')) }
      }),
    )
    try {
      const ranges = (await client.command('CLUSTER', 'SLOTS')) as [number, number, [string, number]][]
      const owner = ranges.find(([from, to]) => from <= Number(slot) && Number(slot) <= to)?.[2][1]
      const from = nodes.find(({ url }) => new URL(url).port === String(owner))
      const to = nodes.find((node) => node !== from)
      if (!(from && to)) throw new Error('expected two nodes')
      await to.opened.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id)
      await from.opened.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id)
      const { hostname, port } = new URL(to.url)
      for (const key of [...shard.keys].reverse()) {
        await from.opened.command('MIGRATE', hostname, port, key, '0', '5000')
        // In the meantime the keys are spread over two nodes.
        const before = failures
        await until('a call has failed, or all is on one node again', () => failures > before || key === shard.keys[0])
      }
      // The notes of the relay.
      for (const key of (await from.opened.command('CLUSTER', 'GETKEYSINSLOT', slot, '100')) as string[]) {
        await from.opened.command('MIGRATE', hostname, port, key, '0', '5000')
      }
      for (const node of [to, from, ...nodes]) await node.opened.command('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)
      const count = stored.length
      await until('records are stored again', () => stored.length > count + 20)
    } finally {
      for (const { opened } of nodes) await opened[Symbol.asyncDispose]()
      stop.abort()
    }
    await storing
    expect(failures).toBeGreaterThan(0)
    await vi.waitFor(() => expect(new Set(arrived).size).toBe(stored.length), 30_000)
    await relay.stop()
    expect((await store.stats()).destinations).toEqual([])
  })
})

describe.concurrent('R38: replicas', () => {
  it('resolves to the number of replicas that have the writes', async () => {
    await using server = await startRedis()
    await using replica = await startRedis()
    await using world = await LuaWorld.open({ url: server.url })
    await using other = await LuaWorld.open({ url: replica.url })
    await world.store.enqueue([record('e1')])
    expect(await waitForReplicas(world.redis, { replicas: 1, timeout: 50 })).toBe(0)
    const { port } = new URL(server.url)
    await other.command('REPLICAOF', '127.0.0.1', port)
    await world.store.enqueue([record('e2')])
    await vi.waitFor(async () => expect(await waitForReplicas(world.redis, { replicas: 1, timeout: 1000 })).toBe(1), 20_000)
    expect(Number(await other.command('HLEN', world.key('state')))).toBe(2)
    await expect(waitForReplicas(world.redis, { replicas: 1, timeout: 10_000 })).rejects.toThrow('deadline')
  })

  it('edge 3, R39: a promoted replica has no scripts, and continues with the records that it has', async () => {
    await using server = await startRedis()
    await using replica = await startRedis()
    await using world = await LuaWorld.open({ url: server.url })
    await using promoted = await LuaWorld.open({ url: replica.url })
    const { port } = new URL(server.url)
    await promoted.command('REPLICAOF', '127.0.0.1', port)
    await world.store.enqueue(records(5))
    const held = await world.store.claim({ limit: 2, lease })
    await vi.waitFor(async () => expect(await waitForReplicas(world.redis, { replicas: 1, timeout: 1000 })).toBe(1), 20_000)
    await promoted.command('REPLICAOF', 'NO', 'ONE')
    await promoted.command('SCRIPT', 'FLUSH')
    const store = luaOutbox(promoted.redis, { tag: world.tag, logger: silentLogger })
    expect(await store.settle(held.map(published))).toEqual(['applied', 'applied'])
    expect(await store.enqueue([record('e1'), record('e5')])).toEqual(['inserted', 'duplicate'])
    expect(idsOf(await store.claim({ limit: 10, lease }))).toEqual(['e3', 'e4', 'e5', 'e1'])
  })
})

describe('R49: the caller chooses the store', () => {
  it('a stream outbox and a Lua outbox under one tag do not see each other', async () => {
    await using world = await LuaWorld.open()
    const streams = streamOutbox(world.redis, { tags: [world.tag] })
    await world.redis.write(async (transaction) => {
      await streams.append(transaction, [record('in the stream')])
      await world.store.append(transaction, [record('in the hash')])
    })
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['in the hash'])
    expect(idsOf(await streams.claim({ limit: 10, lease }))).toEqual(['in the stream'])
    await world.command('DEL', redisKey(world.tag, 'outbox', 'to', 'orders'), redisKey(world.tag, 'outbox', 'destinations'))
  })
})
