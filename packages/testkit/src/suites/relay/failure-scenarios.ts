import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { distinct, numbered, type RelayScenario, RelayWorld, takeAll } from './relay-world.ts'

const down = new Error('connection refused')

export const failureScenarios: readonly RelayScenario[] = [
  {
    name: 'a record that can never be published is parked immediately, and the others are published',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = async ({ messages }) =>
        messages.map(({ id }) => (id === 'e003' ? { ok: false, error: new Error('too large'), permanent: true } : { ok: true }))
      await world.add('a', ...numbered(10))
      await world.start()
      await world.until(async () => (await world.counts()).parked === 1, 'the record is parked')
      await world.until(() => world.arrived.length === 9, 'the others are published')
      const parked = await world.parked()
      assert.deepEqual([parked.message.id, parked.attempts], ['e003', 1])
      assert.match(parked.lastError ?? '', /too large/)
    },
  },
  {
    name: 'a record that keeps failing backs off, then is parked with its error',
    basic: true,
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = async ({ messages }) => messages.map(() => ({ ok: false, error: new Error('no such queue') }))
      await world.add('a', 'e001')
      await world.start()
      await world.until(async () => (await world.counts()).parked === 1, 'the record is parked')
      const at = world.calls.map((call) => call.at)
      assert.equal(at.length, 3, 'it must be tried maxAttempts times')
      for (const [index, time] of at.slice(1).entries()) assert.ok(time - (at[index] ?? 0) >= 5000, 'it was retried too early')
      assert.match((await world.parked()).lastError ?? '', /no such queue/)
    },
  },
  {
    name: 'exactly the confirmed records of a batch are settled as published',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      let first = true
      world.answer = async ({ messages }) => {
        const fails = first
        first = false
        return messages.map((_, index) => (fails && index % 2 === 1 ? { ok: false, error: new Error('not now') } : { ok: true }))
      }
      await world.add('a', ...numbered(10))
      await world.start()
      await world.until(() => world.isEmpty(), 'everything is published')
      assert.deepEqual(world.arrived.slice(0, 5), ['e001', 'e003', 'e005', 'e007', 'e009'])
      assert.deepEqual(world.arrived.toSorted(), numbered(10))
    },
  },
  {
    name: 'a broker that is down is retried less and less often, and no record loses an attempt',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = async ({ messages }) => messages.map(() => ({ ok: false, error: down, scope: 'destination' }))
      await world.add('a', ...numbered(30))
      await world.start()
      await world.elapse(600_000)
      assert.ok(world.calls.length <= 60, `${world.calls.length} calls in ten minutes are a hot loop`)
      assert.ok(world.calls.length >= 3, 'it must be retried')
      assert.equal((await world.counts()).parked, 0)
      const { records } = await world.outbox.store.list({ state: 'ready' }, { limit: 100 })
      const { takenOver, logger } = world
      // A leased record counts an attempt until it is released, and is not listed here.
      const counted = records.filter(({ attempts }) => attempts > 0)
      assert.ok(counted.length === 0, `records lost attempts: ${inspect({ counted, takenOver, lines: logger.lines }, { depth: 4 })}`)
      const loud = world.logger.lines.filter(({ level }) => level === 'warn' || level === 'error')
      assert.ok(loud.length <= 2, `${loud.length} log lines for one change of state`)

      world.answer = takeAll
      await world.until(() => world.isEmpty(), 'the outbox drains after the broker is back')
      assert.deepEqual(world.arrived.toSorted(), numbered(30))
    },
  },
  {
    name: 'a destination that is down does not delay the others',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = async (call) =>
        call.destination === 'a' ? call.messages.map(() => ({ ok: false, error: down, scope: 'destination' })) : await takeAll(call)
      await world.add('a', ...numbered(100, 'a'))
      await world.add('b', ...numbered(10, 'b'))
      await world.start()
      await world.until(() => world.arrived.length === 10, 'the others are published', 120_000)
      assert.deepEqual(world.arrived.toSorted(), numbered(10, 'b'))
    },
  },
  ...(['answers', 'breaks the connection'] as const).map(
    (how): RelayScenario => ({
      name: `a record for which its destination ${how} as if it were down loses attempts and is parked, and the others are published`,
      async run(ports) {
        await using world = await RelayWorld.open(ports)
        world.answer = async ({ messages }) => {
          if (how !== 'answers' && messages.some(({ id }) => id === 'e001')) throw new Error('connection reset')
          return messages.map(({ id }) => (id === 'e001' ? { ok: false, error: down, scope: 'destination' } : { ok: true }))
        }
        const good = numbered(20).slice(1)
        await world.add('a', ...numbered(20))
        await world.start()
        // Without other records it could not be distinguished from an outage.
        for (let number = 21; number <= 60 && (await world.counts()).parked === 0; number += 1) {
          good.push(`e0${number}`)
          await world.add('a', `e0${number}`)
          await world.elapse(5000)
        }
        await world.until(() => world.arrived.length >= good.length, 'the others are published', 120_000)
        assert.deepEqual(distinct(world.arrived), good)
        const parked = await world.parked()
        assert.deepEqual([parked.message.id, parked.attempts], ['e001', 3])
      },
    }),
  ),
  {
    name: 'a slow destination does not delay the others',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = async (call) => {
        if (call.destination === 'slow') await new Promise<void>((resolve) => void world.runtime.setTimeout(resolve, 15_000))
        return await takeAll(call)
      }
      await world.add('slow', ...numbered(60, 's'))
      await world.add('fast', 'f001')
      await world.start()
      for (let number = 2; number <= 6; number += 1) {
        await world.elapse(7000)
        assert.equal(world.arrived.filter((id) => id.startsWith('f')).length, number - 1, 'a record waits for another destination')
        await world.add('fast', `f00${number}`)
      }
      const together = world.calls.filter(({ destination }) => destination === 'slow').map(({ at }) => at)
      for (const [index, at] of together.slice(1).entries()) {
        assert.ok(at - (together[index] ?? 0) >= 15_000, 'a destination got more concurrent calls than allowed')
      }
      await world.until(() => world.isEmpty(), 'everything is published')
      assert.deepEqual(world.arrived.toSorted(), [...numbered(6, 'f'), ...numbered(60, 's')])
    },
  },
  {
    name: 'a publisher that throws loses nothing',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      let failures = 0
      world.answer = async (call) => {
        failures += 1
        if (failures <= 3) throw new Error('the socket is gone')
        return await takeAll(call)
      }
      await world.add('a', ...numbered(10))
      await world.start()
      await world.until(() => world.isEmpty(), 'everything is published')
      assert.deepEqual(world.arrived.toSorted(), numbered(10))
    },
  },
  {
    name: 'a publish that never answers times out, has its signal aborted, and is retried',
    async run(ports) {
      await using world = await RelayWorld.open(ports)
      world.answer = (call) => (world.calls.length === 1 ? new Promise(() => {}) : takeAll(call))
      await world.add('a', ...numbered(5))
      await world.start()
      await world.until(() => world.isEmpty(), 'everything is published')
      assert.equal(world.calls[0]?.signal.aborted, true)
      assert.deepEqual(world.arrived.toSorted(), numbered(5))
    },
  },
]
