import { silentLogger } from '@ackord/core'
import { deferred, VirtualRuntime } from '@ackord/testkit'
import { Redis as Ioredis } from 'ioredis'
import { describe, expect, it, vi } from 'vitest'
import { startRedis } from '../../../../../../scripts/servers/index.mjs'
import type { RedisPort } from '../../../../src/client/port.ts'
import { fromIoredis } from '../../../../src/index.ts'
import { luaExpiry } from '../../../../src/outbox/lua/expiry/lua-expiry.ts'
import { type LuaOutbox, luaOutbox } from '../../../../src/outbox/lua/lua-outbox.ts'
import { type RepairOptions, repairLuaOutbox } from '../../../../src/outbox/lua/repair/repair.ts'
import { type RepairWorkerOptions, repairWorker } from '../../../../src/outbox/lua/repair/repair-worker.ts'
import { RunnerLock } from '../../../../src/outbox/lua/repair/runner-lock.ts'
import type { RepairClass } from '../../../../src/outbox/lua/repair/scripts.ts'
import { Redis } from '../../../../src/transaction/redis.ts'
import { redisKinds } from '../../../support/redis-clients.ts'
import { problemsOn60, recordRedis } from '../../../support/redis-recording.ts'
import { until } from '../../../support/until.ts'
import { expired, namespace, revoked } from '../expiry/expiry-world.ts'
import { brokenInvariants } from '../invariants.ts'
import { failed, hour, idsOf, LuaWorld, lease, parked, published, record, records } from '../lua-world.ts'
import { fill } from './repair-mess.ts'

/** The repair counts that are not zero. */
async function repaired(store: LuaOutbox, options?: RepairOptions): Promise<Partial<Record<RepairClass, number>>> {
  const { counts } = await repairLuaOutbox(store, options)
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0))
}

/** The entry of a record, as it is named in the keys, and its state. */
async function entryOf(world: LuaWorld, id: string): Promise<{ readonly entry: string; readonly words: string[] }> {
  const { records: all } = await world.store.list({}, { limit: 100 })
  const found = all.find(({ message }) => message.id === id)
  if (found === undefined) throw new Error(`there is no record ${id}`)
  const entry = found.id.split('.')[0] as string
  return { entry, words: String(await world.command('HGET', world.key('state'), entry)).split(' ') }
}

async function memberOf(world: LuaWorld, id: string): Promise<string> {
  const { entry, words } = await entryOf(world, id)
  return `${words[5]}${Number(words[1]) > 0 ? 'r' : 'f'}${words[2]}${entry}`
}

interface Damage {
  readonly name: string
  readonly expected: Partial<Record<RepairClass, number>>
  readonly harm: (world: LuaWorld) => Promise<unknown>
  /** The states of the records afterwards, where they differ from the initial ones. */
  readonly after?: Readonly<Record<string, string>>
}

