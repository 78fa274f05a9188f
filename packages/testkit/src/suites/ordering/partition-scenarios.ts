import assert from 'node:assert/strict'
import type { OutboxAdmin, OutboxStore, RelayReport } from '@ackord/outbox'
import { claim, commit, type OutboxWorld, record } from '../outbox/outbox-world.ts'
import { type RelayScenario, RelayWorld } from '../relay/relay-world.ts'
import { keyedRun, keyNames, upTo } from './order-world.ts'

type Member = OutboxStore & OutboxAdmin

/** The owners of partitions, as operators see them. For stores whose objects know which partitions they own. */
export const partitionScenarios: readonly RelayScenario[] = [
  {
    name: 'each member knows which partitions it owns, and claims only records of these partitions',
    basic: true,
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      assert.deepEqual(ownedBy(await world.another()), [], 'a member that has not claimed owns partitions')
      await commit(world, ...keyNames(200).flatMap((key) => keyedRun(key, 1)), record('without a key'))
      const members = await shared(world)
      const owned = members.map(ownedBy)
      const [ofFirst = [], ofSecond = []] = owned
      assert.equal(ofFirst.length, ofSecond.length, 'the shares are not even')
      assert.equal(new Set(owned.flat()).size, ofFirst.length + ofSecond.length, 'a partition has two owners')
      const { records } = await world.store.list({}, { limit: 1000 })
      const partitions = new Map(records.map(({ id, partition }) => [id, partition]))
      assert.equal(partitions.size, 201)
      let claimed = 0
      for (const [index, member] of members.entries()) {
        for (const { id } of await claim(member)) {
          const partition = partitions.get(id)
          assert.ok(partition !== undefined, `the record ${id} has no partition`)
          assert.ok(owned[index]?.includes(partition), `a member claimed a record of the partition ${partition}, which it does not own`)
          assert.equal((await world.store.get(id))?.partition, partition)
          claimed += 1
        }
      }
      assert.equal(claimed, 201)
    },
  },
  {
    name: 'a member that leaves owns no partitions',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      const [first, second] = await shared(world)
      assert.ok(first && second)
      await first.leave?.()
      assert.deepEqual(ownedBy(first), [])
      const before = ownedBy(second).length
      for (const _ of upTo(2)) await claim(second)
      assert.equal(ownedBy(second).length, 2 * before, 'its partitions have no owner')
    },
  },
  {
    name: 'relays report which partitions they own, and no partition has two owners',
    async run(ports) {
      await using world = await RelayWorld.open(ports, { notes: true })
      const store = world.outbox.store as Required<OutboxAdmin>
      await world.start()
      await world.start()
      let relays: readonly RelayReport[] = []
      const isShared = ([one, other]: readonly RelayReport[]) => one?.partitions === other?.partitions && Number(one?.partitions) > 0
      await world.until(
        async () => {
          relays = await store.relays()
          return relays.length === 2 && isShared(relays)
        },
        'the relays share the partitions',
        120_000,
      )
      const owned = relays.map(({ ownedPartitions }) => numbersIn(ownedPartitions))
      for (const [index, { partitions }] of relays.entries()) assert.equal(owned[index]?.length, partitions, JSON.stringify(relays))
      const all = owned.flat()
      assert.equal(new Set(all).size, all.length, JSON.stringify(relays))
    },
  },
]

/** Two members that have even shares. */
async function shared(world: OutboxWorld): Promise<readonly Member[]> {
  const members = [await world.another(), await world.another()]
  for (const _ of upTo(3)) for (const member of members) await member.release(await claim(member))
  return members
}

function ownedBy(member: Member): readonly number[] {
  const owned = member.ownedPartitions?.()
  assert.ok(owned, 'the store does not know which partitions it owns')
  return owned
}

/** The numbers in a text such as `0-15, 32`. */
function numbersIn(ranges: string | undefined): readonly number[] {
  assert.match(ranges ?? '', /^\d+(-\d+)?(, \d+(-\d+)?)*$/)
  return (ranges ?? '').split(', ').flatMap((range) => {
    const [from = 0, to = from] = range.split('-').map(Number)
    return Array.from({ length: to - from + 1 }, (_, index) => from + index)
  })
}
