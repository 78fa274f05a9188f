import { expect, it } from 'vitest'
import { startRedis } from '../../../../../scripts/servers/index.mjs'
import { script } from '../../../src/client/port.ts'
import { fieldsOf } from '../../../src/outbox/record-fields.ts'
import { type StreamOutbox, streamOutbox } from '../../../src/outbox/stream/stream-outbox.ts'
import { Redis } from '../../../src/transaction/redis.ts'
import { typicalKinds } from '../../support/redis-clients.ts'
import { countingPort } from '../counting-port.ts'
import { idsOf, lease, record, records, StreamWorld, type StreamWorldSettings } from './stream-world.ts'

/** One call for the destinations, one for the records of the destination. */
const indexedCost = 2

async function openIndexed(settings: StreamWorldSettings = {}): Promise<StreamWorld> {
  return await StreamWorld.open({ ...settings, outbox: { messageIndex: true } })
}

/** Stores a record as stores and versions without the index do. */
async function storeAsBefore(world: StreamWorld, ...ids: readonly string[]): Promise<void> {
  await world.command('SADD', world.destinationsKey, 'orders')
  for (const id of ids) await world.command('XADD', world.key('to'), '*', ...fieldsOf(record(id), undefined, `old-${id}`))
}

interface SearcherSettings {
  readonly messageIndex?: boolean | undefined
  /** Is called before each call, with the name of the command or the text of the script. */
  readonly before?: ((called: string) => Promise<void>) | undefined
}

function searcher(world: StreamWorld, { messageIndex = true, before }: SearcherSettings = {}) {
  const { port, costOf } = countingPort(world.port, before)
  const store = streamOutbox(new Redis({}, port, { logger: world.logger }), { tags: [world.tag], messageIndex })
  return { store, search: async (messageId: string) => await costOf(async () => idsOf(await store.find({ messageId }))) }
}

async function claimOne(store: StreamOutbox) {
  const [claim] = await store.claim({ limit: 1, lease })
  if (claim === undefined) throw new Error('expected one claimed record')
  return claim
}

it.each(typicalKinds)('finds the records of a message id without reading the others: $name', async (kind) => {
  await using world = await openIndexed({ kind })
  await world.redis.write((transaction) => world.store.append(transaction, records(300)))
  const { store, search } = searcher(world)
  expect(await search('e7')).toEqual([indexedCost, ['e7']])
  expect(await search('unknown')).toEqual([indexedCost, []])
  const claimed = await world.store.claim({ limit: 10, lease })
  expect(claimed).toHaveLength(10)
  const { records: found } = await store.list({ messageId: 'e7', destination: 'orders', state: 'leased' }, { limit: 10 })
  expect(found).toMatchObject([{ id: claimed[6]?.id, state: 'leased', attempts: 1 }])
  expect((await store.list({ messageId: 'e7', state: 'parked' }, { limit: 10 })).records).toEqual([])
})

it('leaves nothing in the index when a record is published, discarded, cancelled or moved', async () => {
  await using world = await openIndexed()
  const { search } = searcher(world)
  await world.append(record('published'))
  await world.store.settle([{ ...(await claimOne(world.store)), result: 'published' }])
  expect(await world.leftovers()).toEqual([])

  await world.append(record('discarded'))
  const discarded = await claimOne(world.store)
  await world.store.settle([{ ...discarded, result: 'parked', error: 'too large' }])
  expect(await search('discarded')).toEqual([indexedCost, ['discarded']])
  await world.store.discard([discarded.id], 'wrong')
  expect(await world.leftovers()).toEqual([])

  await world.append(record('cancelled', { delay: 60_000 }))
  const references = [{ destination: 'orders', source: '/shop', id: 'cancelled' }]
  await world.redis.write((transaction) => world.store.cancel(transaction, references))
  expect(await world.leftovers()).toEqual([])

  await world.append(record('edited'))
  const edited = await claimOne(world.store)
  await world.store.settle([{ ...edited, result: 'parked', error: 'no route' }])
  await world.store.rearm({ ids: [edited.id] }, { attributes: { id: 'new id' }, destination: 'audit' })
  expect(await world.leftovers()).toEqual([])
  expect((await search('edited'))[1]).toEqual([])
  expect((await search('new id'))[1]).toEqual(['new id'])
  await world.store.settle([{ ...(await claimOne(world.store)), result: 'published' }])
  expect(await world.leftovers('audit')).toEqual([])
  expect((await search('new id'))[1]).toEqual([])
})

