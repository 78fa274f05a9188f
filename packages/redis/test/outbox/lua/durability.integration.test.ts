import { silentLogger } from '@ackord/core'
import { recordingLogger, VirtualRuntime } from '@ackord/testkit'
import { Redis as Ioredis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../../scripts/servers/index.mjs'
import { fromIoredis } from '../../../src/index.ts'
import { type LuaDurabilityOptions, type LuaDurabilityReport, luaDurability } from '../../../src/outbox/lua/lua-durability.ts'
import { luaOutbox } from '../../../src/outbox/lua/lua-outbox.ts'
import { redisKinds } from '../../support/redis-clients.ts'
import { until } from '../../support/until.ts'
import { LuaWorld, record } from './lua-world.ts'

const durable = ['--appendfsync', 'always', '--maxmemory-policy', 'noeviction']

function states({ checks }: LuaDurabilityReport): Record<string, string> {
  return Object.fromEntries(checks.map(({ name, state }) => [name, state]))
}

/** Opens an outbox as a user with these permissions. */
async function asUser(url: string, rules: readonly string[]) {
  const admin = new Ioredis(url)
  await admin.call('ACL', 'SETUSER', 'limited', 'reset', 'on', '>secret', ...rules)
  const client = new Ioredis(url, { username: 'limited', password: 'secret' })
  client.on('error', () => {})
  const redis = fromIoredis(client, { logger: silentLogger })
  return {
    redis,
    outbox: luaOutbox(redis, { tag: 'acl' }),
    async [Symbol.asyncDispose]() {
      client.disconnect()
      admin.disconnect()
    },
  }
}

describe('R37: luaDurability() at the start', () => {
  it('reports all checks, and rejects for a violation with failAtStart', async () => {
    await using server = await startRedis({ args: durable })
    await using world = await LuaWorld.open({ url: server.url })
    const { redis, store } = world
    await using durability = luaDurability(redis, store)
    const report = await durability.start()
    expect(states(report)).toEqual({
      appendonly: 'ok',
      appendfsync: 'ok',
      'maxmemory-policy': 'ok',
      replicas: 'violated',
      version: 'ok',
      slots: 'ok',
      scripts: 'ok',
    })
    expect(report.state).toBe('violated')
    expect(await durability.start()).toBe(report)
    await expect(luaDurability(redis, store, { failAtStart: 'violated' }).start()).rejects.toThrow(/replicas.*min-replicas-to-write 1/)
    await using accepted = luaDurability(redis, store, { failAtStart: 'unknown', accept: ['replicas'] })
    expect((await accepted.start()).state).toBe('ok')

    await world.command('CONFIG', 'SET', 'appendfsync', 'everysec')
    await expect(luaDurability(redis, store, { failAtStart: 'violated', accept: ['replicas'] }).start()).rejects.toThrow(
      'appendfsync always',
    )
    await using relaxed = luaDurability(redis, store, { failAtStart: 'violated', accept: ['replicas', 'appendfsync'] })
    expect((await relaxed.start()).state).toBe('ok')
    expect(relaxed.health().state).toBe('running')
    await relaxed.stop()
    expect(relaxed.health().state).toBe('idle')
  })

  it('edge 18: a setting that may not be read is unknown, not ok', async () => {
    await using server = await startRedis({ args: durable })
    await using user = await asUser(server.url, ['~*', '+@all', '-config', '-info'])
    const { redis, outbox } = user
    const report = await luaDurability(redis, outbox).check()
    expect(report.state).toBe('unknown')
    expect(states(report)).toEqual({
      appendonly: 'unknown',
      appendfsync: 'unknown',
      'maxmemory-policy': 'unknown',
      replicas: 'unknown',
      version: 'unknown',
      slots: 'ok',
      scripts: 'ok',
    })
    await using lenient = luaDurability(redis, outbox, { failAtStart: 'violated', logger: silentLogger })
    expect((await lenient.start()).state).toBe('unknown')
    await expect(luaDurability(redis, outbox, { failAtStart: 'unknown', logger: silentLogger }).start()).rejects.toThrow('does not reveal')
  })

  it.each([
    ['scripts', ['~*', '+@all', '-@scripting'], /NOPERM|eval/i],
    ['the keys', ['~other:*', '+@all'], /NOPERM|key/i],
    ['ZADD', ['~*', '+@all', '-zadd'], /ZADD/],
  ])('edge 19: without a permission for %s it rejects with what is missing, whatever it was told', async (_, rules, expected) => {
    await using server = await startRedis({ args: durable })
    await using user = await asUser(server.url, rules)
    const durability = luaDurability(user.redis, user.outbox, { logger: silentLogger, accept: ['scripts', 'replicas'] })
    await expect(durability.start()).rejects.toThrow(expected)
    await expect(durability.start()).rejects.toThrow('cannot be used')
    expect(durability.health().state).toBe('idle')
  })

  it('does not continue if it is stopped while it starts', async () => {
    await using server = await startRedis({ args: durable })
    await using world = await LuaWorld.open({ url: server.url })
    const durability = luaDurability(world.redis, world.store, { logger: silentLogger })
    await durability.stop()
    const starting = durability.start()
    await durability.stop()
    expect((await starting).state).toBe('violated')
    expect(durability.health().state).toBe('idle')
    await Promise.all([durability.start(), durability.start()])
    expect(durability.health().state).toBe('running')
    await durability[Symbol.asyncDispose]()
  })

  it('rejects when the server cannot be reached', async () => {
    await using server = await startRedis({ args: durable })
    await using world = await LuaWorld.open({ url: server.url, options: { deadline: 300 } })
    await server.kill()
    await expect(luaDurability(world.redis, world.store).start()).rejects.toThrow()
    await server.restart()
  })

  it.each([{ interval: 0 }, { failAtStart: 'always' }, { accept: ['fsync'] }, { accept: 'replicas' }, { every: 5 }, { onReport: 1 }])(
    'rejects invalid options: %o',
    async (options) => {
      await using world = await LuaWorld.open()
      expect(() => luaDurability(world.redis, world.store, options as unknown as LuaDurabilityOptions)).toThrow(Object.keys(options)[0])
    },
  )
})

describe('R37: luaDurability() periodically', () => {
  it('edge 18: logs a changed setting once within one period, and that it is right again, while the outbox continues', async () => {
    await using server = await startRedis({ args: durable })
    const runtime = new VirtualRuntime()
    await using world = await LuaWorld.open({ url: server.url, options: { runtime } })
    const logger = recordingLogger()
    const counted: string[] = []
    const reports: LuaDurabilityReport[] = []
    const metrics = {
      count: (name: string, _: number, labels: object) => void counted.push([name, ...Object.values(labels)].join(' ')),
      observe() {},
      gauge() {},
    }
    const onReport = (report: LuaDurabilityReport) => {
      reports.push(report)
      throw new Error('of the listener')
    }
    await using durability = luaDurability(world.redis, world.store, { interval: 60_000, accept: ['replicas'], logger, metrics, onReport })
    expect((await durability.start()).state).toBe('ok')
    expect(durability.health()).toMatchObject({ state: 'running', store: 'up', lastReport: { state: 'ok' } })
    const period = async () => {
      const before = reports.length
      await until('it sleeps', () => runtime.timers === 1)
      expect(runtime.nextTimer).toBeLessThanOrEqual(66_000)
      await runtime.advance(runtime.nextTimer ?? 0)
      await until('it has checked', () => reports.length === before + 1)
      return reports.at(-1)?.state
    }
    await world.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    expect(await period()).toBe('violated')
    expect(await period()).toBe('violated')
    expect(counted).toEqual(Array.from({ length: 2 }, () => 'ackord.outbox.durability_violations maxmemory-policy'))
    expect(await world.store.enqueue([record('e1')])).toEqual(['inserted'])
    await world.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    expect(await period()).toBe('ok')
    expect(counted).toHaveLength(2)
    await durability.stop()
    const texts = logger.lines.filter(({ level }) => level !== 'error').map(({ level, text }) => `${level} ${text.split('.')[0]}`)
    expect(texts).toEqual(['warn The durability of the outbox is not sufficient', 'info The durability of the outbox is sufficient again'])
    // An error that the listener throws is logged and has no other effect.
    expect(logger.at('error')).toHaveLength(reports.length)
    expect(runtime.timers).toBe(0)
  })
})

describe.each(redisKinds.filter(({ cluster }) => cluster))('luaDurability() on $name', (kind) => {
  it('checks every node of the shards, and the slots of their keys', async () => {
    await using world = await LuaWorld.open({ kind, outbox: { shards: 3 } })
    const report = await luaDurability(world.redis, world.store).check()
    const named = (name: string) => report.checks.filter((check) => check.name === name)
    expect(named('version').map(({ state }) => state)).toEqual(['ok', 'ok', 'ok'])
    expect(named('slots').map(({ state }) => state)).toEqual(['ok'])
    expect(named('scripts').map(({ state }) => state)).toEqual(['ok'])
    expect(named('maxmemory-policy').map(({ state }) => state)).toEqual(['ok', 'ok', 'ok'])

    // A prefix that disables the hash tag.
    await using hidden = await LuaWorld.open({ kind, keyPrefix: '{}' })
    const broken = (await luaDurability(hidden.redis, hidden.store).check()).checks
    expect(broken.find(({ name }) => name === 'slots')).toMatchObject({ state: 'violated', text: expect.stringContaining("prefix '{}'") })
    expect(broken.find(({ name }) => name === 'scripts')).toMatchObject({ state: 'violated' })
  })
})
