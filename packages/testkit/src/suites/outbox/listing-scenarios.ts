import assert from 'node:assert/strict'
import { isAckordError } from '@ackord/core'
import type { OutboxFilter, OutboxRecord } from '@ackord/outbox'
import { eventLoopTurn } from '../../helpers/virtual-runtime.ts'
import {
  claim,
  claimOne,
  commit,
  commitParked,
  failed,
  hour,
  idsOf,
  lease,
  type OutboxScenario,
  type OutboxWorld,
  published,
  record,
  records,
} from './outbox-world.ts'

/** Commits one record in each state that every store has; the ids are the states. */
async function commitStates(world: OutboxWorld, destination: string): Promise<void> {
  const inIt = (id: string) => record(id, { destination, type: `type.${id}` })
  await commitParked(world, inIt('parked'))
  await commit(world, inIt('waiting'), inIt('leased'))
  const claimed = await claim(world.store, { destinations: [destination] })
  for (const one of claimed) if (one.message.id === 'waiting') await world.store.settle([failed(one, hour)])
  await commit(world, inIt('ready'))
}

export const listingScenarios: readonly OutboxScenario[] = [
  {
    name: 'list returns all records, oldest first, page by page',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const all = records(25).map((one, index) => ({ ...one, destination: `d${index % 3}` }))
      for (let start = 0; start < 25; start += 5) await commit(world, ...all.slice(start, start + 5))
      const seen: (string | undefined)[] = []
      const sizes: number[] = []
      let after: string | undefined
      do {
        const page = await world.store.list({}, { limit: 10, after })
        seen.push(...idsOf(page.records))
        sizes.push(page.records.length)
        after = page.next
      } while (after !== undefined && sizes.length < 10)
      assert.deepEqual(seen, idsOf(all))
      assert.deepEqual(sizes, [10, 10, 5])
      assert.equal((await world.store.list({}, { limit: 25 })).next, undefined)
    },
  },
  {
    name: 'list leaves out the payloads on request, and nothing else',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await commitStates(world, 'a')
      const { records: whole } = await world.store.list({}, { limit: 10 })
      const { records: bare, next } = await world.store.list({}, { limit: 2, payloads: false })
      const { records: rest } = await world.store.list({}, { limit: 10, after: next, payloads: false })
      assert.ok(whole.every(({ message }) => message.data.byteLength > 0))
      assert.deepEqual(
        [...bare, ...rest].map(({ message }) => message.data.byteLength),
        whole.map(() => 0),
      )
      // Some stores compute the end of a lease from the time that is left.
      const without = ({ message, leasedUntil, ...record }: OutboxRecord) => {
        return { ...record, isLeased: leasedUntil !== undefined, attributes: message.attributes }
      }
      assert.deepEqual([...bare, ...rest].map(without), whole.map(without))
    },
  },
  {
    name: 'a page continues where the previous one ended, even if records were removed meanwhile',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...records(6))
      const first = await world.store.list({}, { limit: 3 })
      await world.store.settle((await claim(world.store, { limit: 3 })).map(published))
      const second = await world.store.list({}, { limit: 3, after: first.next })
      assert.deepEqual(idsOf(second.records), ['e4', 'e5', 'e6'])
    },
  },
  {
    name: 'rejects an invalid cursor instead of starting over or ending',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...records(3))
      const { next } = await world.store.list({}, { limit: 2 })
      for (const after of ['', 'bogus', 'null', '[]', '{}', '-1', `${next}x`]) {
        await assert.rejects(
          world.store.list({}, { limit: 2, after }),
          (error) => isAckordError(error, 'ACKORD_INVALID_OPTION') && error.message.startsWith('after is an invalid cursor'),
          `'${after}' must be refused`,
        )
      }
      assert.deepEqual(idsOf((await world.store.list({}, { limit: 2, after: next })).records), ['e3'])
    },
  },
  {
    name: 'list filters by state, destination and type',
    async run(open) {
      await using world = await open({ retain: false })
      await commitStates(world, 'a')
      await commit(world, record('other', { destination: 'b' }))
      const found = async (filter: OutboxFilter) => idsOf((await world.store.list(filter, { limit: 10 })).records)
      for (const state of ['parked', 'waiting', 'leased'] as const) {
        assert.deepEqual(await found({ state }), [state])
        assert.deepEqual(await found({ state, destination: 'b' }), [])
      }
      assert.deepEqual(await found({ state: 'ready' }), ['ready', 'other'])
      assert.deepEqual(await found({ destination: 'a' }), ['parked', 'waiting', 'leased', 'ready'])
      assert.deepEqual(await found({ type: 'type.leased' }), ['leased'])
      assert.deepEqual(await found({ destination: 'a', type: 'order.placed' }), [])
      assert.deepEqual(await found({ state: 'ready', destination: 'b', type: 'order.placed' }), ['other'])
    },
  },
  {
    name: 'list finds the records of a message id, together with other criteria and page by page',
    async run(open) {
      await using world = await open({ retain: false })
      // Fewer records would fit into one page of any store.
      await commit(world, ...records(150))
      await commitParked(
        world,
        record('wanted', { destination: 'a', attributes: { partitionkey: 'k' } }),
        record('Wanted', { destination: 'a' }),
      )
      for (const destination of ['b', 'c'])
        await commit(world, record('wanted', { destination, type: 'order.paid' }), record('wanted ', { destination }))
      const find = (filter: OutboxFilter, limit: number, after?: string) =>
        world.store.list({ messageId: 'wanted', ...filter }, { limit, after })
      const found = async (filter: OutboxFilter) =>
        (await find(filter, 10)).records.map(({ destination, message }) => [destination, message.id])
      const [a, b, c] = ['a', 'b', 'c'].map((destination) => [destination, 'wanted'])
      assert.deepEqual(await found({}), [a, b, c])
      assert.deepEqual(await found({ destination: 'b' }), [b])
      assert.deepEqual(await found({ state: 'parked' }), [a])
      assert.deepEqual(await found({ state: 'ready', type: 'order.paid' }), [b, c])
      assert.deepEqual(await found({ orderingKey: 'k' }), [a])
      assert.deepEqual(await found({ messageId: 'unknown' }), [])
      const first = await find({}, 2)
      const second = await find({}, 2, first.next)
      assert.deepEqual(
        [first, second].map((page) => page.records.map(({ destination }) => destination)),
        [['a', 'b'], ['c']],
      )
      assert.equal(second.next, undefined)
      assert.equal(await world.store.rearm({ filter: { messageId: 'wanted', destination: 'b' } }), 0)
      assert.equal(await world.store.rearm({ filter: { messageId: 'wanted' } }), 1)
      assert.deepEqual(await found({ state: 'parked' }), [])
    },
  },
  {
    name: 'a search finds all records that match, oldest first, on pages that may be short, and ends',
    async run(open) {
      await using world = await open({ retain: false })
      const all = records(300).map((one, index) => {
        const rare = index % 90 === 0 || index === 299
        return rare
          ? record(`rare${index}`, { type: 'order.lost', destination: `d${index % 4}` })
          : { ...one, destination: `d${index % 4}` }
      })
      for (let start = 0; start < 300; start += 60) await commit(world, ...all.slice(start, start + 60))
      for (const [filter, expected] of [
        [{ type: 'order.lost' }, ['rare0', 'rare90', 'rare180', 'rare270', 'rare299']],
        [{ type: 'order.lost', destination: 'd2' }, ['rare90', 'rare270']],
        [{ type: 'order.found' }, []],
      ] as const) {
        const found: (string | undefined)[] = []
        const cursors = new Set<string>()
        let after: string | undefined
        do {
          const page = await world.store.list(filter, { limit: 2, after })
          assert.ok(page.records.length <= 2, 'a page is too long')
          found.push(...idsOf(page.records))
          after = page.next
          if (after === undefined) break
          assert.ok(!cursors.has(after), 'the search does not advance')
          cursors.add(after)
        } while (cursors.size < 1000)
        assert.deepEqual(found, expected)
      }
    },
  },
  {
    name: 'a listing by state returns full pages of records in that state, while a relay claims and releases',
    async run(open) {
      await using world = await open({ retain: false })
      const relay = await world.another()
      await commit(world, ...records(20))
      let ended = false
      const claimAndRelease = async () => {
        while (!ended) {
          const claimed = await claim(relay, { limit: 5 })
          await eventLoopTurn()
          await relay.release(claimed)
          await eventLoopTurn()
        }
      }
      const running = claimAndRelease()
      try {
        for (let round = 0; round < 100; round += 1) {
          const state = round % 3 === 0 ? 'leased' : 'ready'
          const page = await world.store.list({ state }, { limit: 8 })
          const others = page.records.filter((one) => one.state !== state || one.attempts !== (state === 'leased' ? 1 : 0))
          const found = others.map((one) => `${one.state} with ${one.attempts} attempts`)
          assert.deepEqual(found, [], `a listing of ${state} records returned others`)
          if (state === 'leased') continue
          // At least 15 records are ready at any time.
          assert.equal(page.records.length, 8)
          assert.ok(page.next !== undefined, 'the listing ended early')
        }
      } finally {
        ended = true
        await running
      }
    },
  },
  {
    name: 'operators see the record and its message',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const attributes = { tenant: 't-1', priority: 3 }
      await commit(world, record('e1', { destination: 'invoices', data: Uint8Array.of(0, 255), attributes }))
      const claimed = await claimOne(world.store)
      const listed = (await world.store.list({}, { limit: 1 })).records[0]
      const got = await world.store.get(claimed.id)
      for (const found of [listed, got]) {
        assert.ok(found)
        assert.deepEqual([found.id, found.state, found.destination, found.attempts], [claimed.id, 'leased', 'invoices', 1])
        assert.deepEqual({ ...found.message.attributes }, { ...claimed.message.attributes })
        assert.deepEqual([...found.message.data], [0, 255])
        assert.equal(await found.message.ack(), false, 'it must not be possible to settle it')
        assert.equal(found.createdAt, claimed.createdAt)
        assert.ok((found.leasedUntil ?? 0) >= found.createdAt + lease - 1000)
        assert.deepEqual([found.lastError, found.publishedAt, found.parkedAt], [undefined, undefined, undefined])
      }
    },
  },
  {
    name: 'get of a deleted record resolves to undefined',
    async run(open) {
      await using world = await open({ retain: false })
      const [id = ''] = await commitParked(world, record('e1'))
      await world.store.discard([id], 'gone')
      assert.equal(await world.store.get(id), undefined)
    },
  },
  {
    name: 'stats count each state of each destination',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const empty = await world.store.stats()
      assert.deepEqual([empty.destinations, empty.oldestAge], [[], undefined])
      await commitStates(world, 'a')
      await commit(world, ...records(3, 'b', { destination: 'b' }))
      const { destinations } = await world.store.stats()
      const counts = new Map(destinations.map(({ oldestAge: _, ...one }) => [one.destination, one]))
      assert.deepEqual(counts.get('a'), { destination: 'a', ready: 1, waiting: 1, leased: 1, parked: 1, published: 0 })
      assert.deepEqual(counts.get('b'), { destination: 'b', ready: 3, waiting: 0, leased: 0, parked: 0, published: 0 })
      assert.equal(destinations.length, 2)
    },
  },
  {
    name: 'the oldest age is that of the oldest record that is neither published nor parked',
    async run(open) {
      await using world = await open({ retain: false })
      await commitParked(world, record('parked'))
      await world.advance(hour)
      assert.equal((await world.store.stats()).oldestAge, undefined)
      await commit(world, record('e1'))
      await claimOne(world.store)
      await world.advance(hour)
      await commit(world, record('e2'))
      const aged = (await world.store.stats()).oldestAge ?? 0
      assert.ok(aged >= hour && aged < hour + 60_000, `the age is ${aged}`)
      await world.store.settle((await claim(world.store, { limit: 1 })).map(published))
      const young = (await world.store.stats()).oldestAge ?? Infinity
      assert.ok(young < 60_000, `the age is ${young}`)
    },
  },
  {
    name: 'each destination has the age of its oldest record that is neither published nor parked',
    async run(open) {
      await using world = await open({ retain: false })
      await commitParked(world, record('p1', { destination: 'parked' }))
      await commit(world, ...records(2, 'b', { destination: 'leased' }))
      await claim(world.store, { destinations: ['leased'] })
      await world.advance(hour)
      // So many that the oldest record of another destination is far behind the first of the store.
      await commit(world, ...records(1200, 'c', { destination: 'many' }))
      await world.advance(hour)
      await commit(world, record('d1', { destination: 'few' }), ...records(2, 'e', { destination: 'failed' }))
      await world.store.settle((await claim(world.store, { destinations: ['failed'] })).map((one) => failed(one, hour)))
      const ages = async () => new Map((await world.store.stats()).destinations.map((one) => [one.destination, one.oldestAge]))
      const expected = { leased: 2 * hour, many: hour, few: 0, failed: 0 }
      const found = await ages()
      assert.equal(found.get('parked'), undefined)
      for (const [destination, age] of Object.entries(expected)) {
        const actual = found.get(destination) ?? Number.NaN
        assert.ok(actual >= age && actual < age + 60_000, `the age of ${destination} is ${actual}`)
      }
      await world.store.settle((await claim(world.store, { destinations: ['few'] })).map(published))
      assert.equal((await ages()).get('few'), undefined)
    },
  },
]
