import assert from 'node:assert/strict'
import type { DrainResult } from '@ackord/outbox'
import { distinct, numbered, type RelayScenario, RelayWorld, relayLease } from './relay-world.ts'

const deadline = 10_000

/** The part of a result that the scenarios compare. */
function outcome({ published, failed, parked, reason }: DrainResult): object {
  return { published, failed, parked, reason }
}

export const drainScenarios: readonly RelayScenario[] = [
  {
    name: 'a drain publishes all that can be claimed, and hands everything over',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      await world.add('a', ...numbered(30, 'a'))
      await world.add('b', ...numbered(25, 'b'))
      const first = await world.create()
      const drained = await world.passing(first.relay.drain(), 'the drain has ended')
      assert.deepEqual(outcome(drained), { published: 55, failed: 0, parked: 0, reason: 'empty' })
      assert.deepEqual(world.arrived.toSorted(), [...numbered(30, 'a'), ...numbered(25, 'b')])
      assert.equal(await world.isEmpty(), true, 'records are left')
      // With order per key the partitions must be free at once, not when the lease of the first relay ends.
      await world.add('a', 'later')
      const second = await world.create()
      const next = await world.passing(second.relay.drain(), 'the second drain has ended', relayLease / 2)
      assert.equal(next.published, 1, 'the next drain does not find a record')
    },
  },
  {
    name: 'a drain with a limit gives an outcome to no more records, and leaves the others as they were',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      await world.add('a', ...numbered(25))
      const { relay } = await world.create(undefined, { concurrency: 3 })
      const drained = await world.passing(relay.drain({ limit: 7 }), 'the drain has ended')
      assert.deepEqual(outcome(drained), { published: 7, failed: 0, parked: 0, reason: 'limit' })
      assert.equal(world.arrived.length, 7)
      assert.equal(await world.inFlight(), 0, 'records are left leased')
      assert.equal((await world.counts()).ready, 18)
      await world.passing(relay.drain(), 'the second drain has ended')
      assert.deepEqual(world.arrived.toSorted(), numbered(25))
    },
  },
  {
    name: 'a drain ends before its deadline even if a publish hangs, and releases the records without an outcome',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = ({ destination, messages }) =>
        destination === 'a' ? new Promise(() => {}) : Promise.resolve(messages.map(() => ({ ok: true })))
      await world.add('a', ...numbered(5, 'a'))
      await world.add('b', ...numbered(5, 'b'))
      const { relay } = await world.create()
      const startedAt = world.runtime.now()
      const drained = await world.passing(relay.drain({ deadline }), 'the drain has ended', deadline)
      assert.ok(world.runtime.now() - startedAt <= deadline, 'the drain ended after its deadline')
      assert.deepEqual(outcome(drained), { published: 5, failed: 0, parked: 0, reason: 'deadline' })
      assert.deepEqual(world.arrived.toSorted(), numbered(5, 'b'))
      assert.equal(await world.inFlight(), 0, 'records are left leased')
      const { records } = await world.outbox.store.list({ state: 'ready' }, { limit: 100 })
      assert.deepEqual(
        records.map(({ message, attempts }) => [message.id, attempts]),
        numbered(5, 'a').map((id) => [id, 0]),
      )
    },
  },
  {
    name: 'a drain that is aborted settles what is in flight and claims no more',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      const aborting = new AbortController()
      world.answer = async ({ messages }) => {
        aborting.abort()
        await new Promise<void>((resolve) => world.runtime.setTimeout(resolve, 1000))
        return messages.map(() => ({ ok: true }))
      }
      await world.add('a', ...numbered(30))
      const { relay } = await world.create()
      const drained = await world.passing(relay.drain({ signal: aborting.signal }), 'the drain has ended')
      assert.equal(drained.reason, 'aborted')
      const published = world.arrived.length
      assert.deepEqual([published > 0, published < 30], [true, true], 'all or nothing was published')
      assert.equal(drained.published, published, 'what was published is not settled')
      assert.equal(await world.inFlight(), 0, 'records are left leased')
      assert.equal((await world.counts()).ready, 30 - published)
    },
  },
  {
    name: 'a drain ends when a destination stays down, and its records keep their attempts',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = async ({ destination, messages }) =>
        messages.map(() => (destination === 'a' ? { ok: false, error: new Error('down'), scope: 'destination' } : { ok: true }))
      await world.add('a', ...numbered(5, 'a'))
      await world.add('b', ...numbered(5, 'b'))
      const { relay } = await world.create()
      const drained = await world.passing(relay.drain(), 'the drain has ended', 120_000)
      assert.deepEqual(outcome(drained), { published: 5, failed: 0, parked: 0, reason: 'down' })
      assert.deepEqual(drained.skipped, ['a'])
      const { records } = await world.outbox.store.list({ destination: 'a', state: 'ready' }, { limit: 100 })
      assert.deepEqual(
        records.map(({ attempts }) => attempts),
        [0, 0, 0, 0, 0],
      )
    },
  },
  {
    name: 'one record that makes its destination fail does not keep drains from publishing the others',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = async ({ messages }) => {
        const fails = messages.some(({ id }) => id === 'bad')
        return messages.map(() => (fails ? { ok: false, error: new Error('closed'), scope: 'destination' } : { ok: true }))
      }
      await world.add('a', 'bad', ...numbered(12))
      for (let drains = 0; drains < 5 && (await world.counts()).ready > 1; drains += 1) {
        const { relay } = await world.create()
        await world.passing(relay.drain(), 'the drain has ended', 120_000)
      }
      assert.deepEqual(distinct(world.arrived), numbered(12))
    },
  },
  {
    name: 'a relay that is killed while it drains loses nothing',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      await world.add('a', ...numbered(5))
      let killed = false
      const dying = await world.create((point, process) => {
        if (point !== 'publish') return
        killed = true
        process.kill()
      })
      void dying.relay.drain()
      await world.until(() => killed, 'the publish has begun')
      await world.elapse(2 * relayLease)
      const { relay } = await world.create()
      const drained = await world.passing(relay.drain(), 'the drain has ended')
      assert.equal(drained.reason, 'empty')
      assert.deepEqual(distinct(world.arrived), numbered(5))
      assert.equal(await world.isEmpty(), true, 'records are left')
    },
  },
  {
    name: 'a record that fails in a drain is left to a later one, with its attempt counted',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      let failing = true
      world.answer = async ({ messages }) =>
        messages.map(({ id }) => (failing && id === 'e002' ? { ok: false, error: new Error('refused') } : { ok: true }))
      await world.add('a', ...numbered(3))
      const { relay } = await world.create()
      const first = await world.passing(relay.drain(), 'the drain has ended')
      assert.deepEqual([first.failed, first.reason], [1, 'empty'])
      failing = false
      await world.elapse(6000)
      const second = await world.passing(relay.drain(), 'the second drain has ended')
      assert.equal(first.published + second.published, 3)
      assert.deepEqual(world.arrived.toSorted(), numbered(3))
      assert.equal(await world.isEmpty(), true, 'records are left')
    },
  },
]
