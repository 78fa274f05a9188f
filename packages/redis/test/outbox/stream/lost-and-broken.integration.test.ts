import { expect, it } from 'vitest'
import { startRedis } from '../../../../../scripts/servers/index.mjs'
import { redisKey } from '../../../src/client/keys.ts'
import type { RedisPort } from '../../../src/client/port.ts'
import { takeFresh } from '../../../src/outbox/stream/scripts/claim-scripts.ts'
import { streamOutbox } from '../../../src/outbox/stream/stream-outbox.ts'
import { Redis } from '../../../src/transaction/redis.ts'
import { idsOf, lease, record, records, StreamWorld } from './stream-world.ts'
import { TestTransaction } from './test-transaction.ts'

const published = ({ id, token }: { readonly id: string; readonly token: string }) => ({ id, token, result: 'published' }) as const

it('B13: published records are removed from the stream and from the pending list', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(700))
  const held = await world.store.claim({ limit: 700, lease })
  expect((await world.store.settle(held.map(published))).every((answer) => answer === 'applied')).toBe(true)
  expect(Number(await world.command('XLEN', world.key('to')))).toBe(0)
  expect(await world.pending()).toEqual([])
})

it('B13, 30: entries that were trimmed while pending are acked and logged once, and the others are published', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(3))
  const held = await world.store.claim({ limit: 3, lease })
  await world.age(held)
  await world.command('XTRIM', world.key('to'), 'MAXLEN', '1')
  const other = world.another()
  expect(idsOf(await other.claim({ limit: 10, lease }))).toEqual(['e3'])
  expect((await world.pending()).map(([entry]) => entry)).toEqual([held[2]?.id.split('/')[0]])
  expect(world.counted).toEqual(['ackord.outbox.trimmed 2'])
  expect(world.logger.at('error')).toHaveLength(1)
  expect(await other.claim({ limit: 10, lease })).toEqual([])
  expect(world.counted).toHaveLength(1)
})

it('B13: entries that were trimmed while they waited for a retry are logged, and leave nothing behind', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(2))
  const held = await world.store.claim({ limit: 2, lease })
  await world.store.settle(held.map(({ id, token }) => ({ id, token, result: 'failed', error: 'refused', retryAfter: 0 }) as const))
  await world.command('XTRIM', world.key('to'), 'MAXLEN', '1')
  expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e2'])
  expect(world.counted).toEqual(['ackord.outbox.trimmed 1'])
  expect(await world.command('ZCARD', world.key('retry'))).toBe(0)
  expect(await world.command('HLEN', world.key('errors'))).toBe(1)
})

it('settling a trimmed entry leaves nothing pending', async () => {
  await using world = await StreamWorld.open()
  await world.append(record('e1'))
  const held = await world.store.claim({ limit: 1, lease })
  await world.command('XTRIM', world.key('to'), 'MAXLEN', '0')
  await world.store.settle(held.map(published))
  expect(await world.pending()).toEqual([])
})

it('returns claimed records if another tag cannot be read: otherwise they would wait until their lease has expired', async () => {
  await using world = await StreamWorld.open()
  const tags = [world.tag, `${world.tag}-broken`]
  let broken = true
  const port: RedisPort = {
    ...world.port,
    evaluate: async (script, keys, args, options) => {
      if (broken && script === takeFresh && String(keys[0]).includes('-broken')) throw new Error('CLUSTERDOWN')
      return await world.port.evaluate(script, keys, args, options)
    },
  }
  const store = streamOutbox(new Redis({}, port), { tags, claimInterval: 0, logger: world.logger })
  await world.append(...records(3))
  const elsewhere = new TestTransaction(redisKey(tags[1] as string, 'anchor'))
  await store.append(elsewhere, [record('x', { destination: 'broken' })])
  await elsewhere.commit(world.port)

  const held = [...(await store.claim({ limit: 4, lease })), ...(await store.claim({ limit: 4, lease }).catch(() => []))]
  expect(idsOf(held).sort()).toEqual(['e1', 'e2', 'e3'])
  await expect(store.claim({ limit: 4, lease })).rejects.toThrow('CLUSTERDOWN')
  expect(world.logger.at('warn')).toHaveLength(1)
  broken = false
  expect(idsOf(await store.claim({ limit: 4, lease }))).toEqual(['x'])
  const left = ['destinations', 'empty', 'wake', 'to:broken'].map((name) => `{${tags[1]}}:outbox:${name}`)
  await world.command('DEL', ...left)
})

