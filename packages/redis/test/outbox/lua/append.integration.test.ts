import { randomUUID } from 'node:crypto'
import { isAckordError } from '@ackord/core'
import { Redis as Ioredis } from 'ioredis'
import { createClient } from 'redis'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../../scripts/servers/index.mjs'
import { redisKey } from '../../../src/client/keys.ts'
import { outboxLua } from '../../../src/outbox/lua/index.ts'
import { redisKinds, redisUrl } from '../../support/redis-clients.ts'
import { brokenInvariants } from './invariants.ts'
import { hour, idsOf, ioredis6, LuaWorld, lease, published, record, records } from './lua-world.ts'

describe('storing twice', () => {
  it('R1, R6: a record that is stored twice is stored once, and the second call returns duplicate', async () => {
    await using world = await LuaWorld.open()
    expect(await world.store.enqueue([record('e1'), record('e2')])).toEqual(['inserted', 'inserted'])
    expect(await world.store.enqueue([record('e2'), record('e3'), record('e1')])).toEqual(['duplicate', 'inserted', 'duplicate'])
    expect(world.counted).toEqual([
      'ackord.outbox.enqueued inserted 2',
      'ackord.outbox.enqueued duplicate 2',
      'ackord.outbox.enqueued inserted 1',
    ])
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e1', 'e2', 'e3'])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('R2: a different body with the same id is a conflict, and the first record stays', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('e1', { data: Buffer.from('first') })])
    expect(await world.store.enqueue([record('e1', { data: Buffer.from('second') }), record('e2')])).toEqual(['conflict', 'inserted'])
    const claimed = await world.store.claim({ limit: 10, lease })
    expect(claimed.map(({ message }) => Buffer.from(message.data).toString())).toEqual(['first', 'e2'])
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('R2: a different time or trace is a duplicate; different content is a conflict', async () => {
    await using world = await LuaWorld.open()
    const at = (time: string, more: Record<string, string> = {}) => record('e1', { attributes: { time, traceparent: time, ...more } })
    expect(await world.store.enqueue([at('2026-01-01T00:00:00Z')])).toEqual(['inserted'])
    expect(await world.store.enqueue([at('2026-01-01T00:00:01Z')])).toEqual(['duplicate'])
    expect(await world.store.enqueue([at('2026-01-01T00:00:00Z', { subject: 'other' })])).toEqual(['conflict'])
    // The order of attributes does not matter.
    const other = record('e2', { attributes: { subject: 's', tenant: 't' } })
    const same = record('e2', { attributes: { tenant: 't', subject: 's' } })
    expect(await world.store.enqueue([other])).toEqual(['inserted'])
    expect(await world.store.enqueue([same])).toEqual(['duplicate'])
  })

  it('R2: a conflict refuses the whole transaction, and with onConflict: ignore the rest commits', async () => {
    await using world = await LuaWorld.open()
    const key = redisKey(world.tag, 'order')
    await world.store.enqueue([record('e1', { data: Buffer.from('first') })])
    const write = (store = world.store) =>
      world.redis.write(async (transaction) => {
        transaction.queue({ name: 'SET', args: [key, 'written'], keys: [0], kind: 'string' })
        await store.append(transaction, [record('e0'), record('e1', { data: Buffer.from('second') })])
      })
    const refused = await write().catch((error: unknown) => error)
    expect(isAckordError(refused, 'ACKORD_TRANSACTION_ABORTED') && !refused.retryable).toBe(true)
    expect(String(refused)).toContain('a different event')
    expect(await world.command('GET', key)).toBeNull()
    expect((await world.store.stats()).destinations).toMatchObject([{ ready: 1 }])

    await write(world.another({ onConflict: 'ignore' }))
    expect(await world.command('GET', key)).toBe('written')
    expect(world.counted).toContain('ackord.outbox.enqueued conflict 1')
    expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e1', 'e0'])
    await world.command('DEL', key)
  })

  it('R2: refuses a transaction with two appends that conflict with each other', async () => {
    await using world = await LuaWorld.open()
    const write = (second: string) =>
      world.redis.write(async (transaction) => {
        await world.store.append(transaction, [record('e1', { data: Buffer.from('first') })])
        await world.store.append(transaction, [record('e1', { data: Buffer.from(second) })])
      })
    await expect(write('second')).rejects.toThrow('a different event')
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])
    await write('first')
    expect(await world.store.claim({ limit: 10, lease })).toHaveLength(1)
    expect(await brokenInvariants(world)).toEqual([])
  })

  it('refuses two records of one call with the same id and different content before anything is stored', async () => {
    await using world = await LuaWorld.open()
    const both = [record('e1', { data: Buffer.from('a') }), record('e1', { data: Buffer.from('b') })]
    await expect(world.store.enqueue(both)).rejects.toThrow("have the id 'e1'")
    expect(await world.store.enqueue([record('e1'), record('e1')])).toEqual(['inserted', 'duplicate'])
  })

  it('R4: recognises a published record for as long as it is kept', async () => {
    await using world = await LuaWorld.open({ outbox: { retain: true } })
    await world.store.enqueue([record('e1')])
    await world.store.settle((await world.store.claim({ limit: 1, lease })).map(published))
    expect(await world.store.enqueue([record('e1')])).toEqual(['duplicate'])
    await world.advance(hour)
    expect(await world.store.deletePublished({ olderThan: hour, limit: 10 })).toBe(1)
    expect(await world.store.enqueue([record('e1')])).toEqual(['inserted'])
  })

  it('R4: without retention recognises a record until it is published', async () => {
    await using world = await LuaWorld.open()
    await world.store.enqueue([record('e1')])
    await world.store.settle((await world.store.claim({ limit: 1, lease })).map(published))
    expect(await world.store.enqueue([record('e1')])).toEqual(['inserted'])
  })

  it('edge 7: stores one of a hundred concurrent records with the same id, and a different body is a conflict', async () => {
    await using world = await LuaWorld.open()
    const stores = [world.store, world.another()]
    const results = await Promise.all(Array.from({ length: 100 }, (_, index) => (stores[index % 2] ?? world.store).enqueue([record('e1')])))
    expect(results.flat().filter((result) => result === 'inserted')).toHaveLength(1)
    expect(results.flat().filter((result) => result === 'duplicate')).toHaveLength(99)
    expect(await world.store.enqueue([record('e1', { data: Buffer.from('other') })])).toEqual(['conflict'])
    expect(await world.store.claim({ limit: 10, lease })).toHaveLength(1)
  })

  it('R5: stores no record of a call if one cannot be stored', async () => {
    await using world = await LuaWorld.open()
    await expect(world.store.enqueue([record('e1'), { ...record('e2'), destination: '' }])).rejects.toThrow('destination')
    await expect(world.store.enqueue([record('e1'), record('e2', { delay: Number.NaN })])).rejects.toThrow('delay')
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])
  })
})

