import assert from 'node:assert/strict'
import { VirtualRuntime } from '../../helpers/virtual-runtime.ts'
import { records } from '../outbox/outbox-world.ts'
import { type OnPoint, type RelayProcess, type RelayScenario, relayLease } from '../relay/relay-world.ts'
import { keyedIds, keyedRun, keyNames, OrderWorld, pastLease, upTo } from './order-world.ts'

const names = keyNames(12)
const notNow = { error: new Error('not now') }

/** Order per key as a consumer sees it, with relays that publish, fail, start and stop. */
export const relayOrderScenarios: readonly RelayScenario[] = [
  ...[1, 2, 4].map(
    (count): RelayScenario => ({
      repeats: count === 2,
      name: `with ${count} relay${count > 1 ? 's' : ''} every key arrives in order, once, across failures and retries`,
      async run(ports) {
        await using world = await OrderWorld.open(ports)
        const { random } = new VirtualRuntime({ seed: count })
        world.refuse(() => (random() < 0.2 ? notNow : undefined))
        for (const _ of upTo(count)) await world.start()
        await addAll(world)
        await world.drained()
        for (const key of names) assert.deepEqual(world.firstOf(key), keyedIds(key, ...upTo(10)))
        assert.equal(world.duplicates, 0)
      },
    }),
  ),
  ...[2, 4].flatMap((count) =>
    [1, 2].map(
      (seed): RelayScenario => ({
        // Each number of relays with one of the seeds.
        repeats: count !== 2 * seed,
        name: `while ${count} relays start, stall, stop and die, every key arrives in order, and twice only after a takeover (seed ${seed})`,
        run: (ports) => comeAndGo(ports, count, seed),
      }),
    ),
  ),
  {
    name: 'a relay that stops hands its keys to the others immediately, without a duplicate',
    basic: true,
    async run(ports) {
      await using world = await OrderWorld.open(ports)
      const first = await world.start({ batchSize: 200 })
      const second = await world.start({ batchSize: 200 })
      await addAll(world)
      await world.relays.until(() => world.relays.arrived.length > 20, 'both relays publish')
      await world.relays.stop(first)
      await addAll(world, 11)
      // A database needs some time too; without a handover it would take a whole lease.
      await world.drained(relayLease - 5000)
      await world.relays.stop(second)
      for (const key of names) assert.deepEqual(world.firstOf(key), keyedIds(key, ...upTo(20)))
      assert.equal(world.duplicates, 0)
    },
  },
  {
    name: 'a settle that fails for longer than the lease, while everything else works, leaves no key stuck',
    async run(ports) {
      await using world = await OrderWorld.open(ports)
      const { runtime } = world.relays
      const works = runtime.now() + pastLease
      // With room for another batch the relay continues to claim, and so keeps its partitions.
      await world.start({ concurrency: 2 }, (point) => {
        if ((point === 'settle' || point === 'release') && runtime.now() < works) throw new Error('the statement was cancelled')
      })
      await addAll(world)
      await world.relays.elapse(pastLease)
      await world.drained(5 * relayLease)
      for (const key of names) assert.deepEqual(world.firstOf(key), keyedIds(key, ...upTo(10)))
      return `${world.duplicates} duplicates`
    },
  },
  {
    name: 'a record that kills its relays is parked in the end, and its key continues',
    async run(ports) {
      await using world = await OrderWorld.open(ports)
      let victim: RelayProcess | undefined
      let deaths = 0
      const take = world.relays.answer
      world.relays.answer = (call) => {
        if (call.messages.every(({ id }) => id !== keyedIds('a', 1)[0])) return take(call)
        victim?.kill()
        deaths += 1
        return new Promise(() => {})
      }
      await world.add(...keyedRun('a', 3), ...keyedRun('b', 3))
      for (const number of upTo(3)) {
        // One record in flight at a time, so that no other record is suspected.
        victim = await world.start({ batchSize: 1, maxAttempts: 3 })
        await world.relays.until(() => deaths === number, 'the relay has died')
      }
      await world.start({ batchSize: 1, maxAttempts: 3 })
      await world.relays.until(async () => (await world.relays.counts()).parked === 1, 'the record is parked')
      await world.relays.until(async () => (await world.relays.counts()).ready === 0, 'the others are published')
      assert.equal(deaths, 3)
      assert.deepEqual(world.firstOf('a'), keyedIds('a', 2, 3))
      assert.deepEqual(world.firstOf('b'), keyedIds('b', 1, 2, 3))
    },
  },
  {
    name: 'a destination that is down stops its own records, but not those of the same key for another destination',
    async run(ports) {
      await using world = await OrderWorld.open(ports)
      const down = { error: new Error('connection refused'), scope: 'destination' } as const
      world.refuse((_, { destination }) => (destination === 'one' ? down : undefined))
      await world.add(...keyedRun('a', 5, { destination: 'one' }))
      await world.start()
      await world.relays.elapse(5000)
      await world.add(...keyedRun('a', 5, { destination: 'two' }))
      await world.relays.until(() => world.relays.arrived.length === 5, 'the other destination has its records', 20_000)
      world.refuse(() => undefined)
      await world.drained()
      assert.deepEqual(world.relays.arrived, [...keyedIds('a', ...upTo(5)), ...keyedIds('a', ...upTo(5))])
    },
  },
  {
    name: 'a record for which its destination seems to be down holds up its own key only, and is parked',
    async run(ports) {
      await using world = await OrderWorld.open(ports)
      const [bad] = keyedIds('bad', 1)
      const down = { error: new Error('connection reset'), scope: 'destination' } as const
      world.refuse((id) => (id === bad ? down : undefined))
      await world.add(...keyedRun('bad', 3), ...keyedRun('good', 20))
      await world.start({ maxAttempts: 3 })
      // Without other records it could not be distinguished from an outage.
      let sent = 20
      for (; sent < 60 && (await world.relays.counts()).parked === 0; sent += 1) {
        assert.deepEqual(world.firstOf('bad'), [], 'the records behind it must not overtake it')
        await world.add(...keyedRun('good', 1, { from: sent + 1 }))
        await world.relays.elapse(5000)
      }
      const parked = await world.relays.parked()
      assert.deepEqual([parked.message.id, parked.attempts], [bad, 3])
      await world.relays.until(() => world.firstOf('bad').length === 2, 'the records behind it are published', 120_000)
      await world.relays.until(() => world.firstOf('good').length === sent, 'the other key is published', 120_000)
      assert.deepEqual(world.firstOf('good'), keyedIds('good', ...upTo(sent)))
      assert.deepEqual(world.firstOf('bad'), keyedIds('bad', 2, 3))
    },
  },
  {
    name: 'a relay with a slow broker and a key with 2,000 records does not delay 50 other keys',
    async run(ports) {
      await using world = await OrderWorld.open(ports)
      const { runtime } = world.relays
      const take = world.relays.answer
      world.relays.answer = async (call) => {
        await new Promise<void>((resolve) => void runtime.setTimeout(resolve, 100))
        return await take(call)
      }
      await world.add(...keyedRun('hot', 2000), ...keyNames(50).flatMap((key) => keyedRun(key, 3)), ...records(20, 'free'))
      await world.start({ batchSize: 200 })
      const others = () => world.relays.arrived.filter((id) => !id.startsWith('hot/')).length
      await world.relays.until(() => others() === 170, 'the others are published', relayLease)
      const hot = world.firstOf('hot')
      assert.deepEqual(hot, keyedIds('hot', ...upTo(hot.length)))
      return `${hot.length} of the hot key meanwhile`
    },
  },
]