const damages: readonly Damage[] = [
  {
    name: '(a) a member of ready without a record',
    expected: { orphans: 1 },
    harm: (world) => world.command('ZADD', world.key('ready'), '0', `lanelanef0000000000000001${'A'.repeat(22)}`),
  },
  {
    name: '(a) a member of waiting that is none',
    expected: { orphans: 1 },
    harm: (world) => world.command('ZADD', world.key('waiting'), '5', 'odd'),
  },
  {
    name: '(b) an open record in no index',
    expected: { unindexed: 1 },
    harm: async (world) => await world.command('ZREM', world.key('ready'), await memberOf(world, 'open')),
  },
  {
    name: '(b) a leased record in no index',
    expected: { unindexed: 1 },
    harm: async (world) => await world.command('ZREM', world.key('inflight'), (await entryOf(world, 'leased')).entry),
  },
  {
    name: '(c) a parked record in ready, a published one in inflight',
    expected: { settled: 2 },
    harm: async (world) => {
      await world.command('ZADD', world.key('ready'), '0', await memberOf(world, 'parked'))
      await world.command('ZADD', world.key('inflight'), '5', (await entryOf(world, 'published')).entry)
    },
  },
  {
    name: '(d) a lease that has run out',
    expected: { expired: 1 },
    harm: (world) => world.advance(lease + 1),
    after: { leased: 'ready' },
  },
  {
    name: '(e) a body without a state',
    // A lost state also invalidates the index members that refer to it, and its count.
    expected: { stateless: 1, orphans: 1, strays: 1, counts: 1 },
    harm: async (world) => await world.command('HDEL', world.key('state'), (await entryOf(world, 'open')).entry),
    after: { open: 'parked' },
  },
  {
    name: '(f) a state without a body',
    expected: { bodiless: 1 },
    harm: async (world) => await world.command('HDEL', world.key('entries'), (await entryOf(world, 'open')).entry),
    after: { open: 'gone', '': 'parked' },
  },
  {
    name: '(g) errors, sent and index without a state',
    expected: { strays: 3 },
    harm: async (world) => {
      await world.command('HSET', world.key('errors'), 'A'.repeat(22), 'x')
      await world.command('ZADD', world.key('sent'), '5', 'A'.repeat(22))
      await world.command('ZADD', world.key('index'), '0', `f0000000000000001${'A'.repeat(22)}`)
    },
  },
  {
    name: '(g) a record that the index and the list of published ones lack',
    expected: { strays: 3 },
    harm: async (world) => {
      const { entry, words } = await entryOf(world, 'published')
      await world.command('ZREM', world.key('index'), `s${words[2]}${entry}`)
      await world.command('ZREM', world.key('sent'), entry)
      await world.command('HDEL', world.key('destinations'), words[5] as string)
    },
  },
  {
    name: '(h) scores that are none, or others',
    expected: { times: 4 },
    harm: async (world) => {
      await world.command('ZADD', world.key('waiting'), '-inf', await memberOf(world, 'later'))
      await world.command('ZADD', world.key('waiting'), '1e300', await memberOf(world, 'failed'))
      await world.command('ZADD', world.key('inflight'), 'inf', (await entryOf(world, 'leased')).entry)
      await world.command('ZADD', world.key('sent'), '-1', (await entryOf(world, 'published')).entry)
    },
  },
  {
    name: '(h) a lease for ever',
    expected: { times: 1 },
    harm: async (world) => {
      const { entry, words } = await entryOf(world, 'leased')
      await world.command('HSET', world.key('state'), entry, words.with(7, '9'.repeat(16)).join(' '))
      await world.command('ZADD', world.key('inflight'), '9'.repeat(16), entry)
    },
    after: { leased: 'ready' },
  },
  {
    name: 'numbers that are wrong',
    expected: { counts: 2 },
    harm: async (world) => {
      await world.command('HSET', world.key('counts'), `${(await entryOf(world, 'open')).words[5]}o`, '77')
      await world.command('HSET', world.key('counts'), 'lanelaneo', '3')
    },
  },
  {
    name: 'a sequence that was lost',
    expected: { times: 1 },
    harm: (world) => world.command('DEL', world.key('seq')),
  },
]

/** Opens a world with one record in each state. */
async function open(): Promise<LuaWorld> {
  const world = await LuaWorld.open({ outbox: { retain: true } })
  const names = ['published', 'parked', 'failed', 'leased'] as const
  await world.store.enqueue([...names.map((name) => record(name)), record('open'), record('later', { delay: hour })])
  const [done, given, again, held] = await world.store.claim({ limit: 4, lease })
  if (!(done && given && again && held)) throw new Error('expected four claimed records')
  await world.store.settle([published(done), parked(given), failed(again, 2 * hour)])
  return world
}

async function statesOf(world: LuaWorld): Promise<Record<string, string>> {
  const { records: all } = await world.store.list({}, { limit: 100 })
  return Object.fromEntries(all.map(({ message, state }) => [message.id ?? '', state]))
}