describe('what is stored', () => {
  it('edge 15: keeps all bytes, and refuses a record that is too large with the limit in the message', async () => {
    await using world = await LuaWorld.open()
    const all = {
      empty: new Uint8Array(),
      nul: Uint8Array.of(0, 1, 0),
      binary: Uint8Array.from({ length: 256 }, (_, index) => index),
      list: Buffer.from('[]'),
      large: Buffer.from('[9007199254740993, 1.0, 1e400]'),
      slash: Buffer.from('"\\/ / 訂單 🚚"'),
    }
    await world.store.enqueue(Object.entries(all).map(([id, data]) => record(id, { data })))
    for (const { message } of await world.store.claim({ limit: 10, lease })) {
      expect(Buffer.from(message.data).equals(all[message.id as keyof typeof all])).toBe(true)
    }
    const tooLarge = world.store.enqueue([record('10 MB', { data: new Uint8Array(10 * 1024 * 1024) })])
    await expect(tooLarge).rejects.toThrow('maxSize is 5242880')
  })

  it('edge 16: keeps ids, destinations and tags with all kinds of characters', async () => {
    await using world = await LuaWorld.open({ outbox: { tag: `odd } tag:{ ${randomUUID()}`, name: 'a:b' } })
    const odd = ['a:b', '{x}', 'with blanks', '', '\0', 'größe 訂單', "it's", 'x'.repeat(3000)].filter((id) => id !== '')
    await world.store.enqueue(odd.map((id) => record(id, { destination: `to ${id}` })))
    const claimed = await world.store.claim({ limit: 100, lease })
    expect(idsOf(claimed)).toEqual(odd)
    expect(claimed.map(({ destination }) => destination)).toEqual(odd.map((id) => `to ${id}`))
    const kept = await world.store.claim({ limit: 100, lease, destinations: odd.map((id) => `to ${id}`) })
    expect(kept).toEqual([])
    for (const { id, message } of claimed) expect((await world.store.get(id))?.message.id).toBe(message.id)
    expect((await world.store.settle(claimed.map(published))).every((answer) => answer === 'applied')).toBe(true)
    // The cleanup of the world does not include this tag, so its keys are deleted here.
    const { keys } = world.store.prepare([record('x')])
    await world.command('DEL', ...keys)
  })

  it('edge 16: truncates an error text of a megabyte, but not within a character', async () => {
    await using world = await LuaWorld.open({ outbox: { redact: (error) => error.replaceAll('secret', '…') } })
    await world.store.enqueue([record('e1'), record('e2')])
    const [one, other] = await world.store.claim({ limit: 10, lease })
    if (!(one && other)) throw new Error('expected two claimed records')
    const long = `${'x'.repeat(9_999)}🚚${'y'.repeat(1_000_000)}`
    await world.store.settle([
      { id: one.id, token: one.token, result: 'parked', error: long },
      { id: other.id, token: other.token, result: 'parked', error: 'the secret is out' },
    ])
    expect((await world.store.get(one.id))?.lastError).toBe('x'.repeat(9_999))
    // R22: secrets in error texts are redacted before they are stored.
    expect((await world.store.get(other.id))?.lastError).toBe('the … is out')
  })

  it('edge 12: keeps the order of ten thousand records of one moment', async () => {
    await using world = await LuaWorld.open()
    const all = records(10_000)
    for (let start = 0; start < all.length; start += 1000) await world.store.enqueue(all.slice(start, start + 1000))
    const seen: (string | undefined)[] = []
    for (let claimed = await claimSome(); claimed.length > 0; claimed = await claimSome()) seen.push(...idsOf(claimed))
    expect(seen).toEqual(idsOf(all))

    async function claimSome() {
      return await world.store.claim({ limit: 700, lease })
    }
  })
})

