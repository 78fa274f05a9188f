import { deferred, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../../../scripts/servers/index.mjs'
import { contextOf, withContext } from '../../../../src/outbox/lua/context.ts'
import { type ExpiryWorkerOptions, expiryWorker } from '../../../../src/outbox/lua/expiry/expiry-worker.ts'
import { type LuaExpiry, luaExpiry } from '../../../../src/outbox/lua/expiry/lua-expiry.ts'
import { until } from '../../../support/until.ts'
import { lease } from '../lua-world.ts'
import { ExpiryWorld, expired, namespace } from './expiry-world.ts'

const context = Uint8Array.of(1)

/** The same expiry with some calls replaced, to simulate a server that behaves differently. */
function changed(expiry: LuaExpiry, calls: Partial<LuaExpiry>): LuaExpiry {
  return withContext({ ...expiry, ...calls }, contextOf(expiry))
}

/** Records many expiries in one step; the number in the subject is how long ago each was due. */
async function recordMany(world: ExpiryWorld, count: number): Promise<void> {
  const lua = `for i = 1, ARGV[1] do
      local subject = string.format('t%06d', i)
      redis.call('ZADD', KEYS[1], string.format('%.0f', ARGV[2] - ARGV[1] + i), subject)
      redis.call('HSET', KEYS[2], subject, 'x')
    end`
  await world.world.command('EVAL', lua, '2', world.key('due'), world.key('contexts'), String(count), String(world.start))
}

describe('expiryWorker()', () => {
  it('R30: decides all due expiries, oldest first, in bounded rounds, and two workers decide each once', async () => {
    await using world = await ExpiryWorld.open()
    await recordMany(world, 250)
    const asked: number[] = []
    const expiry = changed(world.expiry, {
      dueExpiries: async (limit) => {
        const found = await world.expiry.dueExpiries(limit)
        asked.push(found.expiries.length)
        return found
      },
    })
    await using one = expiryWorker(expiry, expired, { batchSize: 40 }).start()
    await using other = expiryWorker(expiry, expired, { batchSize: 40 }).start()
    const decided = () => one.health().decisions.enqueued + other.health().decisions.enqueued
    await until('all are decided', () => decided() === 250)
    await Promise.all([one.stop(), other.stop()])
    expect(decided()).toBe(250)
    expect(Math.max(...asked)).toBe(40)
    const claimed = await world.world.store.claim({ limit: 1000, lease })
    expect(new Set(claimed.map(({ message }) => message.attributes.subject)).size).toBe(250)
    expect(claimed).toHaveLength(250)
  })

  it('edge 13: decides 100,000 expiries that are due at once in order, and no round takes more than its share', {
    timeout: 60_000,
  }, async () => {
    await using world = await ExpiryWorld.open({ options: { deadline: 30_000 } })
    await recordMany(world, 100_000)
    const first = await world.expiry.dueExpiries(100)
    expect(first.expiries.map(({ subject }) => subject)).toEqual(
      Array.from({ length: 100 }, (_, index) => `t${String(index + 1).padStart(6, '0')}`),
    )
    const worker = expiryWorker(world.expiry, expired).start()
    await until('a few rounds are done', () => worker.health().decisions.enqueued >= 500)
    await worker.stop()
    const { enqueued } = worker.health().decisions
    expect(enqueued % 100).toBe(0)
    expect(await world.world.command('ZCARD', world.key('due'))).toBe(100_000 - enqueued)
    // Exactly the oldest expiries were decided.
    expect((await world.expiry.dueExpiries(1)).expiries[0]?.subject).toBe(`t${String(enqueued + 1).padStart(6, '0')}`)
  })

  it('an expiry that cannot be decided does not block the others', async () => {
    await using world = await ExpiryWorld.open()
    for (let number = 0; number < 20; number += 1) await world.expiry.recordExpiry(`bad${number}`, world.start - 100, context)
    await world.expiry.recordExpiry('good', world.start, context)
    await using worker = expiryWorker(
      world.expiry,
      (expiry) => {
        if (expiry.subject.startsWith('bad')) throw new Error('no holder')
        return expired(expiry)
      },
      { batchSize: 5 },
    ).start()
    await until('the good one is decided', () => worker.health().decisions.enqueued === 1)
    await worker.stop()
    expect(worker.health().decisions).toEqual({ enqueued: 1, duplicate: 0, revoked: 0, not_due: 0, parked: 20 })
    expect(worker.health().store).toBe('up')
  })

  it('sleeps until the next expiry is due, and not longer than pollInterval', async () => {
    const runtime = new VirtualRuntime()
    await using world = await ExpiryWorld.open({ options: { runtime } })
    const sleeps = async (options: ExpiryWorkerOptions = {}) => {
      await using _worker = expiryWorker(world.expiry, expired, options).start()
      // The first round starts immediately; calls of the store have timers of five seconds.
      await until('the first round begins', async () => runtime.nextTimer === 0)
      await runtime.advance(0)
      await until('it sleeps', () => runtime.timers === 1 && runtime.nextTimer !== 5000)
      return runtime.nextTimer ?? Number.NaN
    }
    const longest = await sleeps()
    expect(longest).toBeGreaterThanOrEqual(800)
    expect(longest).toBeLessThanOrEqual(1000)
    await world.expiry.recordExpiry('t', world.start + 300, context)
    expect(await sleeps()).toBe(300)
    expect(await sleeps({ pollInterval: 100 })).toBeLessThanOrEqual(100)
    expect(runtime.timers).toBe(0)
  })

  it('waits longer and longer while the server is unavailable, logs it once, and continues by itself', async () => {
    const runtime = new VirtualRuntime()
    await using world = await ExpiryWorld.open({ options: { runtime } })
    await world.expiry.recordExpiry('t', world.start, context)
    let away = true
    let calls = 0
    const expiry = changed(world.expiry, {
      async dueExpiries(limit) {
        calls += 1
        if (away) throw new Error('the server is away')
        return await world.expiry.dueExpiries(limit)
      },
    })
    await using worker = expiryWorker(expiry, expired).start()
    const waits: number[] = []
    for (let attempt = 1; attempt <= 8; attempt += 1) {
      await runtime.advance(runtime.nextTimer ?? 0)
      expect(calls).toBe(attempt)
      waits.push(runtime.nextTimer ?? 0)
    }
    expect(waits[0]).toBeLessThanOrEqual(600)
    expect(waits[7]).toBeGreaterThanOrEqual(24_000)
    expect(worker.health()).toMatchObject({ state: 'running', store: 'down', lastError: { message: 'the server is away' } })
    away = false
    await runtime.advance(runtime.nextTimer ?? 0)
    await until('it is decided', () => worker.health().decisions.enqueued === 1)
    await until('it is up', () => worker.health().store === 'up')
    await worker.stop()
    const texts = world.world.logger.lines.map(({ level, text }) => `${level} ${text}`)
    expect(texts).toEqual(['warn The expiry worker failed. It tries again.', 'info The expiry worker works again.'])
  })

  it('continues by itself after the server was killed and restarted', { timeout: 60_000 }, async () => {
    await using server = await startRedis({ args: ['--appendfsync', 'always'] })
    await using world = await ExpiryWorld.open({ url: server.url, options: { deadline: 1000 } })
    await recordMany(world, 3)
    await using worker = expiryWorker(world.expiry, expired, { pollInterval: 20 }).start()
    await until('those before are decided', () => worker.health().decisions.enqueued === 3)
    await server.kill()
    await until('it has noticed', () => worker.health().store === 'down')
    await server.restart()
    await until('it works again', () => worker.health().store === 'up')
    await world.expiry.recordExpiry('after', world.start, context)
    await until('the one behind is decided', () => worker.health().decisions.enqueued === 4)
    await worker.stop()
    const lines = (text: string) => world.world.logger.lines.filter((line) => line.text === text).length
    expect(lines('The expiry worker failed. It tries again.')).toBe(lines('The expiry worker works again.'))
    await world.relay()
    expect(world.published).toHaveLength(4)
  })

  it('decides expiries that were recorded with fewer shards', async () => {
    await using world = await ExpiryWorld.open({ outbox: { shards: 4 } })
    const before = luaExpiry(world.world.another({ shards: 2 }), namespace)
    for (let number = 0; number < 20; number += 1) await before.recordExpiry(`t${number}`, world.start, context)
    await using worker = expiryWorker(world.expiry, expired, { batchSize: 5 }).start()
    await until('all are decided', () => worker.health().decisions.enqueued === 20)
    await worker.stop()
    expect((await world.expiry.dueExpiries(1)).expiries).toEqual([])
    const unknown = { subject: 't', dueAt: 1, context, tag: 'elsewhere' }
    await expect(world.expiry.decideExpiry(unknown, expired)).rejects.toThrow('tag')
  })

  it('pauses after a round without progress', async () => {
    const runtime = new VirtualRuntime()
    await using world = await ExpiryWorld.open({ options: { runtime } })
    let rounds = 0
    const expiry = changed(world.expiry, {
      async dueExpiries() {
        rounds += 1
        return { expiries: [{ subject: 't', dueAt: world.start, context }], now: world.start, nextIn: undefined }
      },
    })
    await using worker = expiryWorker(expiry, expired, { batchSize: 1 }).start()
    await runtime.advance(0)
    await until('it sleeps', () => worker.health().decisions.not_due === 1 && runtime.timers === 1)
    expect(rounds).toBe(1)
    expect(runtime.nextTimer).toBeGreaterThanOrEqual(800)
  })

  it('a failed decision does not keep others from being made', async () => {
    await using world = await ExpiryWorld.open()
    for (const subject of ['a', 'b', 'c']) await world.expiry.recordExpiry(subject, world.start, context)
    let failures = 0
    const expiry = changed(world.expiry, {
      async decideExpiry(due, event) {
        if (due.subject === 'b' && failures === 0) {
          failures += 1
          throw new Error('cut off')
        }
        return await world.expiry.decideExpiry(due, event)
      },
    })
    await using worker = expiryWorker(expiry, expired).start()
    await until('all are decided', () => worker.health().decisions.enqueued === 3)
    expect(failures).toBe(1)
  })

  it('starts and stops in every state, and stop() waits for the current decision', async () => {
    await using world = await ExpiryWorld.open()
    await world.expiry.recordExpiry('t', world.start, context)
    const begun = deferred<void>()
    const goOn = deferred<void>()
    const expiry = changed(world.expiry, {
      async decideExpiry(due, event) {
        begun.resolve()
        await goOn.promise
        return await world.expiry.decideExpiry(due, event)
      },
    })
    const worker = expiryWorker(expiry, expired)
    expect(worker.health().state).toBe('idle')
    await worker.stop()
    expect(worker.start()).toBe(worker)
    worker.start()
    await begun.promise
    const stopped = worker.stop()
    expect(worker.health().state).toBe('stopping')
    expect(() => worker.start()).toThrow(expect.objectContaining({ code: 'ACKORD_ALREADY_STARTED' }))
    goOn.resolve()
    await Promise.all([stopped, worker.stop()])
    expect(worker.health()).toMatchObject({ state: 'idle', decisions: { enqueued: 1 } })
    worker.start()
    expect(worker.health().state).toBe('running')
    await worker[Symbol.asyncDispose]()
  })

  it.each([{ batchSize: 0 }, { pollInterval: 0 }, { interval: 5 }])('rejects invalid options: %o', async (options) => {
    await using world = await ExpiryWorld.open()
    expect(() => expiryWorker(world.expiry, expired, options as ExpiryWorkerOptions)).toThrow(Object.keys(options)[0])
  })
})
