import assert from 'node:assert/strict'
import { numbered, type RelayProcess, type RelayScenario, RelayWorld, relayLease, relayShutdownTimeout } from './relay-world.ts'

/** The time that a relay may need beyond its limit to release its records. */
const lastCalls = 5000

export const shutdownScenarios: readonly RelayScenario[] = [
  {
    name: 'a stop ends within its time limit even if a publish hangs, and releases the records without an outcome',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = ({ destination, messages }) =>
        destination === 'a' ? new Promise(() => {}) : Promise.resolve(messages.map(() => ({ ok: true })))
      await world.add('a', ...numbered(5, 'a'))
      await world.add('b', ...numbered(5, 'b'))
      const process = await world.start()
      await world.until(() => world.calls.length === 2, 'the publishes have started')
      await stopInTime(world, process)
      assert.equal(world.calls.find(({ destination }) => destination === 'a')?.signal.aborted, true)
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
    name: 'a stop ends even if publisher and store hang, and nothing is lost',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      let hanging = true
      world.answer = ({ messages }) => (hanging ? new Promise(() => {}) : Promise.resolve(messages.map(() => ({ ok: true }))))
      await world.add('a', ...numbered(5))
      const process = await world.start(async (point) => {
        if (point !== 'claim' && point !== 'publish') await new Promise(() => {})
      })
      await world.until(() => world.calls.length === 1, 'the publish has started')
      await stopInTime(world, process)
      hanging = false
      await world.start()
      await world.until(() => world.isEmpty(), 'the next relay has published all', 3 * relayLease)
      assert.deepEqual(world.arrived.toSorted(), numbered(5))
    },
  },
]

async function stopInTime(world: RelayWorld, process: RelayProcess): Promise<void> {
  const startedAt = world.runtime.now()
  await world.stop(process, relayShutdownTimeout + lastCalls)
  const duration = world.runtime.now() - startedAt
  assert.ok(
    duration >= relayShutdownTimeout - 1000,
    `the stop ended after ${duration} ms, before its time limit: a publish may take longer`,
  )
}
