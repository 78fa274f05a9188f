import assert from 'node:assert/strict'
import { systemRuntime } from '@ackord/core'
import {
  assertListed,
  assertStored,
  clockAfter,
  farFuture,
  list,
  type ObjectFeatures,
  type ObjectScenario,
  type ObjectWorld,
  put,
  storedAt,
} from './object-world.ts'

const hour = 3_600_000

export const listScenarios: readonly ObjectScenario[] = [
  {
    name: 'a list has each object once, with its key and the time when it was stored',
    basic: true,
    async run(open) {
      await using world = await open()
      const keys = ['orders/1', 'orders/2', 'orders/2026/11/1', 'invoices/1', 'top']
      for (const key of keys) await put(world, key, key)
      await assertListed(world, keys)
      // A server may have its own clock; a wrong unit is off by more.
      for (const { key, storedAt: time } of await list(world)) {
        assert.ok(time instanceof Date, `the time of '${key}' is no Date`)
        assert.ok(Math.abs(time.getTime() - systemRuntime.now()) < hour, `the time of '${key}' is ${String(time)}`)
      }
    },
  },
  {
    name: 'a list has the objects that were stored before its time, and no others',
    basic: true,
    async run(open) {
      await using world = await open()
      await put(world, 'orders/old', 'old')
      const first = await storedAt(world, 'orders/old')
      await clockAfter(world, first)
      await put(world, 'orders/new', 'new')
      const second = await storedAt(world, 'orders/new')
      await assertListed(world, [], new Date(0))
      await assertListed(world, [], first)
      await assertListed(world, ['orders/old'], new Date(first.getTime() + 1))
      await assertListed(world, ['orders/old'], second)
      await assertListed(world, ['orders/new', 'orders/old'], new Date(second.getTime() + 1))
    },
  },
  {
    name: 'a list that is ended early leaves the store usable',
    async run(open) {
      await using world = await open()
      for (const key of ['orders/1', 'orders/2026/1', 'orders/2026/2']) await put(world, key, key)
      for (let round = 1; round <= 3; round += 1) {
        for await (const { key } of world.store.list({ olderThan: farFuture })) {
          await assertStored(world, key, key)
          break
        }
      }
      await assertListed(world, ['orders/1', 'orders/2026/1', 'orders/2026/2'])
    },
  },
]

/** With more than two pages. */
export function pageScenarios({ pageSize }: ObjectFeatures): readonly ObjectScenario[] {
  const keys = Array.from({ length: 2 * pageSize + 1 }, (_, index) => (index % 3 === 0 ? `orders/${index}` : `orders/many/${index}`))

  async function putAll(world: ObjectWorld): Promise<void> {
    const remaining = keys.values()
    const work = async () => {
      for (const key of remaining) await put(world, key, key)
    }
    await Promise.all(Array.from({ length: 8 }, work))
  }

  return [
    {
      name: 'a list has more objects than fit into a page',
      async run(open) {
        await using world = await open()
        await putAll(world)
        await assertListed(world, keys)
      },
    },
    {
      name: 'a list has all objects although those that it has returned are deleted meanwhile',
      async run(open) {
        await using world = await open()
        await putAll(world)
        const seen: string[] = []
        for await (const { key } of world.store.list({ olderThan: farFuture })) {
          seen.push(key)
          await world.store.delete([key])
        }
        assert.deepEqual(seen.toSorted(), keys.toSorted())
        await assertListed(world, [])
      },
    },
  ]
}