describe('R31: the classes', () => {
  it.each(damages)('$name: counted in a dry run, repaired, and gone', async ({ harm, expected, after = {} }) => {
    await using world = await open()
    const before = await statesOf(world)
    await harm(world)
    const harmed = await world.dump()
    expect(await repaired(world.store, { dryRun: true })).toEqual(expected)
    expect(await world.dump()).toEqual(harmed)
    expect(await repaired(world.store)).toEqual(expected)
    expect(await brokenInvariants(world)).toEqual([])
    expect(await repaired(world.store)).toEqual({})
    const wanted = Object.entries({ ...before, ...after }).filter(([, state]) => state !== 'gone')
    expect(await statesOf(world)).toEqual(Object.fromEntries(wanted))
    const odd = Object.keys(expected).some((name) => name !== 'expired')
    expect(world.logger.at('warn').filter(({ text }) => text.includes('An outbox was repaired'))).toHaveLength(odd ? 1 : 0)
    expect(world.counted.filter((text) => text.startsWith('ackord.outbox.repaired')).sort()).toEqual(
      Object.entries(expected)
        .map(([name, count]) => `ackord.outbox.repaired ${name} ${count}`)
        .sort(),
    )
  })

  it('R33: a restored record waits as long as it would have', async () => {
    await using world = await open()
    const member = await memberOf(world, 'failed')
    const due = await world.command('ZSCORE', world.key('waiting'), member)
    await world.command('DEL', world.key('waiting'))
    expect(await repaired(world.store)).toEqual({ unindexed: 2 })
    expect(await world.command('ZSCORE', world.key('waiting'), member)).toBe(due)
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['open'])
  })

  it('recognises a record that lost its state: the same event is a duplicate, a different one a conflict', async () => {
    await using world = await open()
    await world.command('HDEL', world.key('state'), (await entryOf(world, 'open')).entry)
    await repairLuaOutbox(world.store)
    expect(await world.store.enqueue([record('open')])).toEqual(['duplicate'])
    expect(await world.store.enqueue([record('open', { data: Uint8Array.of(9) })])).toEqual(['conflict'])
    const [found] = (await world.store.list({ state: 'parked' }, { limit: 10 })).records.filter(({ message }) => message.id === 'open')
    const reason = expect.stringContaining('whether it was published is not known')
    expect(found).toMatchObject({ destination: 'orders', lastError: reason, cause: reason })
    expect(await world.store.history(found?.id ?? '')).toMatchObject([{ error: reason }])
    expect(await world.store.rearm({ ids: [found?.id ?? ''] })).toBe(1)
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['open'])
  })

  it('reports shards with too many records to count', async () => {
    await using world = await open()
    await world.command('HSET', world.key('counts'), 'lanelaneo', '3')
    expect(await repairLuaOutbox(world.store, { mostCounted: 5 })).toMatchObject({ uncounted: 1, counts: { counts: 0 } })
    expect(await repairLuaOutbox(world.store, { mostCounted: 6 })).toMatchObject({ uncounted: 0, counts: { counts: 1 } })
  })
})

describe.each(redisKinds.filter(({ name }) => !name.startsWith('ioredis 5')))('repairLuaOutbox() on $name', (kind) => {
  it('repairs every shard', async () => {
    await using world = await LuaWorld.open({ kind, keyPrefix: 'app:', outbox: { shards: 3, retain: true } })
    await world.store.enqueue(records(30))
    for (const shard of world.shards) {
      await world.command('DEL', world.key('ready', shard))
      await world.command('DEL', world.key('counts', shard))
    }
    const { counts, finished } = await repairLuaOutbox(world.store)
    expect({ ...counts, finished }).toMatchObject({ unindexed: 30, counts: 3, finished: true })
    for (const shard of world.shards) expect(await brokenInvariants(world, shard)).toEqual([])
    expect(await repaired(world.store)).toEqual({})
    expect(await world.store.claim({ limit: 100, lease })).toHaveLength(30)
  })
})

describe('R32: during normal operation', () => {
  it('a repair during appends, claims and settlements changes nothing, and no record is lost', async () => {
    await using world = await LuaWorld.open({ outbox: { retain: true } })
    const sent: (string | undefined)[] = []
    let storing = true
    const store = async (name: string) => {
      for (let number = 0; number < 60; number += 1)
        await world.store.enqueue(records(3, `${name} ${number} `, { delay: number % 3 === 0 ? 1 : 0 }))
    }
    const relay = async () => {
      while (storing || sent.length < 360) {
        const claimed = await world.another().claim({ limit: 7, lease })
        const outcomes = claimed.map((claim, index) => (index % 5 === 4 ? failed(claim) : published(claim)))
        sent.push(...idsOf(claimed.filter((_, index) => index % 5 !== 4)))
        await world.store.settle(outcomes)
      }
    }
    let passes = 0
    const found: object[] = []
    const repair = async () => {
      while (storing || sent.length < 360) {
        found.push(await repaired(world.store, { batchSize: 10 }))
        passes += 1
      }
    }
    const running = [relay(), relay(), repair()]
    await Promise.all([store('a'), store('b')])
    storing = false
    await Promise.all(running)
    expect(passes).toBeGreaterThan(0)
    expect(found).toEqual(found.map(() => ({})))
    expect(new Set(sent).size).toBe(360)
    expect(sent).toHaveLength(360)
    expect(await brokenInvariants(world)).toEqual([])
  })
})

