import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { ClaimedRecord, NewOutboxRecord, OutboxStore } from '@ackord/outbox'
import {
  checkAges,
  claim,
  claimAll,
  claimOne,
  commit,
  failed,
  hour,
  idsOf,
  lease,
  type OutboxScenario,
  record,
  records,
} from './outbox-world.ts'

export const claimScenarios: readonly OutboxScenario[] = [
  {
    name: 'a claim returns no more records than its limit',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...records(10), ...records(10, 'f', { destination: 'invoices' }))
      assert.equal((await claim(world.store, { limit: 3 })).length, 3)
      assert.equal((await claim(world.store, { limit: 1 })).length, 1)
      assert.equal((await claimAll(world.store, { limit: 5 })).length, 16)
    },
  },
  {
    name: 'a claim stops before the record that would exceed its bytes, and leaves that record untouched',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...sized([100, 100, 100, 10, 100, 100]))
      assert.deepEqual(idsOf(await claim(world.store, { maxBytes: 250 * kilobyte })), ['e1', 'e2'])
      // Neither leased nor counted: another relay can claim them immediately, with their first attempt.
      const other = await world.another()
      const second = await claim(other, { maxBytes: 250 * kilobyte })
      assert.deepEqual(idsOf(second), ['e3', 'e4', 'e5'])
      assert.deepEqual(
        second.map(({ attempts }) => attempts),
        [1, 1, 1],
      )
      assert.deepEqual(idsOf(await claim(world.store, { maxBytes: 250 * kilobyte })), ['e6'])
    },
  },
  {
    name: 'a record that is larger than maxBytes is claimed alone, and does not block the records behind it',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...sized([300, 100, 400, 300]))
      const claims: (string | undefined)[][] = []
      for (let round = 0; round < 4; round += 1) claims.push(idsOf(await claim(world.store, { maxBytes: 250 * kilobyte })))
      assert.deepEqual(claims, [['e1'], ['e2'], ['e3'], ['e4']])
    },
  },
  {
    name: 'maxBytes counts all destinations together, including retries and attributes',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...sized([100, 100, 100, 100], 'a'), ...sized([100, 100, 100, 100], 'b'))
      const wide = { attributes: { large: 'x'.repeat(100 * kilobyte) }, destination: 'c' }
      await commit(world, record('c1', wide), record('c2', wide))
      await world.store.settle((await claimAll(world.store, { destinations: ['a'], limit: 2 })).map((one) => failed(one)))
      const found: (string | undefined)[] = []
      for (let round = 0; round < 10 && found.length < 10; round += 1) {
        const claimed = await claim(world.store, { maxBytes: 350 * kilobyte })
        assert.ok(claimed.length > 0, 'a claim found nothing, although there are records')
        assert.ok(claimed.length <= 3, `a claim of at most 350 kB returned ${claimed.length} records of 100 kB`)
        found.push(...idsOf(claimed))
      }
      assert.equal(new Set(found).size, 10)
      assert.equal(found.length, 10)
    },
  },
  {
    name: 'a claim skips records that are leased to others and does not wait for them',
    async run(open) {
      await using world = await open({ retain: false })
      const other = await world.another()
      await commit(world, ...records(5))
      await claim(world.store, { limit: 2 })
      assert.deepEqual(idsOf(await claim(other)), ['e3', 'e4', 'e5'])
      await world.advance(lease - 10_000)
      assert.deepEqual(await claim(other), [])
      assert.deepEqual(await claim(world.store), [])
    },
  },
  {
    name: 'concurrent claims of two relays never share a record',
    async run(open) {
      await using world = await open({ retain: false })
      const stores = [world.store, await world.another()]
      await commit(world, ...records(300), ...records(100, 'f', { destination: 'invoices' }))
      for (const attempt of [1, 2]) {
        const claimed = await claimTogether(stores, 400)
        assert.equal(claimed.length, 400, 'every record must be claimed, once')
        assert.equal(new Set(idsOf(claimed)).size, 400)
        assert.ok(claimed.every(({ attempts }) => attempts === attempt))
        await world.advance(lease + 1) // then claim everything again, as takeovers
      }
    },
  },
  {
    name: 'an expired lease is taken over, with a new token and the attempt counted',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const other = await world.another()
      await commit(world, record('e1'))
      const first = await claimOne(world.store)
      await world.advance(lease + 1)
      const second = await claimOne(other)
      assert.equal(second.id, first.id)
      assert.equal(second.attempts, 2)
      assert.notEqual(second.token, first.token)
      await world.advance(lease + 1)
      assert.equal((await claimOne(world.store)).attempts, 3)
    },
  },
  {
    name: 'an attempt counts when a record is claimed, not when it is settled',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('e1'))
      const claimed = await claimOne(world.store)
      assert.equal((await world.store.get(claimed.id))?.attempts, 1)
      await world.store.settle([failed(claimed)])
      assert.equal((await world.store.get(claimed.id))?.attempts, 1)
      assert.equal((await claimOne(world.store)).attempts, 2)
    },
  },
  {
    name: "a claim reports how long ago each record was stored, by the store's clock",
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('e1'))
      await world.advance(hour)
      await commit(world, record('e2'), ...sized([100], 'large'))
      const first = await claim(world.store)
      checkAges(first, { e1: hour, e2: 0, large1: 0 })
      await world.store.settle(first.map((one) => failed(one)))
      await world.advance(hour)
      // Counted from the commit, not from the failure. The large record exceeds the bytes of the claim and is read separately, where a store does that.
      const again = [...(await claim(world.store, { destinations: ['orders'] })), ...(await claim(world.store, { maxBytes: 1000 }))]
      checkAges(again, { e1: 2 * hour, e2: hour, large1: hour })
      await world.advance(hour)
      checkAges(await claim(world.store), { e1: 3 * hour, e2: 2 * hour, large1: 2 * hour })
    },
  },
  {
    name: 'every claim has its own token',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...records(3))
      const tokens = new Set<string>()
      for (let round = 0; round < 3; round += 1) {
        const claimed = await claimAll(world.store, { limit: 1 })
        for (const { id, token } of claimed) tokens.add(`${id} ${token}`)
        await world.store.release(claimed)
      }
      assert.equal(tokens.size, 9)
    },
  },
  {
    name: 'a claim can select destinations',
    async run(open) {
      await using world = await open({ retain: false })
      for (const destination of ['a', 'b', 'c']) await commit(world, ...records(2, destination, { destination }))
      const claimed = await claim(world.store, { destinations: ['a', 'c', 'none'] })
      assert.deepEqual(idsOf(claimed).sort(), ['a1', 'a2', 'c1', 'c2'])
      assert.deepEqual(idsOf(await claim(world.store)), ['b1', 'b2'])
    },
  },
  {
    name: 'a claim can exclude destinations',
    async run(open) {
      await using world = await open({ retain: false })
      for (const destination of ['a', 'b', 'c']) await commit(world, ...records(2, destination, { destination }))
      assert.deepEqual(idsOf(await claim(world.store, { except: ['a', 'c', 'none'] })), ['b1', 'b2'])
      assert.deepEqual(idsOf(await claim(world.store, { destinations: ['a', 'b'], except: ['b'] })), ['a1', 'a2'])
      assert.deepEqual(idsOf(await claim(world.store, { except: [] })), ['c1', 'c2'])
    },
  },
  {
    name: 'a claim can select records that have failed before, or records that have not',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('failed'))
      await world.store.settle([failed(await claimOne(world.store))])
      await commit(world, record('fresh'))
      assert.deepEqual(idsOf(await claim(world.store, { retried: 'never' })), ['fresh'])
      assert.deepEqual(idsOf(await claim(world.store, { retried: 'never' })), [])
      assert.deepEqual(idsOf(await claim(world.store, { retried: 'only' })), ['failed'])
    },
  },
  {
    name: 'a destination with 2,000 records does not hide the records of another',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...records(2000, 'b', { destination: 'busy' }))
      await commit(world, record('q1', { destination: 'quiet' }), record('q2', { destination: 'quiet' }))
      assert.deepEqual(idsOf(await claim(world.store, { limit: 1, except: ['busy'] })), ['q1'])
      assert.deepEqual(idsOf(await claim(world.store, { limit: 1, destinations: ['quiet'] })), ['q2'])

      await commit(world, record('q3', { destination: 'quiet' }))
      const busy = await claimAll(world.store, { destinations: ['busy'] })
      assert.equal(busy.length, 2000)
      assert.deepEqual(idsOf(await claim(world.store, { limit: 10 })), ['q3'], 'behind 2,000 that are leased')
      await world.store.settle(busy.map((one) => failed(one, hour)))
      await commit(world, record('q4', { destination: 'quiet' }))
      assert.deepEqual(idsOf(await claim(world.store, { limit: 10 })), ['q4'], 'behind 2,000 that are backing off')
    },
  },
]

const kilobyte = 1024

/** Records with this many kilobytes of incompressible data each, as payloads often are. */
function sized(sizes: readonly number[], prefix = 'e'): NewOutboxRecord[] {
  return sizes.map((size, index) =>
    record(`${prefix}${index + 1}`, { destination: prefix === 'e' ? 'orders' : prefix, data: randomBytes(size * kilobyte) }),
  )
}

/** Runs twenty claims concurrently until this many records are claimed. A claim may find fewer records while others run, so several rounds may be needed. */
async function claimTogether(stores: readonly OutboxStore[], count: number): Promise<ClaimedRecord[]> {
  const claimed: ClaimedRecord[] = []
  for (let round = 0; round < 50 && claimed.length < count; round += 1) {
    const claims = Array.from({ length: 10 }, () => stores.map((store) => claim(store, { limit: 17 })))
    claimed.push(...(await Promise.all(claims.flat())).flat())
  }
  return claimed
}
