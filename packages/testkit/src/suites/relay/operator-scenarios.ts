import assert from 'node:assert/strict'
import type { OutboxAdmin } from '@ackord/outbox'
import { numbered, type RelayScenario, RelayWorld } from './relay-world.ts'

const minute = 60_000

/** Pauses and reports, which operators and relays exchange through the store. */
export const operatorScenarios: readonly RelayScenario[] = [
  {
    name: 'a relay publishes nothing to a destination that an operator has paused, and continues when it is resumed',
    async run(ports) {
      await using world = await RelayWorld.open(ports, { notes: true })
      const store = admin(world)
      await store.pause('a', { reason: 'maintenance' })
      await world.add('a', ...numbered(3, 'a'))
      await world.add('b', ...numbered(3, 'b'))
      await world.start()
      await world.start()
      await world.until(() => world.arrived.length >= 3, 'the records of the other destination are published')
      await world.elapse(2 * minute)
      assert.deepEqual(world.arrived.toSorted(), numbered(3, 'b'))
      const { records } = await store.list({ destination: 'a' }, { limit: 10 })
      assert.deepEqual(
        records.map(({ state, attempts }) => [state, attempts]),
        Array(3).fill(['ready', 0]),
      )
      await store.resume('a')
      await world.until(() => world.arrived.length >= 6, 'the records are published')
      await store.pause('b')
      await world.elapse(2000)
      await world.add('b', 'later')
      await world.add('a', 'meanwhile')
      await world.until(() => world.arrived.length >= 7, 'the running relays publish to the other destination')
      await world.elapse(minute)
      assert.equal(world.arrived.at(-1), 'meanwhile')
      assert.equal(world.arrived.length, 7)
    },
  },
  {
    name: 'a relay is listed while it runs, with its state, and reports what it has published once a minute',
    async run(ports) {
      await using world = await RelayWorld.open(ports, { notes: true })
      const store = admin(world)
      world.answer = async ({ destination, messages }) =>
        messages.map(() => (destination === 'bad' ? { ok: false, error: new Error('refused'), permanent: true } : { ok: true }))
      const first = await world.start()
      const second = await world.start()
      await world.add('good', ...numbered(5))
      await world.add('bad', 'x')
      await world.until(async () => (await store.relays()).length === 2, 'both relays have reported')
      await world.elapse(2 * minute)
      const relays = await store.relays()
      const sum = (name: 'published' | 'parked') => relays.reduce((total, one) => total + one[name], 0)
      assert.deepEqual([relays.length, sum('published'), sum('parked')], [2, 5, 1])
      for (const { age, uptime, pid, host, inFlight } of relays) {
        assert.ok(age < minute / 2 && uptime > minute && pid > 0 && host !== '', JSON.stringify(relays))
        assert.equal(inFlight, 0)
      }
      const rates = await store.rates({ maxAge: 10 * minute })
      const total = (destination: string, name: 'published' | 'parked') =>
        rates.filter((rate) => rate.destination === destination).reduce((all, rate) => all + rate[name], 0)
      assert.deepEqual([total('good', 'published'), total('bad', 'parked'), total('bad', 'published')], [5, 1, 0])
      for (const { duration } of rates) assert.ok(duration > minute / 2 && duration < 2 * minute, String(duration))
      await world.stop(first)
      assert.equal((await store.relays()).length, 1)
      second.kill()
      await world.elapse(2 * minute)
      assert.deepEqual(await store.relays(), [])
    },
  },
]

function admin({ outbox }: RelayWorld): Required<OutboxAdmin> {
  return outbox.store as Required<OutboxAdmin>
}
