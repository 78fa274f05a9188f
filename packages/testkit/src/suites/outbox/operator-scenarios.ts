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
  type OutboxScenario,
  published,
  record,
  records,
} from './outbox-world.ts'

export const operatorScenarios: readonly OutboxScenario[] = [
  {
    name: 'rearm makes a parked record ready again and resets its attempts',
    basic: true,
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
    name: 'rearm is idempotent and changes only parked records',
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
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const attributes = { subject: 'o-1', tenant: 't-1' }
      const [edited = '', plain = ''] = await commitParked(world, record('e1', { attributes }), record('e2', { attributes }))
      const edit = { destination: 'repaired', data: Uint8Array.of(1, 2, 3), attributes: { tenant: 't-2', note: 'fixed' } }
      assert.equal(await world.store.rearm({ ids: [edited] }, edit), 1)
      assert.equal(await world.store.rearm({ ids: [plain] }, { destination: 'repaired' }), 1)

      const claimed = new Map((await claim(world.store, { destinations: ['repaired'] })).map((one) => [one.message.id, one]))
      const first = claimed.get('e1')?.message
      assert.deepEqual([...(first?.data ?? [])], [1, 2, 3])
      const { subject, tenant, note, type } = first?.attributes ?? {}
      assert.deepEqual({ subject, tenant, note, type }, { subject: 'o-1', tenant: 't-2', note: 'fixed', type: 'order.placed' })
      const second = claimed.get('e2')?.message
      assert.equal(new TextDecoder().decode(second?.data), '"e2"')
      assert.equal(second?.attributes['tenant'], 't-1')
    },
  },
  {
    name: 'rearm by filter selects the parked records that match, and no others',
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
    name: 'rearm can keep the attempts and delay the records',
    async run(open) {
      await using world = await open({ retain: false })
      const [first = '', second = ''] = await commitParked(world, ...records(2))
      assert.equal(await world.store.rearm({ ids: [first] }, undefined, { keepAttempts: true }), 1)
      assert.equal((await claimOne(world.store)).attempts, 2)
      if (!world.store.capabilities.delay) return
      assert.equal(await world.store.rearm({ ids: [second] }, { destination: 'later' }, { delay: hour }), 1)
      // Found by its message, because a store may assign another id to an edited record.
      assert.deepEqual(idsOf((await world.store.list({ state: 'waiting' }, { limit: 10 })).records), ['e2'])
      assert.deepEqual(await claim(world.store), [])
      await world.advance(hour + 1000)
      assert.deepEqual(idsOf(await claim(world.store, { destinations: ['later'] })), ['e2'])
    },
  },
  {
    name: 'park stops ready and waiting records from being published, and changes no others',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const [parkedId = ''] = await commitParked(world, record('parked'))
      await commit(world, record('ready'), record('waiting'), record('leased'))
      const claimed = await claim(world.store)
      const [ready, waiting, leased] = ['ready', 'waiting', 'leased'].map((id) => claimed.find(({ message }) => message.id === id))
      assert.ok(ready && waiting && leased)
      await world.store.settle([failed(waiting, hour)])
      await world.store.release([ready])
      assert.equal(await world.store.park([parkedId, ready.id, waiting.id, leased.id, 'unknown'], 'wrong address'), 2)
      assert.equal(await world.store.park([ready.id, waiting.id], 'again'), 0)
      const found = await world.store.get(ready.id)
      assert.deepEqual([found?.state, found?.lastError, typeof found?.parkedAt], ['parked', 'wrong address', 'number'])
      assert.equal((await world.store.get(parkedId))?.lastError, 'too large')
      assert.deepEqual(await world.store.settle([published(leased)]), ['applied'])
      await world.advance(2 * hour)
      assert.deepEqual(await claim(world.store), [])
      assert.equal(await world.store.rearm({ ids: [ready.id, waiting.id] }), 2)
      assert.deepEqual(idsOf(await claimAll(world.store)).toSorted(), ['ready', 'waiting'])
    },
  },
  {
    name: 'a record that is parked before its first claim is not claimed, and the records around it are claimed once',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...records(5))
      const stored = (await world.store.list({}, { limit: 10 })).records
      const idOf = (messageId: string) => stored.find(({ message }) => message.id === messageId)?.id ?? ''
      assert.equal(await world.store.park([idOf('e2'), idOf('e3'), idOf('e5')], 'wrong address'), 3)
      // One record is ready again before any claim has reached its position.
      assert.equal(await world.store.rearm({ ids: [idOf('e3')] }), 1)
      const first = await claimAll(world.store)
      assert.deepEqual(idsOf(first).toSorted(), ['e1', 'e3', 'e4'])
      assert.deepEqual(
        first.map(({ attempts }) => attempts),
        [1, 1, 1],
      )
      await commit(world, record('e6'))
      assert.deepEqual(idsOf(await claimAll(world.store)), ['e6'])
      assert.equal(await world.store.rearm({ ids: [idOf('e5')] }), 1)
      const again = await claimOne(world.store)
      assert.deepEqual([again.message.id, again.attempts], ['e5', 1])
      assert.deepEqual(await world.store.settle([...first, again].map(published)), ['applied', 'applied', 'applied', 'applied'])
      const left = (await world.store.list({}, { limit: 10 })).records
      assert.deepEqual(
        left.map(({ message, state }) => [message.id, state]),
        [
          ['e2', 'parked'],
          ['e6', 'leased'],
        ],
      )
    },
  },
  {
    name: 'discard deletes parked records and no others',
    basic: true,
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
    name: 'a retained published record is listed, and is not pending in any way',
    basic: true,
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
    name: 'rearm publishes retained records again if asked for published ones',
    async run(open) {
      await using world = await open({ retain: true })
      const [parkedId = ''] = await commitParked(world, record('parked'))
      await commit(world, ...records(2))
      const claimed = await claimAll(world.store)
      await world.store.settle(claimed.map(published))
      const ids = claimed.map(({ id }) => id)
      assert.equal(await world.store.rearm({ ids: [...ids.slice(0, 1), parkedId] }, undefined, { state: 'published' }), 1)
      assert.equal((await world.store.get(parkedId))?.state, 'parked')
      const found = await world.store.get(ids[0] ?? '')
      assert.deepEqual([found?.state, found?.attempts, found?.publishedAt], ['ready', 0, undefined])
      assert.equal(await world.store.rearm({ filter: { destination: 'orders' } }, undefined, { state: 'published' }), 1)
      const again = await claimAll(world.store)
      assert.deepEqual(idsOf(again).toSorted(), ['e1', 'e2'])
      assert.deepEqual(await world.store.settle(again.map(published)), ['applied', 'applied'])
      assert.equal((await world.store.get(ids[0] ?? ''))?.state, 'published')
    },
  },
  {
    name: 'deletePublished uses the time of the publish, not of the append',
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
    name: 'deletePublished deletes no more records than its limit',
    basic: true,
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
    name: 'deletePublished never deletes unpublished records, however old',
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
