import type { OutboxNotes } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { ownName } from '../../../../scripts/test-run.mjs'
import { redisKey } from '../../src/client/keys.ts'
import { redisNotes } from '../../src/outbox/redis-notes.ts'
import { streamOutbox } from '../../src/outbox/stream/stream-outbox.ts'
import { internalsOf } from '../../src/transaction/redis.ts'
import { noteKeys } from '../support/note-keys.ts'
import { type ClientSettings, type RedisKind, redisKinds } from '../support/redis-clients.ts'
import { LuaWorld, record as luaRecord, parked } from './lua/lua-world.ts'
import { lease, StreamWorld, record as streamRecord } from './stream/stream-world.ts'

interface NotesWorld extends AsyncDisposable {
  readonly notes: OutboxNotes
  /** A key with the client's prefix. */
  key(...parts: readonly string[]): string
  command(...words: readonly string[]): Promise<unknown>
}

async function openNotes(kind: RedisKind, settings: ClientSettings = {}): Promise<NotesWorld> {
  const client = await kind.open(settings)
  const { port } = internalsOf(client.redis)
  const tag = `test-${ownName()}`
  const keyOf = (...parts: readonly string[]) => redisKey(tag, 'outbox', ...parts)
  return {
    notes: redisNotes(port, keyOf),
    key: (...parts) => port.keyPrefix + keyOf(...parts),
    command: client.command,
    async [Symbol.asyncDispose]() {
      await client.command('DEL', ...noteKeys(keyOf).map((key) => port.keyPrefix + key))
      await client[Symbol.asyncDispose]()
    },
  }
}

const hour = 3_600_000
const ioredis6 = redisKinds[0] as RedisKind

it.each(redisKinds)('notes are read by $name, with a key prefix', async (kind) => {
  await using world = await openNotes(kind, { keyPrefix: 'app:' })
  await world.notes.put('audit', [{ name: '☃ 1', value: 'ä' }], hour)
  await world.notes.put('audit', [{ name: '2', value: '' }], hour)
  const found = await world.notes.read('audit', { limit: 10 })
  expect(found.map(({ name, value }) => [name, value])).toEqual([
    ['2', ''],
    ['☃ 1', 'ä'],
  ])
  for (const { at, age } of found) {
    expect(Number.isInteger(at) && Number.isInteger(age)).toBe(true)
    expect(age).toBeLessThan(60_000)
  }
  expect(await world.command('TYPE', world.key('notes', 'audit'))).toBe('hash')
  expect(await world.command('TYPE', world.key('note-times', 'audit'))).toBe('zset')
  expect(await world.notes.delete('audit', '☃ 1')).toBe(true)
  expect(await world.command('HKEYS', world.key('notes', 'audit'))).toEqual(['2'])
})

it('more old notes than one call deletes are deleted by the next ones', async () => {
  await using world = await openNotes(ioredis6)
  const many = Array.from({ length: 1500 }, (_, index) => ({ name: `n${index}`, value: 'x' }))
  await world.notes.put('rate', many, hour)
  const [first] = await world.notes.read('rate', { limit: 1 })
  if (first === undefined) throw new Error('expected a note')
  const times = world.key('note-times', 'rate')
  const old = String(-(first.at - 2 * hour) * 1000)
  await world.command('ZADD', times, ...many.flatMap(({ name }) => [old, name]))
  await world.notes.put('rate', [], hour)
  expect(await world.command('ZCARD', times)).toBe(500)
  await world.notes.put('rate', [{ name: 'new', value: 'y' }], hour)
  expect(await world.command('HKEYS', world.key('notes', 'rate'))).toEqual(['new'])
})

it.each(['notes', 'note-times'])('nothing is written if the key %s has another type', async (name) => {
  await using world = await openNotes(ioredis6)
  await world.command('SET', world.key(name, 'relay'), 'a text')
  await expect(world.notes.put('relay', [{ name: 'a', value: 'b' }], hour)).rejects.toThrow('WRONGTYPE')
  const other = name === 'notes' ? 'note-times' : 'notes'
  expect(await world.command('EXISTS', world.key(other, 'relay'))).toBe(0)
})

it('notes without a value are not read, and those with a time in the future have age 0', async () => {
  await using world = await openNotes(ioredis6)
  await world.notes.put('relay', [{ name: 'a', value: 'b' }], hour)
  const times = world.key('note-times', 'relay')
  await world.command('ZADD', times, '-1700000000000000', 'without a value', String(-(Date.now() + hour) * 1000), 'a')
  const found = await world.notes.read('relay', { limit: 10 })
  expect(found.map(({ name, age }) => [name, age])).toEqual([['a', 0]])
})

describe('on a server whose memory is full an operator can discard records', () => {
  it('of a stream outbox', async () => {
    await using server = await startRedis()
    await using world = await StreamWorld.open({ url: server.url })
    await world.append(streamRecord('e1'))
    const [claimed] = await world.store.claim({ limit: 1, lease })
    if (claimed === undefined) throw new Error('expected one claimed record')
    await world.store.settle([parked(claimed)])
    await world.command('CONFIG', 'SET', 'maxmemory', '1')
    expect(await world.store.discard([claimed.id], 'obsolete', { by: 'ann' })).toBe(1)
    expect(await world.store.audit({ limit: 10 })).toMatchObject([{ action: 'discard', by: 'ann', count: 1 }])
  })

  it('of a Lua outbox', async () => {
    await using server = await startRedis()
    await using world = await LuaWorld.open({ url: server.url })
    await world.store.enqueue([luaRecord('e1')])
    const [claimed] = await world.store.claim({ limit: 1, lease })
    if (claimed === undefined) throw new Error('expected one claimed record')
    await world.store.settle([parked(claimed)])
    await world.command('CONFIG', 'SET', 'maxmemory', '1')
    expect(await world.store.discard([claimed.id], 'obsolete', { by: 'ann' })).toBe(1)
    expect(await world.store.audit({ limit: 10 })).toMatchObject([{ action: 'discard', by: 'ann', count: 1 }])
  })
})

it('the notes of an outbox with several tags or shards are under the first', async () => {
  await using stream = await StreamWorld.open()
  const store = streamOutbox(stream.redis, { tags: [stream.tag, `${stream.tag}-2`] })
  await store.pause('orders')
  expect(await stream.command('HKEYS', redisKey(stream.tag, 'outbox', 'notes', 'pause'))).toEqual(['orders'])
  expect(await stream.store.pauses()).toMatchObject([{ destination: 'orders' }])

  await using lua = await LuaWorld.open({ outbox: { shards: 3 } })
  await lua.store.pause('orders')
  expect(await lua.command('HKEYS', lua.shard.key('notes', 'pause'))).toEqual(['orders'])
})
