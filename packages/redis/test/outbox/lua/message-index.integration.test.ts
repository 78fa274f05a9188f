import type { NewOutboxRecord } from '@ackord/outbox'
import { expect, it } from 'vitest'
import { maxOrigins } from '../../../src/outbox/lua/layout.ts'
import { luaOutbox } from '../../../src/outbox/lua/lua-outbox.ts'
import { repairLuaOutbox } from '../../../src/outbox/lua/repair/repair.ts'
import { Redis } from '../../../src/transaction/redis.ts'
import { typicalKinds } from '../../support/redis-clients.ts'
import { countingPort } from '../counting-port.ts'
import { idsOf, LuaWorld, lease, parked, published, record, records } from './lua-world.ts'

/** One call for the origins, one for the records. */
const indexedCost = 2

/** Stores records as versions without the index do: without counting their origins. */
async function storeAsBefore(world: LuaWorld, ...stored: readonly NewOutboxRecord[]): Promise<void> {
  const before = await originsOf(world)
  await world.store.enqueue(stored)
  for (const field of (await originsOf(world)).keys()) {
    const number = before.get(field)
    if (number === undefined) await world.command('HDEL', world.key('meta'), field)
    else await world.command('HSET', world.key('meta'), field, number)
  }
}

async function originsOf(world: LuaWorld): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  const fields = (await world.command('HKEYS', world.key('meta'))) as string[]
  for (const field of fields) {
    if (field.startsWith('origin ')) found.set(field, String(await world.command('HGET', world.key('meta'), field)))
  }
  return found
}

function searcher(world: LuaWorld, before?: (called: string) => Promise<void>) {
  const { port, costOf } = countingPort(world.port, before)
  const store = luaOutbox(new Redis({}, port, { logger: world.logger }), { tag: world.tag })
  return { store, search: async (messageId: string) => await costOf(async () => idsOf(await store.find({ messageId }))) }
}

async function parkOne(world: LuaWorld): Promise<string> {
  const [claim] = await world.store.claim({ limit: 1, lease })
  if (claim === undefined) throw new Error('expected one claimed record')
  await world.store.settle([parked(claim)])
  return claim.id
}

it.each(typicalKinds)('finds the records of a message id without reading the others: $name', async (kind) => {
  await using world = await LuaWorld.open({ kind })
  await world.store.enqueue([...records(300), record('e7', { destination: 'invoices' })])
  const { store, search } = searcher(world)
  expect(await search('e7')).toEqual([indexedCost, ['e7', 'e7']])
  expect(await search('unknown')).toEqual([indexedCost, []])
  const { records: found } = await store.list({ messageId: 'e7', destination: 'invoices', state: 'ready' }, { limit: 10 })
  expect(found.map(({ destination }) => destination)).toEqual(['invoices'])
})

it('finds records that a version without the index has stored, and reads all records only once for that', async () => {
  await using world = await LuaWorld.open()
  await storeAsBefore(world, ...records(250), record('other', { attributes: { source: '/legacy' } }))
  const { search } = searcher(world)
  const [cost, found] = await search('other')
  expect(found).toEqual(['other'])
  expect(cost).toBeGreaterThan(indexedCost)
  expect(await search('e250')).toEqual([indexedCost, ['e250']])
  // In a rolling upgrade it still does.
  await storeAsBefore(world, record('late', { destination: 'audit' }))
  expect((await search('late'))[1]).toEqual(['late'])
  await world.store.enqueue([record('new', { destination: 'audit' })])
  expect(await search('new')).toEqual([indexedCost, ['new']])
})

it('reads all records if a version without the index stores one while the index is built', async () => {
  await using world = await LuaWorld.open()
  await storeAsBefore(world, ...records(3))
  let isStored = false
  const { search } = searcher(world, async (called) => {
    if (called !== 'HSCAN' || isStored) return
    isStored = true
    await storeAsBefore(world, record('meanwhile', { destination: 'audit' }))
  })
  // The index has not seen its origin: it may have been stored behind the position of the scan.
  expect((await search('meanwhile'))[1]).toEqual(['meanwhile'])
  expect((await search('meanwhile'))[1]).toEqual(['meanwhile'])
  expect((await search('meanwhile'))[0]).toBe(indexedCost)
})