describe('R7: in a MULTI of the user', () => {
  it('ioredis: stores business write and event together', async () => {
    await using world = await LuaWorld.open()
    const client = new Ioredis(redisUrl)
    try {
      const { lua, keys, args } = world.store.prepare([record('e1'), record('e2')])
      const key = redisKey(world.tag, 'ticket')
      const answers = await client
        .multi()
        .set(key, 'minted')
        .eval(lua, keys.length, ...keys, ...args)
        .exec()
      expect(answers?.map(([error]) => error)).toEqual([null, null])
      expect(await client.get(key)).toBe('minted')
      expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e1', 'e2'])
      await client.del(key)
    } finally {
      client.disconnect()
    }
  })

  it('node-redis, with a key prefix: stores business write and event together', async () => {
    const keyPrefix = `p-${randomUUID()}:`
    const nodeRedis = redisKinds.find(({ name }) => name === 'node-redis') ?? ioredis6
    await using world = await LuaWorld.open({ kind: nodeRedis, keyPrefix })
    const client = createClient({ url: redisUrl, keyPrefix })
    await client.connect()
    try {
      const { lua, keys, args } = world.store.prepare([record('e1')])
      const key = redisKey(world.tag, 'ticket')
      const answers = await client
        .multi()
        .set(key, 'minted')
        .eval(lua, { keys: [...keys], arguments: [...args] })
        .exec()
      expect(String(answers[1])).toMatch(/^\d+:\+$/)
      expect(await client.get(key)).toBe('minted')
      expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e1'])
      await client.del(key)
    } finally {
      client.destroy()
    }
  })

  it('edge 3: works after SCRIPT FLUSH, also inside of a pipeline, because the whole script is sent', async () => {
    await using server = await startRedis()
    await using world = await LuaWorld.open({ url: server.url })
    const client = new Ioredis(server.url)
    try {
      const [one, other] = [record('e1'), record('e2')].map((each) => world.store.prepare([each]))
      if (!(one && other)) throw new Error('expected two prepared appends')
      const pipelined = await client
        .pipeline()
        .script('FLUSH')
        .eval(one.lua, one.keys.length, ...one.keys, ...one.args)
        .exec()
      await client.script('FLUSH')
      const together = await client
        .multi()
        .eval(other.lua, other.keys.length, ...other.keys, ...other.args)
        .exec()
      expect([...(pipelined ?? []), ...(together ?? [])].map(([error]) => error)).toEqual([null, null, null])
      expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e1', 'e2'])
    } finally {
      client.disconnect()
    }
  })
})

