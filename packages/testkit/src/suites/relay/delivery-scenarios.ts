import assert from 'node:assert/strict'
import type { Metrics } from '@ackord/core'
import { deferred } from '../../helpers/tracked-message.ts'
import { settlePromises } from '../../helpers/virtual-runtime.ts'
import { hour } from '../outbox/outbox-world.ts'
import { distinct, numbered, type RelayScenario, RelayWorld, relayLease, relayPublishTimeout, takeAll } from './relay-world.ts'

/** Shorter than the time limit of a publish. */
const brokerDelay = 15_000

export const deliveryScenarios: readonly RelayScenario[] = [
  {
    name: 'every committed record is published once, to its destination',
    basic: true,
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      await world.add('a', ...numbered(50, 'a'))
      const process = await world.start()
      await world.add('b', ...numbered(10, 'b'))
      await world.until(() => world.isEmpty(), 'everything is published')
      await world.stop(process)
      assert.deepEqual(world.arrived.toSorted(), [...numbered(50, 'a'), ...numbered(10, 'b')])
      for (const { destination, messages } of world.calls) {
        for (const { id } of messages) assert.equal(id?.[0], destination)
      }
    },
  },
  {
    name: 'the delay of each record, from storing it until the broker confirms it, is observed in milliseconds, per destination',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      const observed: { readonly destination: string; readonly delay: number }[] = []
      const metrics: Metrics = {
        count() {},
        gauge() {},
        observe(name, delay, { destination = '' }) {
          if (name === 'ackord.outbox.delivery_delay') observed.push({ destination: String(destination), delay })
        },
      }
      let refused = false
      world.answer = async (call) => {
        if (call.destination === 'slow') await new Promise<void>((resolve) => void world.runtime.setTimeout(resolve, brokerDelay))
        if (call.destination === 'slow' || refused) return await takeAll(call)
        refused = true
        return call.messages.map(() => ({ ok: false, error: new Error('not now') }))
      }
      await world.add('slow', 'e001')
      // Only the clock of the store shows how long the record has been there.
      await world.outbox.advance(hour)
      await world.add('failing', 'e002')
      await world.start(() => {}, { metrics })
      await world.until(() => world.isEmpty(), 'everything is published')
      // One observation per confirmed record. A retry counts from storing the record, not from the last attempt, and the back-off is 5 s.
      assert.deepEqual(observed.map(({ destination }) => destination).toSorted(), ['failing', 'slow'])
      const expected = new Map([
        ['slow', hour + brokerDelay],
        ['failing', 5000],
      ])
      for (const { destination, delay } of observed) {
        const least = expected.get(destination) ?? 0
        assert.ok(delay >= least && delay < least + 60_000, `the delay of '${destination}' is ${delay} ms, not ${least} ms`)
      }
    },
  },
  {
    name: 'a relay that is killed while it publishes loses nothing',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      await world.add('a', ...numbered(5))
      await world.start((point, process) => {
        if (point === 'publish') process.kill()
      })
      await world.elapse(2000)
      assert.deepEqual(world.arrived, [])
      await world.start()
      await world.until(() => world.isEmpty(), 'the next relay has published all')
      assert.deepEqual(distinct(world.arrived), numbered(5))
    },
  },
  {
    name: 'a relay that is killed after publishing, before settling, leaves a duplicate with the same id and loses nothing',
    basic: true,
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      await world.add('a', ...numbered(5))
      await world.start((point, process) => {
        if (point === 'settle') process.kill()
      })
      await world.until(() => world.arrived.length > 0, 'the first relay has published')
      await world.start()
      await world.until(() => world.isEmpty(), 'the next relay has settled all')
      assert.deepEqual(distinct(world.arrived), numbered(5))
      assert.equal(world.arrived.length, 10, 'published records that were not settled must be published again')
      return '5 duplicates of 5'
    },
  },
  {
    name: 'a relay that is killed after settling leaves no duplicate',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      await world.add('a', ...numbered(5))
      await world.start((point, process) => {
        if (point === 'settled') process.kill()
      })
      await world.until(() => world.isEmpty(), 'the first relay has settled all')
      await world.start()
      await world.elapse(3 * relayLease)
      assert.deepEqual(world.arrived.toSorted(), numbered(5))
    },
  },
  {
    name: 'a slow publish keeps its lease: no other relay sends the same records records',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      const slow = deferred()
      world.answer = async (call) => {
        await slow.promise
        return await takeAll(call)
      }
      await world.add('a', ...numbered(5))
      // The store is slow too: only both delays together exceed the lease.
      await world.start(async (point) => {
        if (point === 'settle') await new Promise<void>((resolve) => void world.runtime.setTimeout(resolve, relayLease / 2))
      })
      await world.until(() => world.calls.length > 0, 'the publish has started')
      await world.start()
      await world.elapse(relayPublishTimeout - 1000)
      slow.resolve()
      await world.until(() => world.isEmpty(), 'everything is settled')
      assert.equal(world.calls.length, 1)
      assert.deepEqual(world.arrived.toSorted(), numbered(5))
    },
  },
  {
    name: 'a graceful stop settles the records in flight and leaves none leased',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      const slow = deferred()
      world.answer = async (call) => {
        await slow.promise
        return await takeAll(call)
      }
      await world.add('a', ...numbered(30))
      const process = await world.start()
      await world.until(() => world.calls.length > 0, 'the publish has started')
      const stopping = world.stop(process)
      await world.elapse(1000)
      slow.resolve()
      await stopping
      assert.equal(await world.inFlight(), 0)
      const left = await world.claimable()
      assert.deepEqual([...world.arrived, ...left].toSorted(), numbered(30), 'each record must be published or still stored')
      const calls = world.calls.length
      await world.elapse(2 * relayLease)
      assert.equal(world.calls.length, calls, 'the relay publishes after its stop')
    },
  },
  {
    name: 'stop may come before start, twice, and while idle; start twice is one run',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      let claims = 0
      const process = await world.create((point) => {
        if (point === 'claim') claims += 1
      })
      await world.passing(process.relay.stop(), 'stop before start')
      process.relay.start()
      process.relay.start()
      await settlePromises()
      assert.equal(claims, 1, 'one run claims once, and then waits')
      await world.add('a', ...numbered(5))
      await world.until(() => world.isEmpty(), 'everything is published')
      await world.passing(Promise.all([process.relay.stop(), process.relay.stop()]), 'stop, twice')
      await world.stop(process)
      assert.deepEqual(world.arrived.toSorted(), numbered(5))
      assert.equal(world.runtime.timers, 0, 'the relay has left timers')
    },
  },
]
