import { testInboxConformance } from '../support/conformance.ts'
import { openPg, openPglite, type TestHandle, type World } from '../support/world.ts'
import { addPartitions, switchPartitions } from './support/partitions.ts'

const run = async (handle: TestHandle, text: string, parameters: unknown[]) => (await handle.query(text, parameters)).rows

async function partitioned<Opened extends World>(world: Opened, { switched = false } = {}) {
  await addPartitions(world)
  if (switched) await switchPartitions(world)
  return { ...world, run }
}

testInboxConformance('pg, with partitions', async () => await partitioned(await openPg({ fresh: true })))
testInboxConformance('pg, during a switch of partitions', async () => await partitioned(await openPg({ fresh: true }), { switched: true }))
testInboxConformance('PGlite, with partitions', async () => await partitioned(await openPglite({ empty: true })))