it('supports ten thousand destinations', { timeout: 60_000 }, async () => {
  await using world = await StreamWorld.open()
  const count = 10_000
  for (let from = 0; from < count; from += 1000) {
    const names = Array.from({ length: 1000 }, (_, index) => `d${from + index}`)
    await world.append(...names.filter((_, index) => index % 100 === 0).map((destination) => record(destination, { destination })))
    await world.command('SADD', world.destinationsKey, ...names)
  }
  expect(await world.store.claim({ limit: 1000, lease })).toHaveLength(count / 100)
  const names = (await world.command('SMEMBERS', world.destinationsKey)) as string[]
  await Promise.all(names.map((name) => world.command('DEL', ...world.allKeys(name))))
})

it('B14: reads records that were stored before the group was created', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(2))
  expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e1', 'e2'])
})

it('B14: creates the group once, with concurrent relays', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(40))
  const stores = Array.from({ length: 4 }, () => world.another())
  const claimed = (await Promise.all(stores.map((store) => store.claim({ limit: 10, lease })))).flat()
  expect(new Set(idsOf(claimed)).size).toBe(40)
})

it('B14: continues after all keys were deleted', async () => {
  await using world = await StreamWorld.open()
  await world.append(record('before'))
  const held = await world.store.claim({ limit: 1, lease })
  await world.command('DEL', ...world.allKeys())
  expect(await world.store.settle(held.map(published))).toEqual(['lost'])
  expect(await world.store.renew(held, lease)).toEqual([false])
  await world.store.release(held)
  expect(await world.store.claim({ limit: 1, lease })).toEqual([])
  await world.append(record('after'))
  expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['after'])
  expect((await world.store.stats()).destinations).toEqual([
    { destination: 'orders', ready: 0, waiting: 0, leased: 1, parked: 0, published: 0, oldestAge: expect.any(Number) },
  ])
})

it('B14: delivers everything again after its group was destroyed, and logs it', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(4))
  const [parked, failed] = await world.store.claim({ limit: 2, lease })
  await world.store.settle([
    { id: parked?.id ?? '', token: parked?.token ?? '', result: 'parked', error: 'too large' },
    { id: failed?.id ?? '', token: failed?.token ?? '', result: 'failed', error: 'refused', retryAfter: 3_600_000 },
  ])
  await world.command('XGROUP', 'DESTROY', world.key('to'), 'relay')
  expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e1', 'e2', 'e3', 'e4'])
  expect(world.logger.at('warn')).toHaveLength(1)
  expect(await world.store.list({ state: 'parked' }, { limit: 10 })).toEqual({ records: [], next: undefined })
})

it('parks entries that cannot be read, with the reason, and publishes the others', async () => {
  await using world = await StreamWorld.open()
  await world.command('XADD', world.key('to'), '*', 'something', 'else')
  await world.command('XADD', world.key('to'), '*', 'ackord', 'x;;{broken', 'data', '1')
  await world.command('XADD', world.key('to'), '*', 'ackord', 'x;;{"id":null}', 'data', '1')
  await world.command('XADD', world.key('to'), '*', 'ackord', 'x;;{"id":"1"}')
  await world.append(record('good'))
  expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['good'])
  const { records: parked } = await world.store.list({ state: 'parked' }, { limit: 10 })
  expect(parked).toHaveLength(4)
  for (const { lastError } of parked) expect(lastError).toMatch(/^It cannot be read: /)
  expect(world.counted.filter((line) => line === 'ackord.outbox.unreadable 1')).toHaveLength(4)
  expect(await world.store.claim({ limit: 10, lease })).toEqual([])
  expect(
    await world.store.discard(
      parked.map(({ id }) => id),
      'garbage',
    ),
  ).toBe(4)
})