async function addAll(world: OrderWorld, from = 1): Promise<void> {
  for (const number of upTo(10)) await world.add(...names.flatMap((key) => keyedRun(key, 1, { from: from + number - 1 })))
}

async function comeAndGo(ports: Parameters<RelayScenario['run']>[0], count: number, seed: number): Promise<string> {
  await using world = await OrderWorld.open(ports)
  const { relays } = world
  const { random } = new VirtualRuntime({ seed: 100 * count + seed })
  const pick = (limit: number) => Math.floor(random() * limit)
  world.refuse(() => (random() < 0.1 ? notNow : undefined))
  let quiet = false
  const stalls = () => !quiet && random() < 0.04
  const running: RelayProcess[] = []
  for (const _ of upTo(count)) running.push(await world.start({}, stalling(world, stalls)))
  for (const step of upTo(16)) {
    if (step <= 10) await world.add(...names.flatMap((key) => keyedRun(key, 1, { from: step })))
    await relays.elapse(1000 + pick(3) * 4000)
    const [gone] = running.splice(pick(running.length), 1)
    if (gone !== undefined && random() < 0.5) gone.kill()
    else if (gone !== undefined) await relays.stop(gone)
    running.push(await world.start({}, stalling(world, stalls)))
  }
  quiet = true
  await world.drained()
  for (const key of names) assert.deepEqual(world.firstOf(key), keyedIds(key, ...upTo(10)))
  world.checkDuplicates()
  return `${world.duplicates} duplicates of ${10 * names.length}`
}

/** Suspends the whole process at random points for longer than a lease. */
function stalling(world: OrderWorld, stalls: () => boolean): OnPoint {
  const { runtime } = world.relays
  let until = 0
  return async (point) => {
    if (point !== 'renew' && stalls()) until = runtime.now() + pastLease
    const rest = until - runtime.now()
    if (rest > 0) await new Promise<void>((resolve) => void runtime.setTimeout(resolve, rest))
  }
}
