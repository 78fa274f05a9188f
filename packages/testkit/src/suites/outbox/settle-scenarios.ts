import assert from 'node:assert/strict'
import {
  claim,
  claimAll,
  claimOne,
  commit,
  day,
  failed,
  hour,
  idsOf,
  lease,
  type OutboxScenario,
  parked,
  published,
  record,
  records,
} from './outbox-world.ts'

export const settleScenarios: readonly OutboxScenario[] = [
  {
    name: 'a published record is never claimed again',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...records(3))
      const claimed = await claim(world.store)
      assert.deepEqual(await world.store.settle(claimed.map(published)), ['applied', 'applied', 'applied'])
      await world.advance(30 * day)
      assert.deepEqual(await claim(world.store), [])
      const { destinations } = await world.store.stats()
      for (const { ready, waiting, leased } of destinations) assert.equal(ready + waiting + leased, 0)
    },
  },
  {
    name: 'a failed record is retried when its delay is over, and not before',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('e1'))
      const first = await claimOne(world.store)
      assert.deepEqual(await world.store.settle([failed(first, hour, 'connection refused')]), ['applied'])
      const waiting = await world.store.get(first.id)
      assert.equal(waiting?.state, 'waiting')
      assert.equal(waiting.lastError, 'connection refused')
      await world.advance(hour - 60_000)
      assert.deepEqual(await claim(world.store), [], 'claimed before it was due')
      await world.advance(61_000)
      assert.equal((await claimOne(world.store)).attempts, 2)
    },
  },
  {
    name: 'a failed record without a delay can be claimed immediately',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('e1'))
      for (let attempt = 1; attempt <= 5; attempt += 1) {
        const claimed = await claimOne(world.store)
        assert.equal(claimed.attempts, attempt)
        assert.deepEqual(await world.store.settle([failed(claimed, 0)]), ['applied'])
      }
    },
  },
  {
    name: 'a parked record stays parked, however much time passes, and keeps its error',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('e1'))
      const claimed = await claimOne(world.store)
      assert.deepEqual(await world.store.settle([parked(claimed, 'the schema is unknown')]), ['applied'])
      for (let month = 0; month < 3; month += 1) {
        await world.advance(30 * day)
        assert.deepEqual(await claim(world.store), [])
      }
      const found = await world.store.get(claimed.id)
      assert.equal(found?.state, 'parked')
      assert.equal(found.lastError, 'the schema is unknown')
      assert.equal(typeof found.parkedAt, 'number')
      assert.equal(found.attempts, 1)
    },
  },
  {
    name: 'settle accepts a mixed batch and answers for each outcome, in order',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...records(8))
      const [gone, stolen, ...held] = await claim(world.store)
      assert.ok(gone && stolen && held.length === 6)
      await world.store.settle([published(gone)])
      await world.advance(lease + 1)
      const taken = await claim(await world.another(), { limit: 1 })
      assert.deepEqual(idsOf(taken), ['e2'])

      const [a, b, c, d, e, f] = await claim(world.store)
      assert.ok(a && b && c && d && e && f)
      const outcomes = [
        parked(d),
        published(stolen),
        published(a),
        failed(f, hour),
        published(gone),
        published(c),
        failed(b, hour),
        parked(e),
      ]
      const answers = await world.store.settle(outcomes)
      assert.deepEqual(answers, ['applied', 'lost', 'applied', 'applied', 'lost', 'applied', 'applied', 'applied'])
      const inState = async (state: 'parked' | 'waiting' | 'leased') => idsOf((await world.store.list({ state }, { limit: 10 })).records)
      assert.deepEqual(await inState('parked'), ['e6', 'e7'])
      assert.deepEqual(await inState('waiting'), ['e4', 'e8'])
      assert.deepEqual(await inState('leased'), ['e2'])
    },
  },
  {
    name: 'settle with a stale token changes nothing',
    async run(open) {
      await using world = await open({ retain: false })
      const other = await world.another()
      await commit(world, ...records(3))
      const stale = await claim(world.store)
      await world.advance(lease + 1)
      const current = await claim(other)
      const [a, b, c] = stale
      assert.ok(a && b && c)
      assert.deepEqual(await world.store.settle([published(a), failed(b, hour, 'stale'), parked(c, 'stale')]), ['lost', 'lost', 'lost'])
      for (const { id } of current) {
        const found = await world.store.get(id)
        assert.equal(found?.state, 'leased')
        assert.equal(found.lastError, undefined)
        assert.equal(found.attempts, 2)
      }
      assert.deepEqual(await other.settle(current.map(published)), ['applied', 'applied', 'applied'])
    },
  },
  {
    name: 'settling a claim a second time changes nothing',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...records(2))
      const [a, b] = await claim(world.store)
      assert.ok(a && b)
      await world.store.settle([parked(a), failed(b, hour, 'first')])
      assert.deepEqual(await world.store.settle([published(a), parked(b, 'second')]), ['lost', 'lost'])
      assert.deepEqual(await world.store.renew([a, b], lease), [false, false])
      await world.store.release([a, b])
      assert.equal((await world.store.get(a.id))?.state, 'parked')
      const waiting = await world.store.get(b.id)
      assert.deepEqual([waiting?.state, waiting?.attempts, waiting?.lastError], ['waiting', 1, 'first'])
    },
  },
  {
    name: 'settle, renew and release accept empty lists',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('e1'))
      assert.deepEqual(await world.store.settle([]), [])
      assert.deepEqual(await world.store.renew([], lease), [])
      await world.store.release([])
      assert.equal((await claimOne(world.store)).attempts, 1)
    },
  },
  {
    name: 'an error text of almost 2,000 characters is kept complete',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...records(2))
      const text = `it's "broken": ${'🚚 größe \\ \n'.repeat(164)}.`
      const [a, b] = await claimAll(world.store)
      assert.ok(a && b)
      await world.store.settle([failed(a, hour, text), parked(b, text)])
      for (const { id } of [a, b]) assert.equal((await world.store.get(id))?.lastError, text)
    },
  },
]