it('refuses before anything is written if a key has the wrong type', async () => {
  for (const kind of ['ready', 'retry', 'parked', 'errors', 'uncounted'] as const) {
    await using world = await StreamWorld.open()
    await world.append(...records(4))
    const held = await world.store.claim({ limit: 3, lease })
    await world.command('DEL', world.key(kind))
    await world.command('SET', world.key(kind), 'something else')
    const before = [await world.pending(), await world.command('XLEN', world.key('to'))]
    const outcomes = held.map(({ id, token }, index) => {
      if (index === 0) return { id, token, result: 'published' } as const
      return index === 1
        ? ({ id, token, result: 'failed', error: 'x', retryAfter: 0 } as const)
        : ({ id, token, result: 'parked', error: 'x' } as const)
    })
    await expect(world.store.settle(outcomes)).rejects.toThrow(world.key(kind))
    await expect(world.store.release(held)).rejects.toThrow('WRONGTYPE')
    await expect(world.store.rearm({ ids: held.map(({ id }) => id) })).rejects.toThrow('WRONGTYPE')
    await expect(world.store.stats()).rejects.toThrow('WRONGTYPE')
    const pending = await world.pending()
    expect([pending.map(([entry, consumer, , count]) => [entry, consumer, count]), await world.command('XLEN', world.key('to'))]).toEqual([
      (before[0] as [string, string, number, number][]).map(([entry, consumer, , count]) => [entry, consumer, count]),
      before[1],
    ])
    expect(await world.command('GET', world.key(kind))).toBe('something else')
    await world.command('DEL', world.key(kind))
    expect(await world.store.settle(outcomes)).toEqual(['applied', 'applied', 'applied'])
  }
})

it('reads the other streams if one key has the wrong type, and logs it once', async () => {
  await using world = await StreamWorld.open()
  await world.append(record('e1'), record('e2', { destination: 'invoices' }))
  await world.command('DEL', world.key('to'))
  await world.command('SET', world.key('to'), 'something else')
  expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e2'])
  expect(await world.store.claim({ limit: 10, lease })).toEqual([])
  expect(world.logger.at('error')).toHaveLength(1)
})

it('a claim fails without the permission for XINFO: the destination does not count as empty', async () => {
  await using server = await startRedis()
  await using world = await StreamWorld.open({ url: server.url })
  await world.command('ACL', 'SETUSER', 'relay', 'on', '>secret', '~*', '+@all', '-xinfo')
  await world.append(record('e1'))
  const url = new URL(server.url)
  url.username = 'relay'
  url.password = 'secret'
  await using restricted = await StreamWorld.open({ url: url.href })
  const relay = streamOutbox(restricted.redis, { tags: [world.tag], claimInterval: 60_000 })
  // The first claim also looks for records of dead relays, which needs XINFO too; later claims do not.
  for (let round = 0; round < 2; round += 1) {
    await expect(relay.claim({ limit: 10, lease, retried: 'never' })).rejects.toThrow(/NOPERM|permission|can't run/i)
  }
})

it('claims continue with full memory, also for a new destination: publishing frees memory', async () => {
  await using server = await startRedis()
  await using world = await StreamWorld.open({ url: server.url })
  await world.append(...records(3))
  const held = await world.store.claim({ limit: 1, lease })
  await world.append(record('new', { destination: 'invoices' }))
  await world.command('CONFIG', 'SET', 'maxmemory', '1')
  const claimed = [...held, ...(await world.store.claim({ limit: 10, lease }))]
  expect(idsOf(claimed).sort()).toEqual(['e1', 'e2', 'e3', 'new'])
  expect(await world.store.settle(claimed.map(published))).toEqual(claimed.map(() => 'applied'))
  await world.command('CONFIG', 'SET', 'maxmemory', '0')
})
