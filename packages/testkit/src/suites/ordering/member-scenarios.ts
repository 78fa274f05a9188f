import assert from 'node:assert/strict'
import type { ClaimedRecord, OutboxAdmin, OutboxStore } from '@ackord/outbox'
import { VirtualRuntime } from '../../helpers/virtual-runtime.ts'
import { claim, commit, idsOf, lease, type OutboxWorld, published } from '../outbox/outbox-world.ts'
import type { RelayScenario } from '../relay/relay-world.ts'
import { keyedIds, keyedRun, keyNames, keyOf, ofKey, upTo } from './order-world.ts'

type Member = OutboxStore & OutboxAdmin

const keys = keyNames(400)

/** Ownership of partitions: store objects that join, share, leave and die. */
export const memberScenarios: readonly RelayScenario[] = [
  ...[2, 4].map(
    (count): RelayScenario => ({
      name: `${count} members get even shares, and together they find every record`,
      async run({ openStore }) {
        await using world = await openStore({ retain: false })
        await commit(world, ...keys.flatMap((key) => keyedRun(key, 1)))
        const members = await join(world, count)
        const found = await Promise.all(members.map((member) => claim(member)))
        const sizes = found.map(({ length }) => length)
        assert.deepEqual(found.flatMap(idsOf).toSorted(), keys.flatMap((key) => keyedIds(key, 1)).toSorted())
        const share = keys.length / count
        for (const size of sizes) assert.ok(size > 0.6 * share && size < 1.4 * share, `shares of ${sizes.join(', ')} are not even`)
        return sizes.join(' + ')
      },
    }),
  ),
  {
    name: 'a member hands over immediately when it leaves and after its lease when it dies, and a new member gets its share',
    basic: true,
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keys.flatMap((key) => keyedRun(key, 1)))
      const [first, second] = await pair(world)
      assert.ok((await peek(second)) < keys.length)
      await first.leave?.()
      assert.equal(await peek(second), keys.length, 'the partitions of the first member have no owner')
      const [third] = await join(world, 1)
      await take(second)
      assert.ok(third !== undefined && (await peek(third)) > 0.3 * keys.length, 'the new member has no share')
      await world.advance(lease + 1000)
      assert.equal(await peek(third), keys.length, 'dead members still own partitions')
    },
  },
  {
    name: 'partitions above the share are drained before they are handed over: no key has two owners',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keys.flatMap((key) => keyedRun(key, 3)))
      const [first] = await join(world, 1)
      assert.ok(first !== undefined)
      const inFlight = await claim(first, { limit: keys.length })
      assert.equal(inFlight.length, keys.length)
      const second = await world.another()
      assert.deepEqual(idsOf(await claim(second)), [])
      assert.deepEqual(idsOf(await claim(first)), [], 'all of its records are in flight')
      assert.deepEqual(idsOf(await claim(second)), [], 'it claimed records that another member has in flight')
      await first.settle(inFlight.slice(0, 200).map(published))
      const more = await claim(first)
      const others = await claim(second)
      const held = new Set([...inFlight.slice(200), ...more].map(keyOf))
      for (const one of others) assert.ok(!held.has(keyOf(one)), `${keyOf(one)} has two owners`)
      assert.ok(others.length > 0, 'nothing was handed over')
      for (const key of new Set(others.map(keyOf))) assert.deepEqual(idsOf(ofKey(others, key)), keyedIds(key, 2, 3))
    },
  },
  ...[3, 17].map(
    (seed, index): RelayScenario => ({
      repeats: index > 0,
      name: `whatever four members do, no key has two owners and each key is settled in order (seed ${seed})`,
      run: ({ openStore }) => wander(openStore({ retain: false }), seed),
    }),
  ),
  {
    name: 'a stale owner cannot settle, renew or release',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyedRun('a', 2))
      const stale = await world.another()
      const old = await claim(stale)
      await world.advance(lease + 1000)
      assert.deepEqual(await stale.renew(old, lease), [false, false], 'its membership has expired, even if no other member took it over')
      const owner = await world.another()
      const fresh = await claim(owner)
      assert.deepEqual(idsOf(fresh), keyedIds('a', 1, 2))
      assert.deepEqual(await stale.settle(old.map(published)), ['lost', 'lost'])
      assert.deepEqual(await stale.renew(old, lease), [false, false])
      await stale.release(old)
      assert.deepEqual(idsOf(await claim(owner)), [], 'it released records that another member has in flight')
      assert.deepEqual(await owner.settle(fresh.map(published)), ['applied', 'applied'])
    },
  },
  {
    name: 'a member that returns after its lease starts over: its earlier claims are lost',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyedRun('a', 2))
      const old = await claim(world.store)
      await world.advance(lease + 1000)
      const fresh = await claim(world.store)
      assert.deepEqual(idsOf(fresh), keyedIds('a', 1, 2))
      assert.deepEqual(await world.store.settle(old.map(published)), ['lost', 'lost'])
      assert.deepEqual(await world.store.settle(fresh.map(published)), ['applied', 'applied'])
    },
  },
  {
    name: 'a takeover counts an attempt for the records that the lost owner had in flight, and for no others',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyedRun('a', 4), ...keyedRun('b', 1))
      const lost = await world.another()
      const inFlight = await claim(lost, { limit: 3, destinations: ['orders'] })
      const had = new Set(idsOf(inFlight))
      await world.advance(lease + 1000)
      for (const { message, attempts } of await claim(world.store)) {
        assert.equal(attempts, had.has(message.id) ? 2 : 1, `${message.id} has ${attempts} attempts`)
      }
      assert.equal(had.size, 3)
    },
  },
  {
    name: 'a member that claims and then pauses for almost its lease keeps its records in flight',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyedRun('a', 2), ...keyedRun('b', 1))
      const [first, second] = [await world.another(), await world.another()]
      const inFlight = await claim(first)
      assert.equal(inFlight.length, 3)
      await world.advance(0.2 * lease)
      assert.deepEqual(await claim(first), [], 'all of its records are in flight')
      await world.advance(0.85 * lease)
      assert.deepEqual(idsOf(await claim(second)), [], 'it was taken over from a member that had claimed within its lease')
      assert.deepEqual(await first.settle(inFlight.map(published)), ['applied', 'applied', 'applied'])
    },
  },
  {
    name: 'a member that only renews keeps its records in flight',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      await commit(world, ...keyedRun('a', 2))
      const [first, second] = [await world.another(), await world.another()]
      const inFlight = await claim(first)
      for (const _ of upTo(6)) {
        await world.advance(lease / 2)
        assert.deepEqual(await first.renew(inFlight, lease), [true, true])
        assert.deepEqual(idsOf(await claim(second)), [])
      }
      assert.deepEqual(await first.settle(inFlight.map(published)), ['applied', 'applied'])
    },
  },
]