it('finds records that a version without the index has stored, and reads all records only once for that', async () => {
  await using world = await openIndexed()
  await storeAsBefore(world, ...Array.from({ length: 250 }, (_, index) => `e${index}`))
  const { search } = searcher(world)
  const [cost, found] = await search('e249')
  expect(found).toEqual(['e249'])
  expect(cost).toBeGreaterThan(indexedCost)
  expect(await search('e7')).toEqual([indexedCost, ['e7']])
  // In a rolling upgrade it still does.
  await world.append(record('new'))
  await storeAsBefore(world, 'late')
  expect((await search('late'))[1]).toEqual(['late'])
  await world.append(record('newer'))
  expect(await search('newer')).toEqual([indexedCost, ['newer']])
})

it('reads all records if a version without the index stores one while the index is built', async () => {
  await using world = await openIndexed()
  await storeAsBefore(world, 'e1', 'e2')
  let isStored = false
  const { search } = searcher(world, {
    async before(called) {
      // The last script of the building. All entries have been read.
      if (isStored || !called.includes("redis.call('HSET', KEYS[5], '', number)")) return
      isStored = true
      await storeAsBefore(world, 'meanwhile')
    },
  })
  expect((await search('meanwhile'))[1]).toEqual(['meanwhile'])
  expect(isStored).toBe(true)
  expect((await search('meanwhile'))[1]).toEqual(['meanwhile'])
  expect(await search('meanwhile')).toEqual([indexedCost, ['meanwhile']])
})

it('removes what a version without the index has left of published records when the index is built', async () => {
  await using world = await openIndexed()
  await world.append(record('e1'), record('e2'))
  const claim = await claimOne(world.store)
  const entry = claim.id.slice(0, claim.id.indexOf('/'))
  await world.command('XACK', world.key('to'), 'relay', entry)
  await world.command('XDEL', world.key('to'), entry)
  const { search } = searcher(world)
  expect((await search('e1'))[1]).toEqual([])
  expect(await world.leftovers()).toHaveLength(4)
  await storeAsBefore(world, 'e3')
  expect((await search('e3'))[1]).toEqual(['e3'])
  expect((await world.leftovers()).filter((field) => field.startsWith('m')).sort()).toEqual(['me2', 'me3'])
  expect(await world.leftovers()).toHaveLength(4)
})

it('finds all records of an event that was appended twice, and the second when the first is published', async () => {
  await using world = await openIndexed()
  await world.append(record('twice'))
  await world.append(record('twice'), record('other'))
  const { search } = searcher(world)
  expect((await search('twice'))[1]).toEqual(['twice', 'twice'])
  expect(await search('twice')).toEqual([indexedCost, ['twice', 'twice']])
  await world.store.settle([{ ...(await claimOne(world.store)), result: 'published' }])
  expect(await search('twice')).toEqual([indexedCost, ['twice']])
  await world.store.settle([{ ...(await claimOne(world.store)), result: 'published' }])
  expect(await search('twice')).toEqual([indexedCost, []])
  expect((await world.leftovers()).toSorted()).toEqual([expect.stringMatching(/^e\d+-\d+$/), 'mother'])
})

it('finds records after their group was lost, and after their index was lost', async () => {
  await using world = await openIndexed()
  await world.append(record('e1'), record('e2'))
  await claimOne(world.store)
  await world.command('XGROUP', 'DESTROY', world.key('to'), 'relay')
  await world.store.claim({ limit: 1, lease })
  const { search } = searcher(world)
  expect(await search('e2')).toEqual([indexedCost, ['e2']])
  await world.command('DEL', world.key('errors'))
  expect((await search('e2'))[1]).toEqual(['e2'])
})