/** A store whose calls block on request, as those of a paused process do. */
function paused(world: LuaWorld) {
  const reached = deferred<void>()
  const goOn = deferred<void>()
  let left = Number.POSITIVE_INFINITY
  const port: RedisPort = {
    ...world.port,
    async evaluate(script, keys, args, options) {
      left -= 1
      if (left === 0) {
        reached.resolve()
        await goOn.promise
      }
      return await world.port.evaluate(script, keys, args, options)
    },
  }
  const store = luaOutbox(new Redis({}, port, { logger: world.logger, deadline: 60_000 }), {
    tag: world.tag,
    logger: world.logger,
    retain: true,
  })
  return { store, reached: reached.promise, goOn: () => goOn.resolve(), at: (call: number) => (left = call) }
}

describe('R34: one at a time, in steps', () => {
  it('edge 17: a repair that was paused for longer than its lease does nothing more, and leaves the lock to the other one', async () => {
    await using world = await open()
    await world.command('DEL', world.key('ready'), world.key('waiting'))
    const one = paused(world)
    // Takes the lock, runs some steps, and is then paused.
    one.at(4)
    const running = repairLuaOutbox(one.store)
    await one.reached
    const lockKey = world.port.keyPrefix + world.shard.key('lock', 'repair')
    expect(await repairLuaOutbox(world.store)).toMatchObject({ busy: 1, finished: false })
    expect(await world.command('PEXPIRE', lockKey, '0')).toBe(1)
    const other = new RunnerLock(world.port, world.shard, { role: 'repair', token: 'the other', lease: 60_000 })
    expect(await other.acquire()).toBe(true)
    const before = await world.dump([...world.keys, lockKey])
    one.goOn()
    expect(await running).toMatchObject({ busy: 1, finished: false })
    expect(await world.dump([...world.keys, lockKey])).toEqual(before)
    expect(await world.command('GET', lockKey)).toBe('the other')
    const stale = new RunnerLock(world.port, world.shard, { role: 'repair', token: 'the first', lease: 60_000 })
    expect([await stale.acquire(), await stale.release()]).toEqual([false, false])
    expect([await other.release(), await other.release()]).toEqual([true, false])
    expect(await repaired(world.store)).toEqual({ unindexed: 3 })
  })

  it('a repair continues where the last one stopped', async () => {
    await using world = await LuaWorld.open({ outbox: { retain: true } })
    await world.store.enqueue(records(400))
    await world.command('DEL', world.key('ready'))
    const place = world.port.keyPrefix + world.shard.key('repair')
    let rounds = 0
    let unindexed = 0
    for (let finished = false; !finished; rounds += 1) {
      const report = await repairLuaOutbox(world.another(), { resume: true, batches: 3, batchSize: 50 })
      unindexed += report.counts.unindexed
      finished = report.finished
      expect(await world.command('EXISTS', place)).toBe(finished ? 0 : 1)
      if (rounds > 100) throw new Error('the repair does not finish')
    }
    expect(rounds).toBeGreaterThan(5)
    expect(unindexed).toBe(400)
    expect(await repaired(world.store)).toEqual({})
  })

  it('an invalid position means the beginning, and a key of the wrong type is named', async () => {
    await using world = await open()
    const place = world.port.keyPrefix + world.shard.key('repair')
    const lockKey = world.port.keyPrefix + world.shard.key('lock', 'repair')
    await world.command('HSET', place, 'phase', 'nowhere', 'cursor', 'x')
    expect(await repairLuaOutbox(world.store, { resume: true })).toMatchObject({ finished: true })
    await world.command('SET', place, 'a text')
    await expect(repairLuaOutbox(world.store)).rejects.toThrow(place)
    await world.command('DEL', place)
    await world.command('RPUSH', lockKey, 'a list')
    await expect(repairLuaOutbox(world.store)).rejects.toThrow(lockKey)
    await world.command('DEL', lockKey)
    await world.command('DEL', world.key('sent'))
    await world.command('SET', world.key('sent'), 'a text')
    const before = await world.dump()
    await expect(repairLuaOutbox(world.store)).rejects.toThrow(world.key('sent'))
    await expect(repairLuaOutbox(world.store, { dryRun: true })).rejects.toThrow(world.key('sent'))
    expect(await world.dump()).toEqual(before)
  })

  it('a signal ends it between two steps, and the lock is released', async () => {
    await using world = await open()
    const controller = new AbortController()
    controller.abort()
    expect(await repairLuaOutbox(world.store, { signal: controller.signal })).toMatchObject({ finished: false, busy: 0 })
    const one = paused(world)
    const second = new AbortController()
    one.at(3)
    const running = repairLuaOutbox(one.store, { signal: second.signal })
    await one.reached
    second.abort()
    one.goOn()
    expect(await running).toMatchObject({ finished: false, busy: 0 })
    expect(await repairLuaOutbox(world.store, { resume: true })).toMatchObject({ finished: true, busy: 0 })
  })

  it.each([{ batchSize: 0 }, { batches: 0 }, { lease: 5 }, { mostCounted: -1 }, { dry: true }])(
    'rejects invalid options: %o',
    async (options) => {
      await using world = await LuaWorld.open()
      await expect(repairLuaOutbox(world.store, options as RepairOptions)).rejects.toThrow(Object.keys(options)[0])
    },
  )
})

