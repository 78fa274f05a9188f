import assert from 'node:assert/strict'
import { eventLoopTurn } from '../../helpers/virtual-runtime.ts'
import { assertListed, assertStored, get, manyBytes, type ObjectScenario, put } from './object-world.ts'

export const concurrencyScenarios: readonly ObjectScenario[] = [
  {
    name: 'concurrent puts of one key leave one of their objects, and readers see no other bytes',
    async run(open) {
      await using world = await open()
      const writers = [world, { store: await world.another() }]
      const versions = [1, 2, 3, 4].map((seed) => manyBytes(300_000 + seed, seed))
      const isWhole = (found: Uint8Array) => versions.some((version) => Buffer.compare(version, found) === 0)
      let writing = true
      const reading = (async () => {
        while (writing) {
          const found = await get(world, 'orders/1')
          assert.ok(found === undefined || isWhole(found), 'a reader has seen an object that was written in part')
          await eventLoopTurn()
        }
      })()
      // Handled: awaited below, unless a put fails.
      reading.catch(() => {})
      try {
        await Promise.all(versions.flatMap((version) => writers.map((writer) => put(writer, 'orders/1', version))))
      } finally {
        writing = false
      }
      await reading
      const found = await get(world, 'orders/1')
      assert.ok(found !== undefined && isWhole(found), 'one of the objects must be left')
      await assertListed(world, ['orders/1'])
    },
  },
  {
    name: 'objects of a new prefix can be stored concurrently',
    async run(open) {
      await using world = await open()
      const writers = [world, { store: await world.another() }]
      const keys = Array.from({ length: 20 }, (_, index) => `orders/2026/11/${index}`)
      await Promise.all(keys.map((key, index) => put(writers[index % 2] ?? world, key, key)))
      for (const key of keys) await assertStored(world, key, key)
      await assertListed(world, keys)
    },
  },
]
