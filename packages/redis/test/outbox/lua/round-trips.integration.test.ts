import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../../scripts/servers/index.mjs'
import type { RedisPort } from '../../../src/client/port.ts'
import { luaOutbox } from '../../../src/outbox/lua/lua-outbox.ts'
import { Redis } from '../../../src/transaction/redis.ts'
import { redisKinds } from '../../support/redis-clients.ts'
import { problemsOn60, recordRedis } from '../../support/redis-recording.ts'
import { useLuaOutbox } from './lua-outbox-flow.ts'
import { failed, LuaWorld, lease, parked, published, record, records } from './lua-world.ts'

describe('edge 24', () => {
  it('appending, a claim of 100, and every kind of settlement of 100 take one round trip each', async () => {
    await using world = await LuaWorld.open({ outbox: { retain: true } })
    let calls = 0
    const port: RedisPort = {
      ...world.port,
      send: (command, options) => counted(() => world.port.send(command, options)),
      evaluate: (script, keys, args, options) => counted(() => world.port.evaluate(script, keys, args, options)),
    }
    function counted<T>(call: () => Promise<T>): Promise<T> {
      calls += 1
      return call()
    }
    const redis = new Redis({}, port, { logger: world.logger })
    const store = luaOutbox(redis, { tag: world.tag, retain: true })
    const costOf = async <T>(work: () => Promise<T>): Promise<[number, T]> => {
      const before = calls
      const result = await work()
      return [calls - before, result]
    }
    expect((await costOf(() => store.enqueue(records(1, 'one'))))[0]).toBe(1)
    expect((await costOf(() => store.enqueue(records(299, 'many'))))[0]).toBe(1)
    expect((await costOf(() => redis.write(async (transaction) => store.append(transaction, [record('in a transaction')]))))[0]).toBe(1)
    const outcomes = [published, (claim: Parameters<typeof failed>[0]) => failed(claim, 60_000), parked] as const
    for (const outcome of outcomes) {
      const [claiming, held] = await costOf(() => store.claim({ limit: 100, lease }))
      expect([claiming, held.length]).toEqual([1, 100])
      expect((await costOf(() => store.renew(held, lease)))[0]).toBe(1)
      expect((await costOf(() => store.settle(held.map((claim) => outcome(claim)))))[0]).toBe(1)
    }
    // Concurrent calls are coalesced into one round trip, and each call gets its own result.
    const [atOnce, answers] = await costOf(() => Promise.all(['one1', 'new', 'new'].map((id) => store.enqueue([record(id)]))))
    expect([atOnce, answers.flat()]).toEqual([1, ['duplicate', 'inserted', 'duplicate']])
    await store.settle((await store.claim({ limit: 1, lease })).map(published))
    const [claiming, held] = await costOf(() => store.claim({ limit: 100, lease }))
    expect([claiming, held.length]).toEqual([1, 1])
    expect((await costOf(() => store.release(held)))[0]).toBe(1)
  })

  it('the cost of a claim does not grow with the number of published or parked records', async () => {
    await using server = await startRedis()
    await using world = await LuaWorld.open({ url: server.url, outbox: { retain: true } })
    const commandsOfClaim = async () => {
      await world.store.enqueue(records(20, `fresh ${Math.random()} `))
      await using recording = await recordRedis(server.url)
      const held = await world.store.claim({ limit: 20, lease })
      const count = (await recording.commands()).filter(({ inScript }) => inScript).length
      await world.store.settle(held.map(published))
      return count
    }
    const few = await commandsOfClaim()
    for (let round = 0; round < 4; round += 1) {
      await world.store.enqueue(records(500, `more ${round} `))
      const held = await world.store.claim({ limit: 500, lease })
      await world.store.settle(held.map((claim, index) => (index % 2 === 0 ? parked(claim) : published(claim))))
    }
    expect(await commandsOfClaim()).toBe(few)
  })
})

describe('R42', () => {
  it.each(redisKinds.filter(({ cluster }) => !cluster))(
    'uses only commands and options of Redis 6.0, also in scripts: $name',
    async (kind) => {
      await using server = await startRedis()
      await using client = await kind.open({ url: server.url })
      await using recording = await recordRedis(server.url)
      await useLuaOutbox(client.redis)
      const commands = await recording.commands()
      expect(problemsOn60(commands)).toEqual([])
      const seen = new Set(commands.map(({ words, inScript }) => `${inScript ? 'script' : 'client'} ${words[0]?.toUpperCase()}`))
      for (const expected of [
        'client EVALSHA',
        'client XREAD',
        'script ZRANGEBYLEX',
        'script ZRANGEBYSCORE',
        'script HSETNX',
        'script XADD',
      ]) {
        expect(seen).toContain(expected)
      }
    },
  )
})
