import assert from 'node:assert/strict'
import { within } from '../../run/scenario.ts'
import { claim, claimOne, commit, failed, hour, idsOf, lease, type OutboxScenario, published, record, records } from './outbox-world.ts'

export const leaseScenarios: readonly OutboxScenario[] = [
  {
    name: 'renew extends the lease, counted from now',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const other = await world.another()
      await commit(world, record('e1'))
      const claimed = await claimOne(world.store)
      for (let round = 0; round < 3; round += 1) {
        await world.advance(lease - 10_000)
        assert.deepEqual(await claim(other), [], `lost in round ${round}`)
        assert.deepEqual(await world.store.renew([claimed], lease), [true])
      }
      assert.equal((await world.store.get(claimed.id))?.attempts, 1)
      await world.advance(lease + 1)
      assert.equal((await claimOne(other)).attempts, 2, 'renewals must not add up')
    },
  },
  {
    name: 'renew of a lost claim returns false and does not affect the new owner',
    async run(open) {
      await using world = await open({ retain: false })
      const other = await world.another()
      await commit(world, ...records(2))
      const [lost, gone] = await claim(world.store)
      assert.ok(lost && gone)
      await world.store.settle([published(gone)])
      await world.advance(lease + 1)
      const current = await claimOne(other)
      await commit(world, record('e3'))
      const held = await claimOne(world.store)
      assert.deepEqual(await world.store.renew([lost, held, gone], 10 * lease), [false, true, false])
      await world.advance(lease + 1)
      assert.equal((await claimOne(world.store)).id, current.id, 'the stale renewal must not have extended the lease')
      assert.deepEqual(await world.store.renew([lost], lease), [false], 'a lost claim stays lost')
    },
  },
  {
    name: 'after the lease has expired, renew and settle agree on whether the claim is lost',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('e1'))
      const claimed = await claimOne(world.store)
      await world.advance(lease + 1)
      const [renewed] = await world.store.renew([claimed], lease)
      const [settled] = await world.store.settle([published(claimed)])
      assert.equal(settled, renewed === true ? 'applied' : 'lost')
      assert.equal((await claim(world.store)).length, renewed === true ? 0 : 1)
    },
  },
  {
    name: 'a released record can be claimed immediately, and its attempt is not counted',
    basic: true,
    async run(open) {
      await using world = await open({ retain: false })
      const other = await world.another()
      await commit(world, record('e1'))
      for (let round = 0; round < 5; round += 1) {
        const claimed = await claimOne(world.store)
        assert.equal(claimed.attempts, 1)
        await world.store.release([claimed])
        const found = await world.store.get(claimed.id)
        assert.deepEqual([found?.state, found?.attempts], ['ready', 0])
        assert.deepEqual(await world.store.settle([published(claimed)]), ['lost'], 'a released claim cannot be settled')
      }
      assert.equal((await claimOne(other, { retried: 'never' })).attempts, 1)
    },
  },
  {
    name: 'release restores a record to its state before the claim, including earlier failures',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, record('e1'))
      await world.store.settle([failed(await claimOne(world.store), 0, 'first')])
      await world.store.settle([failed(await claimOne(world.store), 0, 'second')])
      const claimed = await claimOne(world.store)
      assert.equal(claimed.attempts, 3)
      await world.store.release([claimed])
      const found = await world.store.get(claimed.id)
      assert.deepEqual([found?.attempts, found?.lastError], [2, 'second'])
      assert.equal((await claimOne(world.store, { retried: 'only' })).attempts, 3)
    },
  },
  {
    name: 'release of a lost claim does not affect the new owner',
    async run(open) {
      await using world = await open({ retain: false })
      const other = await world.another()
      await commit(world, record('e1'))
      const stale = await claimOne(world.store)
      await world.advance(lease + 1)
      const current = await claimOne(other)
      await world.store.release([stale])
      assert.deepEqual(await claim(world.store), [])
      assert.equal((await world.store.get(current.id))?.attempts, 2)
      assert.deepEqual(await other.settle([published(current)]), ['applied'])
    },
  },
  {
    name: 'acting on one claim of a batch does not affect the others',
    async run(open) {
      await using world = await open({ retain: false })
      await commit(world, ...records(4))
      const [a, b, c, d] = await claim(world.store)
      assert.ok(a && b && c && d)
      await world.store.release([b])
      await world.store.settle([failed(c, hour)])
      assert.deepEqual(await world.store.renew([a], 10 * lease), [true])
      assert.deepEqual(idsOf(await claim(world.store)), ['e2'])
      await world.advance(lease + 1)
      assert.deepEqual(idsOf(await claim(world.store)).sort(), ['e2', 'e4'], 'only the renewed one is still leased')
      assert.deepEqual(await world.store.settle([published(a)]), ['applied'])
    },
  },
  {
    name: 'wake-ups, if supported, end when their signal is aborted',
    async run(open) {
      await using world = await open({ retain: false })
      const { store } = world
      if (store.wakeUps === undefined) return
      const stop = new AbortController()
      const following = (async () => {
        for await (const _ of store.wakeUps?.({ signal: stop.signal }) ?? []);
      })()
      await commit(world, ...records(2))
      stop.abort()
      await within(2000, following, 'wakeUps()')
      for await (const _ of store.wakeUps({ signal: stop.signal })) assert.fail('a wake-up after the abort')
    },
  },
]
