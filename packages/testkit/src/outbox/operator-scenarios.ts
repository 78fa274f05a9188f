import assert from 'node:assert/strict'
import {
  claim,
  claimAll,
  claimOne,
  commit,
  commitParked,
  day,
  failed,
  hour,
  idsOf,
  lease,
  published,
  record,
  records,
} from './outbox-records.ts'
import type { OutboxScenario } from './outbox-world.ts'

export const operatorScenarios: readonly OutboxScenario[] = [
  {
    name: 'rearm makes a parked record ready again, with no attempts counted',
    async run(open) {
      await using world = await open({ retain: false })
      const ids = await commitParked(world, ...records(3))
      assert.equal(await world.store.rearm({ ids: ids.slice(0, 2) }), 2)
      const found = await world.store.get(ids[0] ?? '')
      assert.deepEqual([found?.state, found?.attempts, found?.parkedAt], ['ready', 0, undefined])
      const claimed = await claimAll(world.store, { retried: 'never' })
      assert.deepEqual(idsOf(claimed), ['e1', 'e2'])
      assert.ok(claimed.every(({ attempts }) => attempts === 1))
      assert.equal((await world.store.get(ids[2] ?? ''))?.state, 'parked')
    },
  },
  {
    name: 'rearm is idempotent, and leaves alone what is not parked',
    async run(open) {
      await using world = await open({ retain: false })
      const [id = ''] = await commitParked(world, record('parked'))
      await commit(world, record('waiting'), record('leased'))
      const [waiting, leased] = await claim(world.store)
      assert.ok(waiting && leased)
      await world.store.settle([failed(waiting, hour)])
      assert.equal(await world.store.rearm({ ids: [id, waiting.id, leased.id] }), 1)
      assert.equal(await world.store.rearm({ ids: [id, waiting.id, leased.id] }), 0)
      assert.deepEqual(idsOf(await claim(world.store)), ['parked'])
      assert.deepEqual(await world.store.settle([published(leased)]), ['applied'])
      assert.equal((await world.store.get(waiting.id))?.attempts, 1)
      assert.equal(await world.store.rearm({ ids: [] }), 0)
    },
  },
  {
    name: 'rearm can edit: another destination, other data, attributes added and replaced',
    async run(open) {
      await using world = await open({ retain: false })
      const attributes = { subject: 'o-1', tenant: 't-1' }
      const [edited = '', plain = ''] = await commitParked(world, record('e1', { attributes }), record('e2', { attributes }))
      const edit = { destination: 'repaired', data: Uint8Array.of(1, 2, 3), attributes: { tenant: 't-2', note: 'mended' } }
      assert.equal(await world.store.rearm({ ids: [edited] }, edit), 1)
      assert.equal(await world.store.rearm({ ids: [plain] }, { destination: 'repaired' }), 1)

      const claimed = new Map((await claim(world.store, { destinations: ['repaired'] })).map((one) => [one.message.id, one]))
      const first = claimed.get('e1')?.message
      assert.deepEqual([...(first?.data ?? [])], [1, 2, 3])
      const { subject, tenant, note, type } = first?.attributes ?? {}
      assert.deepEqual({ subject, tenant, note, type }, { subject: 'o-1', tenant: 't-2', note: 'mended', type: 'order.placed' })
      const second = claimed.get('e2')?.message
      assert.equal(new TextDecoder().decode(second?.data), '"e2"')
      assert.equal(second?.attributes['tenant'], 't-1')
    },
  },
  {
    name: 'rearm by filter takes the parked records that match, and no others',
    async run(open) {
      await using world = await open({ retain: false })
      await commitParked(
        world,
        record('a1', { destination: 'a' }),
        record('a2', { destination: 'a', type: 'order.cancelled' }),
        record('b1', { destination: 'b' }),
      )
      await commit(world, record('ready', { destination: 'a', type: 'order.cancelled' }))
      assert.equal(await world.store.rearm({ filter: { destination: 'a', type: 'order.cancelled' } }), 1)
      assert.equal(await world.store.rearm({ filter: { destination: 'a' } }), 1)
      assert.equal(await world.store.rearm({ filter: {} }), 1)
      assert.equal(await world.store.rearm({ filter: {} }), 0)
    },
  },
  {
    name: 'discard removes parked records for good, and no others',
    async run(open) {
      await using world = await open({ retain: false })
      const [first = '', second = ''] = await commitParked(world, ...records(2))
      await commit(world, record('ready'), record('waiting'), record('leased'))
      const [ready, waiting, leased] = await claim(world.store)
      assert.ok(ready && waiting && leased)
      await world.store.settle([failed(waiting, hour)])
      await world.store.release([ready])
      assert.equal(await world.store.discard([first, ready.id, waiting.id, leased.id], 'not needed'), 1)
      assert.equal(await world.store.discard([first], 'again'), 0)
      assert.equal(await world.store.get(first), undefined)
      const left = (await world.store.list({}, { limit: 10 })).records
      assert.deepEqual(idsOf(left), ['e2', 'ready', 'waiting', 'leased'])
      assert.equal((await world.store.get(second))?.state, 'parked')
    },
  },
]