describe('repairWorker()', () => {
  it('repairs periodically, and stops in every state', async () => {
    const runtime = new VirtualRuntime()
    await using world = await LuaWorld.open({ outbox: { retain: true }, options: { runtime } })
    await world.store.enqueue(records(3))
    await world.command('DEL', world.key('ready'))
    const worker = repairWorker(world.store, { interval: 400 })
    await worker.stop()
    worker.start()
    worker.start()
    const done = async (count: number) => {
      await vi.waitFor(async () => {
        // The worker's pauses between two steps use this clock, too.
        await runtime.advance(100)
        expect(worker.health().lastReport).toMatchObject({ finished: true, counts: { unindexed: count } })
      }, 15_000)
    }
    expect(worker.health()).toMatchObject({ state: 'running', lastReport: undefined })
    await done(3)
    await world.command('DEL', world.key('ready'))
    await done(3)
    await done(0)
    const stopped = worker.stop()
    await runtime.advance(100)
    await stopped
    expect(worker.health()).toMatchObject({ state: 'idle', store: 'up' })
    await worker[Symbol.asyncDispose]()
    expect(runtime.timers).toBe(0)
  })

  it.each([{ interval: 0 }, { batchSize: 0 }, { batches: Number.POSITIVE_INFINITY }, { dryRun: true }])(
    'rejects invalid options: %o',
    async (options) => {
      await using world = await LuaWorld.open()
      expect(() => repairWorker(world.store, options as RepairWorkerOptions)).toThrow(Object.keys(options)[0])
    },
  )
})