it('reads all records on servers that do not count the entries of a stream', async () => {
  await using world = await openIndexed()
  await world.append(...records(3))
  const port = {
    ...world.port,
    evaluate: (given, keys, args, options) =>
      world.port.evaluate(script(given.lua.replaceAll('entries-added', 'not in Redis 6')), keys, args, options),
  } satisfies typeof world.port
  const store = streamOutbox(new Redis({}, port, { logger: world.logger }), { tags: [world.tag], messageIndex: true })
  expect(idsOf(await store.find({ messageId: 'e2' }))).toEqual(['e2'])
})

it.each(['hset', 'hincrby'])('stores and finds records if the server refuses %s for the index', async (command) => {
  await using server = await startRedis()
  await using world = await openIndexed({ url: server.url })
  await world.append(record('e1'))
  await world.command('ACL', 'SETUSER', 'default', `-${command}`)
  await world.redis.write((transaction) => world.store.append(transaction, [record('e2')]))
  await world.command('ACL', 'SETUSER', 'default', `+${command}`)
  await world.append(record('e3'))
  const { search } = searcher(world)
  for (const id of ['e1', 'e2', 'e3']) expect((await search(id))[1]).toEqual([id])
})

it('finds the records of a stream in which entries of a failed transaction were undone', async () => {
  await using world = await openIndexed()
  await world.append(record('e1'), record('e2'))
  const undone = world.redis.write(
    async (transaction) => {
      await world.store.append(transaction, [record('e3')])
      // SADD without a member: the server refuses it after the event was stored.
      transaction.queueEvent({ name: 'SADD', args: [world.destinationsKey], keys: [0], kind: 'set' })
    },
    { rollback: true },
  )
  await expect(undone).rejects.toThrow()
  const { search } = searcher(world)
  expect((await world.store.list({}, { limit: 10 })).records).toHaveLength(2)
  for (const [id, found] of Object.entries({ e1: ['e1'], e2: ['e2'], e3: [] })) expect((await search(id))[1]).toEqual(found)
})

it('finds a record that a store without the index adds to a stream that a failed transaction had created', async () => {
  await using world = await openIndexed()
  const undone = world.redis.write(
    async (transaction) => {
      await world.store.append(transaction, [record('e1')])
      // SADD without a member: the server refuses it after the event was stored.
      transaction.queueEvent({ name: 'SADD', args: [world.destinationsKey], keys: [0], kind: 'set' })
    },
    { rollback: true },
  )
  await expect(undone).rejects.toThrow()
  expect(await world.command('EXISTS', world.key('to'))).toBe(0)
  await storeAsBefore(world, 'e2')
  expect((await searcher(world, { messageIndex: false }).search('e2'))[1]).toEqual(['e2'])
  expect((await searcher(world).search('e2'))[1]).toEqual(['e2'])
})

it('is off by default: no command of the index runs, and searches read pages', async () => {
  await using server = await startRedis()
  await using world = await StreamWorld.open({ url: server.url })
  await world.command('CONFIG', 'RESETSTAT')
  await world.redis.write((transaction) => world.store.append(transaction, records(300)))
  expect(await searcher(world, { messageIndex: false }).search('e7')).toEqual([5, ['e7']])
  const claimed = await world.store.claim({ limit: 300, lease })
  await world.store.settle(claimed.map((claim) => ({ ...claim, result: 'published' })))
  const used = [...String(await world.command('INFO', 'commandstats')).matchAll(/cmdstat_(\S+):/g)].map(([, name]) => name)
  expect(used).toContain('xadd')
  expect(used.filter((name) => ['hset', 'hsetnx', 'hincrby', 'hmget', 'hdel', 'hscan', 'xinfo|stream'].includes(String(name)))).toEqual([])
  expect(await world.command('EXISTS', world.key('errors'))).toBe(0)
})