export const retainScenarios: readonly OutboxScenario[] = [
  {
    name: 'a kept published record can be seen, and is in no way pending',
    async run(open) {
      await using world = await open({ retain: true })
      await commit(world, record('e1'))
      const claimed = await claimOne(world.store)
      await world.store.settle([published(claimed)])
      const found = await world.store.get(claimed.id)
      assert.equal(found?.state, 'published')
      assert.equal(typeof found.publishedAt, 'number')
      assert.deepEqual(idsOf((await world.store.list({ state: 'published' }, { limit: 10 })).records), ['e1'])
      assert.deepEqual(await world.store.settle([failed(claimed)]), ['lost'])
      assert.deepEqual(await world.store.renew([claimed], lease), [false])
      await world.store.release([claimed])
      assert.equal(await world.store.rearm({ ids: [claimed.id] }), 0)
      assert.equal(await world.store.discard([claimed.id], 'published'), 0)
      await world.advance(30 * day)
      assert.deepEqual(await claim(world.store), [])
      assert.equal((await world.store.get(claimed.id))?.state, 'published')
    },
  },
  {
    name: 'deletePublished goes by when a record was published, not by when it was stored',
    async run(open) {
      await using world = await open({ retain: true })
      await commit(world, ...records(2))
      await world.advance(10 * day)
      await world.store.settle((await claim(world.store)).map(published))
      assert.equal(await world.store.deletePublished({ olderThan: day, limit: 100 }), 0)
      await world.advance(day + 1000)
      assert.equal(await world.store.deletePublished({ olderThan: day, limit: 100 }), 2)
      assert.deepEqual((await world.store.list({}, { limit: 10 })).records, [])
    },
  },
  {
    name: 'deletePublished removes no more than its limit at a time',
    async run(open) {
      await using world = await open({ retain: true })
      await commit(world, ...records(25))
      await world.store.settle((await claimAll(world.store)).map(published))
      await world.advance(hour)
      const removed: number[] = []
      for (let round = 0; round < 4; round += 1) removed.push(await world.store.deletePublished({ olderThan: 1000, limit: 10 }))
      assert.deepEqual(removed, [10, 10, 5, 0])
    },
  },
  {
    name: 'deletePublished never touches what is not published, however old',
    async run(open) {
      await using world = await open({ retain: true })
      await commitParked(world, record('parked'))
      await commit(world, record('leased'), record('waiting'), record('published'), record('ready'))
      const [leased, waiting, done, ready] = await claim(world.store)
      assert.ok(leased && waiting && done && ready)
      await world.store.renew([leased], 500 * day)
      await world.store.settle([failed(waiting, 500 * day), published(done)])
      await world.store.release([ready])
      await world.advance(400 * day)
      assert.equal(await world.store.deletePublished({ olderThan: 0, limit: 100 }), 1)
      const states = (await world.store.list({}, { limit: 10 })).records.map(({ message, state }) => [message.id, state])
      const expected = ['parked', 'leased', 'waiting', 'ready'].map((state) => [state, state])
      assert.deepEqual(states, expected)
    },
  },
]
