import assert from 'node:assert/strict'
import { claim, commit, idsOf, type OpenOutboxTransaction, type OutboxWorld, published, record } from '../outbox/outbox-world.ts'
import type { RelayScenario } from '../relay/relay-world.ts'
import { keyed, keyedIds, keyNames, upTo } from './order-world.ts'

/** Four transactions that begin in order. One is rolled back, and the others end in another order. On a store with one writer at a time they run one after another. */
export const commitScenarios: readonly RelayScenario[] = [
  {
    name: 'transactions with different keys that commit in reverse order lose nothing and leave nothing stuck, whatever is claimed in between',
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      const names = keyNames(4)
      const open = await begin(world, 4)
      for (const [index, transaction] of open.entries()) {
        await transaction.append([keyed(names[index] ?? '', 1), record(`free${index + 1}`)])
      }
      const seen: (string | undefined)[] = []
      const drain = async () => {
        const claimed = await claim(world.store)
        await world.store.settle(claimed.map(published))
        seen.push(...idsOf(claimed))
      }
      for (const [index, transaction] of [...open.entries()].reverse()) {
        await (index === 1 ? transaction.rollback() : transaction.commit())
        await drain()
      }
      // Then later records of all keys, including the one whose transaction was rolled back.
      await commit(world, ...names.map((key) => keyed(key, 2)))
      await drain()
      const expected = [1, 3, 4].flatMap((number) => [...keyedIds(`k${number}`, 1), `free${number}`])
      assert.deepEqual(seen.toSorted(), [...expected, ...names.flatMap((key) => keyedIds(key, 2))].toSorted())
      assert.deepEqual((await world.store.stats()).oldestAge, undefined)
    },
  },
  {
    name: 'records of one key are claimed in the order of the commits, not of the inserts',
    basic: true,
    async run({ openStore }) {
      await using world = await openStore({ retain: false })
      const open = await begin(world, 4)
      const committed: string[] = []
      const end = async (transaction: OpenOutboxTransaction, number: number) => {
        if (number === 2) return await transaction.rollback()
        await transaction.commit()
        committed.push(...keyedIds('a', number))
      }
      // Writers of one key may have to wait for each other, so each transaction ends as soon as its append has returned; the last one to begin ends first if possible.
      const appending = open.map((transaction, index) => ({
        transaction,
        number: index + 1,
        done: transaction.append([keyed('a', index + 1)]),
      }))
      const waiting = new Set(appending)
      while (waiting.size > 0) {
        const ready = await lastThatIsThere([...waiting])
        waiting.delete(ready)
        await end(ready.transaction, ready.number)
      }
      assert.deepEqual(idsOf(await claim(world.store)), committed)
      return committed.join(', ')
    },
  },
]

interface Appending {
  readonly done: Promise<void>
}

/** Waits until an append has returned. Resolves to the latest transaction whose append has. */
async function lastThatIsThere<A extends Appending>(all: readonly A[]): Promise<A> {
  const there = new Set<A>()
  for (const one of all) {
    one.done.then(
      () => there.add(one),
      () => there.add(one),
    )
  }
  await Promise.race(all.map(({ done }) => done))
  // Other appends that have also returned are recorded in this microtask.
  await Promise.resolve()
  return [...all].reverse().find((one) => there.has(one)) ?? (all[0] as A) // the race has ended, so one has returned
}

/** If the store has one writer at a time, each transaction is run at its end, so that they run one after another. */
async function begin(world: OutboxWorld, count: number): Promise<OpenOutboxTransaction[]> {
  const open: OpenOutboxTransaction[] = []
  for (const _ of upTo(count)) open.push((await world.openTransaction?.()) ?? postponed(world))
  return open
}

function postponed(world: OutboxWorld): OpenOutboxTransaction {
  const appended: Parameters<OpenOutboxTransaction['append']>[0][] = []
  return {
    append: async (records) => void appended.push(records),
    commit: () =>
      world.transaction(async (transaction) => {
        for (const records of appended) await transaction.append(records)
      }),
    rollback: async () => {},
  }
}
