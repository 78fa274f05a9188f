import assert from 'node:assert/strict'
import type { RelayOptions } from '@ackord/outbox'
import { claim, commit, commitParked, failed, hour, idsOf, published } from '../outbox/outbox-world.ts'
import type { RelayScenario } from '../relay/relay-world.ts'
import { keyed, keyedIds, keyedRun, OrderWorld } from './order-world.ts'

/** The records behind a parked record: published, withheld or parked too. */
export const parkedScenarios: readonly RelayScenario[] = [
  {
    name: 'the records behind a parked record are returned, withheld or marked, as the claim asks',
    basic: true,
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      const [parked] = await commitParked(world, keyed('a', 1))
      await commit(world, ...keyedRun('a', 2, { from: 2 }), ...keyedRun('b', 2))
      const ask = async (behindParked?: 'given' | 'kept' | 'marked') => {
        const claimed = await claim(world.store, { behindParked })
        await world.store.release(claimed)
        return claimed.map(({ message, behind }) => [message.id, behind]).toSorted()
      }
      const [a, b] = [keyedIds('a', 2, 3), keyedIds('b', 1, 2)]
      const plain = (ids: readonly string[]) => ids.map((id) => [id, undefined])
      assert.deepEqual(await ask(), plain([...a, ...b]))
      assert.deepEqual(await ask('given'), plain([...a, ...b]))
      assert.deepEqual(await ask('kept'), plain(b))
      assert.deepEqual(await ask('marked'), [...a.map((id) => [id, parked]), ...plain(b)])
    },
  },
  {
    name: 'a parked record in the middle of a key holds up the records behind it, but not those before it',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      const [first, second] = await commitParked(world, ...keyedRun('a', 2))
      await commit(world, keyed('a', 3))
      assert.equal(await world.store.rearm({ ids: [first ?? ''] }), 1)
      const kept = await claim(world.store, { behindParked: 'kept' })
      assert.deepEqual(idsOf(kept), keyedIds('a', 1))
      await world.store.release(kept)
      const marked = await claim(world.store, { behindParked: 'marked' })
      assert.deepEqual(
        marked.map(({ message, behind }) => [message.id, behind]),
        [
          [...keyedIds('a', 1), undefined],
          [...keyedIds('a', 3), second],
        ],
      )
    },
  },
  {
    name: 'a discarded record no longer holds up its key',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      const [parked] = await commitParked(world, keyed('a', 1))
      await commit(world, keyed('a', 2))
      assert.deepEqual(idsOf(await claim(world.store, { behindParked: 'kept' })), [])
      assert.equal(await world.store.discard([parked ?? ''], 'not needed'), 1)
      assert.deepEqual(idsOf(await claim(world.store, { behindParked: 'kept' })), keyedIds('a', 2))
    },
  },
  {
    name: 'a record that an operator cancelled no longer holds up its key',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      const { store } = world
      if (!store.capabilities.delay || store.cancelWaiting === undefined) return
      await commit(world, keyed('a', 1))
      const [first] = await claim(store)
      assert.ok(first)
      await store.settle([failed(first, hour)])
      await commit(world, keyed('a', 2))
      assert.deepEqual(idsOf(await claim(store)), [])
      assert.equal(await store.cancelWaiting([first.id], 'not needed'), 1)
      assert.deepEqual(idsOf(await claim(store)), keyedIds('a', 2))
    },
  },
  {
    name: 'records can be listed and re-armed by ordering key, and are claimed before the records behind them',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commitParked(world, ...keyedRun('a', 2), ...keyedRun('b', 2))
      await commit(world, keyed('a', 3))
      const { records: shown } = await world.store.list({ orderingKey: 'a' }, { limit: 10 })
      assert.deepEqual(idsOf(shown), keyedIds('a', 1, 2, 3))
      assert.equal(await world.store.rearm({ filter: { orderingKey: 'a' } }), 2)
      const claimed = await claim(world.store)
      assert.deepEqual(idsOf(claimed), keyedIds('a', 1, 2, 3))
      await world.store.settle(claimed.map(published))
      assert.equal((await world.store.list({ state: 'parked' }, { limit: 10 })).records.length, 2)
    },
  },
  {
    name: "with 'park' the records behind a parked record are published without it",
    async run(ports) {
      await using world = await withBadSecond(ports, 'park')
      await world.relays.until(() => world.relays.arrived.length === 7, 'the others are published')
      assert.deepEqual(world.firstOf('a'), keyedIds('a', 1, 3, 4, 5))
      assert.equal(await rearmKey(world), 1)
      await world.drained()
      assert.deepEqual(world.firstOf('a'), keyedIds('a', 1, 3, 4, 5, 2))
    },
  },
  {
    name: "with 'block' a key waits behind its parked record until the record is re-armed, then continues in order",
    async run(ports) {
      await using world = await withBadSecond(ports, 'block')
      await world.relays.until(() => world.relays.arrived.length === 4, 'the other key is published')
      await world.relays.elapse(120_000)
      assert.deepEqual([world.firstOf('a'), world.firstOf('b')], [keyedIds('a', 1), keyedIds('b', 1, 2, 3)])
      assert.deepEqual((await world.relays.counts()).ready, 3)
      assert.equal(await rearmKey(world), 1)
      await world.drained()
      assert.deepEqual(world.firstOf('a'), keyedIds('a', 1, 2, 3, 4, 5))
    },
  },
  {
    name: "with 'parkKey' the records behind a parked record are parked too, including later ones, until all are re-armed",
    async run(ports) {
      await using world = await withBadSecond(ports, 'parkKey')
      const parked = async (count: number) => (await world.relays.counts()).parked === count
      await world.relays.until(() => parked(4), 'the record is parked with those behind it')
      await world.add(keyed('a', 6))
      await world.relays.until(() => parked(5), 'a later record is parked too')
      assert.deepEqual([world.firstOf('a'), world.firstOf('b')], [keyedIds('a', 1), keyedIds('b', 1, 2, 3)])
      const [bad, ...behind] = (await world.relays.outbox.store.list({ orderingKey: 'a', state: 'parked' }, { limit: 10 })).records
      assert.match(bad?.lastError ?? '', /too large/)
      const ids = [bad?.id, ...behind.map(({ id }) => id)]
      for (const { lastError } of behind) {
        assert.ok(
          ids.some((id) => lastError?.includes(`record ${id},`)),
          `the error does not say what it waits behind: ${lastError}`,
        )
      }
      assert.equal(await rearmKey(world), 5)
      await world.drained()
      assert.deepEqual(world.firstOf('a'), keyedIds('a', 1, 2, 3, 4, 5, 6))
      assert.equal(world.duplicates, 0)
    },
  },
]

/** Two keys and a relay. The broker refuses the second record of the first key permanently, until it is re-armed. */
async function withBadSecond(ports: Parameters<RelayScenario['run']>[0], onExhausted: RelayOptions['onExhausted']): Promise<OrderWorld> {
  const world = await OrderWorld.open(ports)
  const [bad] = keyedIds('a', 2)
  world.refuse((id) => (id === bad ? { error: new Error('too large'), permanent: true } : undefined))
  await world.add(...keyedRun('a', 5), ...keyedRun('b', 3))
  await world.start({ onExhausted })
  await world.relays.until(async () => (await world.relays.counts()).parked > 0, 'the record is parked')
  return world
}

/** Re-arms the key; the broker accepts everything from now on. */
async function rearmKey(world: OrderWorld): Promise<number> {
  world.refuse(() => undefined)
  return await world.relays.outbox.store.rearm({ filter: { orderingKey: 'a', state: 'parked' } })
}
