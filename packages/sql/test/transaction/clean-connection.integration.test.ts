import { testCleanConnections } from '../support/clean-connection.ts'
import { onEachClient } from '../support/client-worlds.ts'
import { refuseAppends } from '../support/own-schema.ts'
import { openPglite } from '../support/world.ts'

onEachClient((name, open, features) => testCleanConnections(name, () => open({ max: 1, restricted: true }), features))

testCleanConnections('PGlite', async () => {
  const world = await openPglite()
  const insert = (handle: Pick<typeof world.pglite, 'query'>, id: string) => handle.query('INSERT INTO orders (id) VALUES ($1)', [id])
  return {
    ...world,
    insert: (handle, id) => insert(handle as typeof world.pglite, id),
    insertOutside: (id) => insert(world.pglite, id),
    refuseAppends: () => refuseAppends(world, (statement) => world.pglite.exec(statement)),
    ids: async () => (await world.query('SELECT id FROM orders ORDER BY id')).map(({ id }) => id),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
})