it('finds an edited record by its new message id, and nothing is left of it when it is gone', async () => {
  await using world = await LuaWorld.open()
  const { store, search } = searcher(world)
  await world.store.enqueue([record('a')])
  const moved = await parkOne(world)
  await world.store.rearm({ ids: [moved] }, { attributes: { id: 'b', source: '/elsewhere' }, destination: 'audit' })
  expect((await search('b'))[1]).toEqual(['b'])
  expect((await search('a'))[1]).toEqual([])
  expect(await world.command('HLEN', world.key('edited'))).toBe(1)
  const claimed = await world.store.claim({ limit: 1, lease })
  await world.store.settle(claimed.map(published))
  expect((await search('b'))[1]).toEqual([])
  expect(await world.command('EXISTS', world.key('edited'))).toBe(0)

  await world.store.enqueue([record('c')])
  const discarded = await parkOne(world)
  await world.store.rearm({ ids: [discarded] }, { attributes: { id: 'd' } })
  await parkOne(world)
  expect(await store.discard([discarded], 'wrong')).toBe(1)
  expect(await world.command('EXISTS', world.key('edited'))).toBe(0)

  await world.store.enqueue([record('e')])
  const cancelled = await parkOne(world)
  await world.store.rearm({ ids: [cancelled] }, { attributes: { id: 'f' } }, { delay: 60_000 })
  expect(await world.store.cancelNow([{ destination: 'orders', source: '/shop', id: 'e' }])).toEqual([true])
  expect(await world.command('EXISTS', world.key('edited'))).toBe(0)
})

it('finds records that were edited before the index was built', async () => {
  await using world = await LuaWorld.open()
  await world.store.enqueue([record('a')])
  const moved = await parkOne(world)
  await world.store.rearm({ ids: [moved] }, { attributes: { id: 'b' } })
  await world.command('DEL', world.key('edited'))
  await storeAsBefore(world, record('c'))
  const { search } = searcher(world)
  expect((await search('b'))[1]).toEqual(['b'])
  expect((await search('b'))[0]).toBeLessThanOrEqual(indexedCost + 1)
})

it('forgets origins without records when there are too many, and finds every record until then', async () => {
  await using world = await LuaWorld.open()
  const many = Array.from({ length: maxOrigins + 50 }, (_, index) => record(`e${index}`, { attributes: { source: `/orders/${index}` } }))
  for (let start = 0; start < many.length; start += 100) await world.store.enqueue(many.slice(start, start + 100))
  expect(await world.command('HLEN', world.key('meta'))).toBeLessThanOrEqual(maxOrigins + 1)
  const { search } = searcher(world)
  expect((await search(`e${maxOrigins + 49}`))[1]).toEqual([`e${maxOrigins + 49}`])
  for (;;) {
    const claimed = await world.store.claim({ limit: 500, lease })
    if (claimed.length === 0) break
    await world.store.settle(claimed.map(published))
  }
  await world.store.enqueue([record('last', { attributes: { source: '/orders/last' } })])
  expect((await search('last'))[1]).toEqual(['last'])
  expect(await search('last')).toEqual([indexedCost, ['last']])
  expect((await originsOf(world)).size).toBe(1)
})

it('a repair removes what a version without the index has left of an edited record', async () => {
  await using world = await LuaWorld.open()
  await world.command('HSET', world.key('edited'), 'a'.repeat(22), 'gone')
  const { counts } = await repairLuaOutbox(world.store)
  expect(counts.strays).toBe(1)
  expect(await world.command('EXISTS', world.key('edited'))).toBe(0)
})

it('list without payloads does not read the data', async () => {
  await using world = await LuaWorld.open()
  await world.store.enqueue([record('a', { data: new Uint8Array(100_000) })])
  let received = 0
  const port = {
    ...world.port,
    evaluate: async (...args: Parameters<typeof world.port.evaluate>) => {
      const reply = await world.port.evaluate(...args)
      received += JSON.stringify(reply).length
      return reply
    },
  }
  const store = luaOutbox(new Redis({}, port, { logger: world.logger }), { tag: world.tag })
  const { records: found } = await store.list({}, { limit: 10, payloads: false })
  expect(found.map(({ message }) => [message.id, message.data.length])).toEqual([['a', 0]])
  expect(received).toBeLessThan(10_000)
})