/** Adds members and lets them claim until they have their shares. */
async function join(world: OutboxWorld, count: number): Promise<Member[]> {
  const members: Member[] = []
  for (const _ of upTo(count)) members.push(await world.another())
  for (const _ of upTo(3)) for (const member of members) await take(member)
  return members
}

async function pair(world: OutboxWorld): Promise<[Member, Member]> {
  const [first, second] = await join(world, 2)
  assert.ok(first !== undefined && second !== undefined)
  return [first, second]
}

/** The number of records that a member can claim. */
async function peek(member: Member): Promise<number> {
  await take(member)
  return await take(member)
}

async function take(member: Member): Promise<number> {
  const claimed = await claim(member)
  await member.release(claimed)
  return claimed.length
}

async function wander(opening: Promise<OutboxWorld>, seed: number): Promise<string> {
  await using world = await opening
  const { random } = new VirtualRuntime({ seed })
  const pick = (count: number) => Math.floor(random() * count)
  const names = keyNames(40)
  await commit(world, ...upTo(6).flatMap((number) => names.flatMap((key) => keyedRun(key, 1, { from: number }))))
  const members: { store: Member; inFlight: ClaimedRecord[] }[] = []
  for (const _ of upTo(4)) members.push({ store: await world.another(), inFlight: [] })
  const done = new Map<string, (string | undefined)[]>(names.map((key) => [key, []]))
  const settleSome = async (member: { store: Member; inFlight: ClaimedRecord[] }) => {
    // Settles a whole run or its first records, and releases the others.
    const key = keyOf(member.inFlight[pick(member.inFlight.length)] as ClaimedRecord) // not empty: the caller has checked
    const run = ofKey(member.inFlight, key)
    const confirmed = run.slice(0, 1 + pick(run.length))
    assert.deepEqual(
      await member.store.settle(confirmed.map(published)),
      confirmed.map(() => 'applied'),
    )
    await member.store.release(run.slice(confirmed.length))
    done.get(key)?.push(...idsOf(confirmed))
    member.inFlight = member.inFlight.filter((one) => keyOf(one) !== key)
  }
  let steps = 0
  while ([...done.values()].some(({ length }) => length < 6)) {
    steps += 1
    assert.ok(steps < 3000, 'in 3,000 steps not everything was settled')
    const member = members[pick(4)]
    assert.ok(member !== undefined)
    const what = random()
    if (member.inFlight.length > 0 && what < 0.6) await settleSome(member)
    else if (member.inFlight.length === 0 && what < 0.1) await member.store.leave?.()
    else if (what < 0.7) await member.store.renew(member.inFlight, lease)
    else {
      const claimed = await claim(member.store, { limit: 1 + pick(30) })
      const held = new Set(members.flatMap(({ inFlight }) => inFlight.map(keyOf)))
      for (const one of claimed) assert.ok(!held.has(keyOf(one)), `${keyOf(one)} has two owners`)
      member.inFlight.push(...claimed)
    }
  }
  for (const [key, ids] of done) assert.deepEqual(ids, keyedIds(key, 1, 2, 3, 4, 5, 6))
  return `${steps} steps`
}