/** KEYS: the ticket, then the keys of the outbox. ARGV: the holder of the ticket, then the records. */
const mintTicket = `${outboxLua}
local found = redis.call('TYPE', KEYS[1]).ok
if found ~= 'none' and found ~= 'hash' then return redis.error_reply('WRONGTYPE the ticket is a ' .. found) end
local problem = ackord.check(2, 2)
if problem then return redis.error_reply(problem) end
if found == 'hash' then return 'taken' end
ackord.enqueue(2, 2)
redis.call('HSET', KEYS[1], 'holder', ARGV[1])
return 'minted'`

describe('R7: in a script of the user, as when a ticket is minted', () => {
  async function openMint() {
    const world = await LuaWorld.open({ outbox: { shards: 4 } })
    const client = new Ioredis(redisUrl)
    const mint = async (ticket: string, holder: string) => {
      const tag = world.store.tagOf(ticket)
      const event = record(`${ticket}-minted`, { destination: 'tickets', data: Buffer.from(holder), attributes: { partitionkey: ticket } })
      const { keys, args } = world.store.prepare([event], { tag })
      const key = redisKey(tag, 'ticket', ticket)
      return await client.eval(mintTicket, keys.length + 1, key, ...keys, holder, ...args)
    }
    return { world, client, mint, [Symbol.asyncDispose]: async () => close() }

    async function close() {
      for (const { tag } of world.shards) {
        const left = await client.keys(`{${tag}}:ticket*`)
        if (left.length > 0) await client.del(...left)
      }
      client.disconnect()
      await world[Symbol.asyncDispose]()
    }
  }

  it('the ticket and its event are one step', async () => {
    await using opened = await openMint()
    const { world, client, mint } = opened
    expect(await mint('t-1', 'ada')).toBe('minted')
    // A different event with the same id: refused before the ticket is read.
    await expect(mint('t-1', 'bob')).rejects.toThrow('CONFLICT')
    expect(await mint('t-1', 'ada')).toBe('taken')
    expect(await client.hget(redisKey(world.store.tagOf('t-1'), 'ticket', 't-1'), 'holder')).toBe('ada')
    for (let number = 2; number < 20; number += 1) expect(await mint(`t-${number}`, 'ada')).toBe('minted')
    expect(new Set(world.shards.map(({ tag }) => tag)).size).toBe(4)
    const claimed = await world.store.claim({ limit: 100, lease })
    expect(idsOf(claimed).sort()).toEqual(Array.from({ length: 19 }, (_, index) => `t-${index + 1}-minted`).sort())
    for (const shard of world.shards) expect(await brokenInvariants(world, shard)).toEqual([])
  })

  it('edge 1: writes nothing if a business key or an outbox key has the wrong type', async () => {
    await using opened = await openMint()
    const { world, client, mint } = opened
    const tag = world.store.tagOf('t-1')
    const key = redisKey(tag, 'ticket', 't-1')
    await client.set(key, 'a text')
    await expect(mint('t-1', 'ada')).rejects.toThrow('the ticket is a string')
    expect((await world.store.stats()).destinations).toEqual([])
    await client.del(key)
    const shard = world.shards.find((one) => one.tag === tag)
    await client.set(shard?.key('waiting') ?? '', 'a text')
    await expect(mint('t-1', 'ada')).rejects.toThrow('WRONGTYPE')
    expect(await client.exists(key)).toBe(0)
    await client.del(shard?.key('waiting') ?? '')
    expect(await mint('t-1', 'ada')).toBe('minted')
  })

  it('edge 14: the library refuses a key without the tag before it is written', async () => {
    await using world = await LuaWorld.open()
    const write = world.redis.write(async (transaction) => {
      transaction.queue({ name: 'SET', args: ['elsewhere', '1'], keys: [0], kind: 'string' })
      await world.store.append(transaction, [record('e1')])
    })
    await expect(write).rejects.toThrow("'elsewhere'")
    expect(await world.command('GET', 'elsewhere')).toBeNull()
    expect(await world.store.claim({ limit: 10, lease })).toEqual([])
  })
})
