import assert from 'node:assert/strict'
import { record } from '../outbox/outbox-world.ts'
import { numbered, type RelayScenario, RelayWorld } from './relay-world.ts'

export const selectionScenarios: readonly RelayScenario[] = [
  {
    name: 'with a publisher per destination each record goes to its own, and records without a publisher are left to other relays',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      for (const destination of ['a', 'b', 'c']) await world.add(destination, ...numbered(5, destination))
      const first = await world.start(undefined, (publisherOf) => ({ publisher: { a: publisherOf('first'), b: publisherOf('second') } }))
      await world.until(() => world.arrived.length >= 10, 'the records with a publisher are published')
      await world.elapse(60_000)
      for (const { broker, destination } of world.calls) assert.equal(broker, destination === 'a' ? 'first' : 'second')
      assert.deepEqual(world.arrived.toSorted(), [...numbered(5, 'a'), ...numbered(5, 'b')])
      const { records } = await world.outbox.store.list({ state: 'ready' }, { limit: 100 })
      assert.deepEqual(
        records.map(({ destination, attempts }) => [destination, attempts]),
        Array(5).fill(['c', 0]),
      )
      // With order per key relays share the keys, not the destinations: the records in the partitions of the first relay are left to others when it stops.
      if (world.outbox.store.capabilities.order === 'perKey') await world.stop(first)
      await world.start(undefined, (publisherOf) => ({ publisher: { a: publisherOf('first'), '*': publisherOf('rest') } }))
      await world.until(() => world.isEmpty(), 'the other relay has published the remaining records')
      assert.equal(world.calls.at(-1)?.broker, 'rest')
    },
  },
  {
    name: 'a record whose expirytime has passed is parked instead of published, and its error says so',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      const expiring = (id: string, after: number) => {
        const expirytime = new Date(world.runtime.now() + after).toISOString()
        return record(id, { destination: 'a', attributes: { expirytime } })
      }
      await world.addRecords(expiring('late', 1000), expiring('early', 3_600_000))
      await world.elapse(2000)
      await world.start()
      await world.until(async () => (await world.counts()).parked === 1, 'the record is parked')
      await world.until(() => world.arrived.length === 1, 'the other is published')
      const parked = await world.parked()
      assert.equal(parked.message.id, 'late')
      assert.match(parked.lastError ?? '', /expired/)
      assert.deepEqual(world.arrived, ['early'])
    },
  },
]
