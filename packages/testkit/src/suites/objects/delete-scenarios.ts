import { assertAbsent, assertListed, assertStored, type ObjectScenario, put } from './object-world.ts'

export const deleteScenarios: readonly ObjectScenario[] = [
  {
    name: 'deleted objects are gone for every process, and the others stay',
    basic: true,
    async run(open) {
      await using world = await open()
      for (const key of ['order', 'orders/1', 'orders/2', 'orders/3']) await put(world, key, key)
      await world.store.delete(['orders/1', 'orders/3'])
      const other = { store: await world.another() }
      for (const key of ['orders/1', 'orders/3']) await assertAbsent(other, key)
      await assertStored(other, 'orders/2', 'orders/2')
      await assertListed(other, ['order', 'orders/2'])
      await put(world, 'orders/1', 'again')
      await assertStored(other, 'orders/1', 'again')
    },
  },
  {
    name: 'a deletion accepts no keys, repeated keys, and keys without an object',
    async run(open) {
      await using world = await open()
      await put(world, 'orders/1', 'one')
      await put(world, 'orders/2', 'two')
      await world.store.delete([])
      await world.store.delete(['absent', 'orders/absent', 'orders/1/absent', 'orders'])
      await assertListed(world, ['orders/1', 'orders/2'])
      await world.store.delete(['absent', 'orders/1', 'orders/1'])
      await assertListed(world, ['orders/2'])
      await world.store.delete(['orders/1'])
      await assertListed(world, ['orders/2'])
    },
  },
  {
    name: 'thousands of objects can be deleted with one call',
    async run(open) {
      await using world = await open()
      const keys = Array.from({ length: 2001 }, (_, index) => `orders/${index}`)
      // The others are absent: to store them all takes long on some stores.
      const present = [0, 999, 1000, 1999, 2000].map((index) => `orders/${index}`)
      for (const key of present) await put(world, key, key)
      await put(world, 'orders/kept', 'kept')
      await world.store.delete(keys)
      await assertListed(world, ['orders/kept'])
    },
  },
]
