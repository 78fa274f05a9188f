import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { ClaimedRecord } from '@ackord/outbox'
import { checkAges, claim, claimAll, commit, failed, hour, idsOf, published, record, records } from '../outbox/outbox-world.ts'
import type { RelayScenario } from '../relay/relay-world.ts'
import { keyed, keyedIds, keyedRun, keyNames, keyOf, ofKey, upTo } from './order-world.ts'

/** The records of a key that a claim returns, and when it returns more. */
export const runScenarios: readonly RelayScenario[] = [
  {
    name: 'a claim returns a run of each key, from its first record on, in the order of the commits',
    basic: true,
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      assert.equal(world.store.capabilities.order, 'perKey')
      await commit(world, ...keyedRun('a', 2))
      await commit(world, ...keyedRun('b', 2))
      await commit(world, ...keyedRun('a', 2, { from: 3 }))
      const claimed = await claim(world.store)
      assert.deepEqual(idsOf(ofKey(claimed, 'a')), keyedIds('a', 1, 2, 3, 4))
      assert.deepEqual(idsOf(ofKey(claimed, 'b')), keyedIds('b', 1, 2))
    },
  },
  {
    name: 'no claim returns more of a key until its whole run is settled or released',
    basic: true,
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyedRun('a', 4))
      const first = await claim(world.store, { limit: 2 })
      assert.deepEqual(idsOf(first), keyedIds('a', 1, 2))
      const other = await world.another()
      assert.deepEqual(idsOf(await claim(world.store)), [], 'a second claim overtakes the first')
      assert.deepEqual(idsOf(await claim(other)), [], 'another process overtakes the first')
      await world.store.settle(first.slice(0, 1).map(published))
      assert.deepEqual(idsOf(await claim(world.store)), [], 'half of the run is still in flight')
      await world.store.release(first.slice(1))
      const next = [...(await claim(world.store)), ...(await claim(other))]
      assert.deepEqual(idsOf(next), keyedIds('a', 2, 3, 4))
    },
  },
  {
    name: 'a failed record holds up its own key until it is due, and no other key',
    basic: true,
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyedRun('a', 3), ...keyedRun('b', 3))
      const first = await claim(world.store, { limit: 2 })
      assert.deepEqual(idsOf(first).toSorted(), [...keyedIds('a', 1), ...keyedIds('b', 1)])
      await world.store.settle(first.map((one) => (keyOf(one) === 'a' ? failed(one, hour) : published(one))))
      const second = await claim(world.store)
      assert.deepEqual(idsOf(second), keyedIds('b', 2, 3))
      await world.store.settle(second.map(published))
      await world.advance(hour + 1000)
      assert.deepEqual(idsOf(await claim(world.store)), keyedIds('a', 1, 2, 3))
    },
  },
  {
    name: 'an attempt counts when a record is settled as failed, not when it is claimed or released',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyedRun('a', 2))
      await world.store.release(await claim(world.store))
      const [first, second] = await claim(world.store)
      assert.ok(first !== undefined && second !== undefined, 'released records must be claimable')
      assert.deepEqual([first.attempts, second.attempts], [1, 1])
      await world.store.settle([failed(first)])
      await world.store.release([second])
      const again = await claim(world.store)
      assert.deepEqual(
        again.map(({ message, attempts }) => [message.id, attempts]),
        [
          [...keyedIds('a', 1), 2],
          [...keyedIds('a', 2), 1],
        ],
      )
    },
  },
  {
    name: "a claim reports how long ago each record was stored, by the store's clock, with a key or without",
    basic: true,
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, record('e1'))
      await world.advance(hour)
      await commit(world, ...records(2, 'f'))
      // A store may read the records of a busy destination without keys in another way.
      const plain: ClaimedRecord[] = []
      for (let round = 0; round < 3; round += 1) plain.push(...(await claim(world.store, { limit: 1 })))
      checkAges(plain, { e1: hour, f1: 0, f2: 0 })
      await world.store.settle(plain.map((one) => failed(one)))
      await commit(world, keyed('a', 1))
      await world.advance(hour)
      await commit(world, keyed('a', 2))
      // Counted from the commit, not from the failure.
      checkAges(await claimAll(world.store), { 'a/0001': hour, 'a/0002': 0, e1: 2 * hour, f1: hour, f2: hour })
    },
  },
  {
    name: 'a delayed record holds up the records behind it, but not those before it',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyedRun('a', 1), ...keyedRun('a', 1, { from: 2, delay: hour }), ...keyedRun('a', 1, { from: 3 }))
      const before = await claim(world.store)
      assert.deepEqual(idsOf(before), keyedIds('a', 1))
      await world.store.settle(before.map(published))
      assert.deepEqual(idsOf(await claim(world.store)), [])
      await world.advance(hour + 1000)
      assert.deepEqual(idsOf(await claim(world.store)), keyedIds('a', 2, 3))
    },
  },
  {
    name: 'a claim is filled evenly: one record each of many keys, longer runs of few keys',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyNames(10).flatMap((key) => keyedRun(key, 8)))
      const lengths = async (limit: number) => {
        const claimed = await claim(world.store, { limit })
        await world.store.release(claimed)
        return keyNames(10).map((key) => ofKey(claimed, key).length)
      }
      assert.deepEqual(
        (await lengths(10)).toSorted(),
        keyNames(10).map(() => 1),
      )
      assert.deepEqual(
        (await lengths(40)).toSorted(),
        keyNames(10).map(() => 4),
      )
      assert.deepEqual(
        (await lengths(1000)).toSorted(),
        keyNames(10).map(() => 8),
      )
    },
  },
  {
    name: 'a key with 5,000 records does not starve 50 others, however short the claims are',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyedRun('hot', 5000))
      await commit(world, ...keyNames(50).flatMap((key) => keyedRun(key, 3)))
      const left = new Set(keyNames(50).flatMap((key) => keyedIds(key, 1, 2, 3)))
      let claims = 0
      while (left.size > 0) {
        claims += 1
        assert.ok(claims <= 30, `after 30 claims of 20 records, ${left.size} of 150 still wait behind the hot key`)
        const claimed = await claim(world.store, { limit: 20 })
        for (const id of idsOf(claimed)) left.delete(id ?? '')
        await world.store.settle(claimed.map(published))
      }
      return `${claims} claims`
    },
  },
  {
    name: 'a claim with a limit in bytes cuts runs at their end, skips no record, and returns a larger record alone',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      const large = { data: randomBytes(100 * 1024) }
      await commit(world, ...keyNames(3).flatMap((key) => keyedRun(key, 4, large)), record('free1', large), record('free2', large))
      await commit(world, ...keyedRun('huge', 2, { data: randomBytes(400 * 1024) }))
      const seen: (string | undefined)[] = []
      for (let claims = 0; seen.length < 16; claims += 1) {
        assert.ok(claims < 16, `after 16 claims only ${seen.length} of 16 records were claimed`)
        const claimed = await claim(world.store, { maxBytes: 250 * 1024 })
        const bytes = claimed.reduce((sum, { message }) => sum + message.data.byteLength, 0)
        assert.ok(
          claimed.length <= 1 || bytes <= 250 * 1024,
          `a claim of at most 250 kB returned ${claimed.length} records of ${bytes} bytes`,
        )
        assert.ok(claimed.every(({ attempts }) => attempts === 1))
        await world.store.settle(claimed.map(published))
        seen.push(...idsOf(claimed))
      }
      for (const [key, count] of [...keyNames(3).map((name) => [name, 4] as const), ['huge', 2] as const]) {
        assert.deepEqual(
          seen.filter((id) => id?.startsWith(`${key}/`)),
          keyedIds(key, ...upTo(count)),
        )
      }
      assert.deepEqual(seen.filter((id) => id?.startsWith('free')).toSorted(), ['free1', 'free2'])
    },
  },
  {
    name: 'records without a key have no order and are not held up by keys that wait',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyNames(30).flatMap((key) => keyedRun(key, 20)), ...records(200, 'free'))
      const free = new Set<string | undefined>()
      for (let claims = 0; claims < 20; claims += 1) {
        const claimed = await claim(world.store, { limit: 50 })
        // Records with a key stay in flight; records without a key are claimed repeatedly, while others without a key are in flight.
        for (const { message } of claimed.filter((one) => keyOf(one) === '')) free.add(message.id)
      }
      assert.equal(free.size, 200)
    },
  },
  {
    name: 'one key for two destinations is two queues: neither holds up the other',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyedRun('a', 2, { destination: 'one' }), ...keyedRun('a', 2, { destination: 'two' }))
      const one = await claim(world.store, { destinations: ['one'] })
      assert.deepEqual(idsOf(one), keyedIds('a', 1, 2))
      await world.store.settle(one.map((each) => failed(each, hour)))
      const two = await claim(world.store)
      assert.deepEqual(
        two.map(({ destination, message }) => [destination, message.id]),
        keyedIds('a', 1, 2).map((id) => ['two', id]),
      )
      await world.store.release(two)
      assert.deepEqual(idsOf(await claim(world.store, { except: ['two'] })), [])
    },
  },
  {
    name: 'a destination with 2,000 records leaves room for another destination in every claim',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyNames(100).flatMap((key) => keyedRun(key, 20, { destination: 'one' })))
      await commit(world, ...keyNames(20).flatMap((key) => keyedRun(key, 1, { destination: 'two' })))
      const claimed = await claim(world.store, { limit: 50 })
      const other = claimed.filter(({ destination }) => destination === 'two')
      assert.ok(other.length >= 10, `${other.length} of 50 are for the other destination`)
    },
  },
  {
    name: 'records in flight are shown in their previous state, because single records have no leases',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyedRun('a', 3), record('free'))
      assert.equal((await claim(world.store)).length, 4)
      const [stats] = (await world.store.stats()).destinations
      assert.deepEqual([stats?.ready, stats?.leased], [4, 0])
      const { records: shown } = await world.store.list({}, { limit: 10 })
      assert.deepEqual(
        shown.map(({ state, leasedUntil, attempts }) => [state, leasedUntil, attempts]),
        shown.map(() => ['ready', undefined, 0]),
      )
    },
  },
]