describe('R43: missing permissions', () => {
  it('the permissions that the guide names are sufficient for expiry and repair', async () => {
    await using server = await startRedis()
    const names =
      'type time get incrby hget hset hsetnx hmget hstrlen hdel hincrby hgetall zadd zrem zrangebyscore zrangebylex zlexcount xadd zscore hexists hscan zscan hlen zrevrangebylex set pexpire del'
    const commands = `${names} eval evalsha ping info client hello`.split(' ').map((name) => `+${name}`)
    const admin = new Ioredis(server.url)
    await admin.call('ACL', 'SETUSER', 'limited', 'reset', 'on', '>secret', '~{acl}:*', ...commands)
    const client = new Ioredis(server.url, { username: 'limited', password: 'secret' })
    try {
      const outbox = luaOutbox(fromIoredis(client, { logger: silentLogger }), { tag: 'acl', retain: true, logger: silentLogger })
      const expiry = luaExpiry(outbox, namespace)
      for (const subject of ['a', 'b', 'c']) await expiry.recordExpiry(subject, 5, Uint8Array.of(1))
      expect(await expiry.revoke('a', revoked('a'))).toBe('revoked')
      const { expiries } = await expiry.dueExpiries(10)
      expect(await expiry.decideExpiry({ subject: 'b', dueAt: 5, context: undefined }, expired)).toBe('parked')
      expect(expiries.map(({ subject }) => subject)).toEqual(['b', 'c'])
      expect(await expiry.listParked(5)).toHaveLength(1)
      expect(await expiry.rearmParked(['b'])).toBe(1)
      for (const due of expiries) expect(await expiry.decideExpiry(due, expired)).toBe('enqueued')
      const [entry = ''] = (await admin.hkeys('{acl}:lua-outbox:state')) ?? []
      await admin.hdel('{acl}:lua-outbox:state', entry)
      await admin.del('{acl}:lua-outbox:ready', '{acl}:lua-outbox:seq', '{acl}:lua-outbox:destinations')
      expect(await repaired(outbox, { resume: true })).toMatchObject({ stateless: 1, unindexed: 2 })
      expect(await repaired(outbox)).toEqual({})
    } finally {
      client.disconnect()
      admin.disconnect()
    }
  })
})

describe('edge 5: the server is killed', () => {
  it('with appendfsync always a repair after the restart finds only expired leases, and no stored record is lost', async () => {
    await using server = await startRedis({ args: ['--appendfsync', 'always'] })
    await using world = await LuaWorld.open({ url: server.url, outbox: { retain: true }, options: { deadline: 3000 } })
    await fill(world)
    const stored: string[] = []
    const storing = (async () => {
      for (let number = 0; ; number += 1) {
        await world.store.enqueue([record(`more ${number}`)])
        stored.push(`more ${number}`)
        await world.store.settle((await world.store.claim({ limit: 1, lease })).map(published))
      }
    })().catch(() => {})
    // A repair is running as well.
    const repairing = repairLuaOutbox(world.store, { batchSize: 1 }).catch(() => undefined)
    await until('some are stored', () => stored.length > 20)
    await server.kill()
    await Promise.all([storing, repairing])
    await server.restart()
    await vi.waitFor(() => world.store.stats(), 15_000)
    await world.command('DEL', world.shard.key('lock', 'repair'))
    expect(await repaired(world.store)).toEqual({})
    expect(await brokenInvariants(world)).toEqual([])
    const found = new Set(idsOf((await world.store.list({}, { limit: 10_000 })).records))
    expect(stored.filter((id) => !found.has(id))).toEqual([])
  })
})

describe('R3, edge 2: memory is full', () => {
  it('a repair still works', async () => {
    await using server = await startRedis()
    await using world = await LuaWorld.open({ url: server.url, outbox: { retain: true } })
    await world.store.enqueue(records(5))
    await world.command('DEL', world.key('ready'), world.key('counts'))
    await world.command('CONFIG', 'SET', 'maxmemory', '1')
    await expect(world.store.enqueue([record('refused')])).rejects.toThrow('OOM')
    expect(await repaired(world.store)).toEqual({ unindexed: 5, counts: 1 })
    expect(await repaired(world.store)).toEqual({})
    await world.command('CONFIG', 'SET', 'maxmemory', '0')
    expect(await brokenInvariants(world)).toEqual([])
  })
})

describe('R42', () => {
  it('a repair uses only commands and options of Redis 6.0, also in scripts', async () => {
    await using server = await startRedis()
    await using world = await LuaWorld.open({ url: server.url, outbox: { retain: true } })
    await fill(world)
    await world.command('HDEL', world.key('state'), ((await world.command('HKEYS', world.key('state'))) as string[])[0] ?? '')
    await world.command('DEL', world.key('ready'), world.key('seq'), world.key('counts'))
    await using recording = await recordRedis(server.url)
    await repairLuaOutbox(world.store, { resume: true })
    const commands = await recording.commands()
    expect(problemsOn60(commands)).toEqual([])
    const seen = new Set(commands.map(({ words, inScript }) => `${inScript ? 'script' : 'client'} ${words[0]?.toUpperCase()}`))
    for (const expected of ['script HSCAN', 'script ZSCAN', 'script PEXPIRE', 'client HMGET']) expect(seen).toContain(expected)
  })
})