it('is used by stores that do not keep it, as the command, if it is complete; they never build it', async () => {
  await using world = await openIndexed()
  const { store, search } = searcher(world, { messageIndex: false })
  await world.append(...records(150))
  expect(await search('e7')).toEqual([indexedCost, ['e7']])
  await storeAsBefore(world, 'late')
  const before = await world.leftovers()
  expect(await search('late')).toEqual([indexedCost + 1, ['late']])
  expect(await search('e7')).toEqual([indexedCost + 1, ['e7']])
  expect(await world.leftovers()).toEqual(before)
  expect((await searcher(world).search('late'))[1]).toEqual(['late'])
  expect(await search('late')).toEqual([indexedCost, ['late']])
  // What it edits stays in the index.
  const [found] = await store.find({ messageId: 'e7' })
  if (found === undefined) throw new Error('expected the record')
  expect(await store.park([found.id], 'wrong id')).toBe(1)
  expect(await search('e7')).toEqual([indexedCost, ['e7']])
  expect(await store.rearm({ ids: [found.id] }, { attributes: { id: 'edited' } })).toBe(1)
  expect(await search('edited')).toEqual([indexedCost, ['edited']])
})

it('misses no record while processes change from no index to an index and back, and leaves nothing', async () => {
  await using world = await openIndexed()
  const plain = world.another({ messageIndex: false })
  const searchers = [searcher(world), searcher(world, { messageIndex: false })]
  const stored: string[] = []
  const published: string[] = []
  // Mixed in different orders: as before a change, in the middle of it, after it, and back.
  for (const [round, writers] of [[plain], [plain, world.store], [world.store], [world.store, plain], [plain], [world.store]].entries()) {
    for (const [index, writer] of writers.entries()) {
      const own = [`r${round}-${index}-a`, `r${round}-${index}-b`]
      stored.push(...own)
      await world.redis.write((transaction) =>
        writer.append(
          transaction,
          own.map((id) => record(id)),
        ),
      )
    }
    // One of the two relays publishes a record meanwhile.
    const relay = round % 2 === 0 ? plain : world.store
    const claim = await claimOne(relay)
    await relay.settle([{ ...claim, result: 'published' }])
    published.push(String(claim.message.id))
    for (const { search } of round % 2 === 0 ? searchers : searchers.toReversed()) {
      for (const id of stored) expect([id, (await search(id))[1]]).toEqual([id, published.includes(id) ? [] : [id]])
    }
  }
  const rest = await plain.claim({ limit: 100, lease })
  expect([...published, ...idsOf(rest)].toSorted()).toEqual(stored.toSorted())
  await plain.settle(rest.map((claim) => ({ ...claim, result: 'published' })))
  expect(await world.leftovers()).toEqual([])
})

it('reads all records if the user may not complete the index', async () => {
  await using server = await startRedis()
  await using world = await openIndexed({ url: server.url })
  await storeAsBefore(world, 'e1')
  await world.append(record('e2'))
  await world.command('ACL', 'SETUSER', 'default', '-hsetnx')
  for (const id of ['e1', 'e2']) expect((await searcher(world).search(id))[1]).toEqual([id])
})

it('list without payloads does not read the data', async () => {
  await using world = await openIndexed()
  await world.append(record('a', { data: new Uint8Array(100_000) }))
  let received = 0
  const port = {
    ...world.port,
    evaluate: async (...args: Parameters<typeof world.port.evaluate>) => {
      const reply = await world.port.evaluate(...args)
      received += JSON.stringify(reply).length
      return reply
    },
  }
  const store = streamOutbox(new Redis({}, port, { logger: world.logger }), { tags: [world.tag] })
  const { records: found } = await store.list({}, { limit: 10, payloads: false })
  expect(found.map(({ message }) => [message.id, message.data.length])).toEqual([['a', 0]])
  expect(received).toBeLessThan(10_000)
})
