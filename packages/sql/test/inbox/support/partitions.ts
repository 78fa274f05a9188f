import { cleanInbox, createSchema } from '../../../src/index.ts'
import type { View } from '../../support/own-schema.ts'
import type { World } from '../../support/world.ts'

/** In milliseconds. */
export const window = 60_000

/** Creates the tables, and turns the inbox into partitions. */
export async function addPartitions({ database }: Pick<World, 'database'>): Promise<void> {
  await createSchema(database, { inbox: { partitions: true } })
}

/** Makes the generations older. */
export async function age({ query, schema }: View, duration: number): Promise<void> {
  await query(`UPDATE ${schema}.ackord_inbox_sealed SET sealed_at = sealed_at - make_interval(secs => ${duration} / 1000.0)`)
}

/** Switches to the next partition, as the cleanup does, without sealing the one before. */
export async function switchPartitions({ query, schema }: View): Promise<number> {
  const [row] = await query(
    `SELECT setval('${schema}.ackord_inbox_current', last_value + 1)::int AS current FROM ${schema}.ackord_inbox_current`,
  )
  return Number(row?.['current'])
}

/** Runs the cleanup half a window later. */
export async function cleanLater(world: World): Promise<number> {
  await age(world, window / 2)
  return await cleanInbox(world.database, { window })
}

/** The current generation, and the last one that is sealed. */
export async function generations({ query, schema }: View): Promise<readonly [current: number, sealed: number]> {
  const [row] = await query(
    `SELECT (SELECT last_value FROM ${schema}.ackord_inbox_current)::int AS current, max(generation)::int AS sealed FROM ${schema}.ackord_inbox_sealed`,
  )
  return [Number(row?.['current']), Number(row?.['sealed'])]
}
