import { numbersTo } from './flavour.ts'
import type { MysqlWorld } from './mysql-world.ts'

interface Filling {
  readonly state: 'ready' | 'waiting' | 'parked'
  /** An SQL expression. */
  readonly destination: string
  readonly count: number
  /** When the records become available. */
  readonly at?: string
}

/** Inserts many records into the outbox. */
export async function fill(world: MysqlWorld, { state, destination, count, at = 'UTC_TIMESTAMP(6)' }: Filling): Promise<void> {
  await world.query(
    `INSERT INTO ackord_outbox (state, destination, id, type, \`partition\`, data, attributes, created_at, available_at, attempts, parked_at)
SELECT '${state}', ${destination}, CONCAT('e', seq), 'order.placed', 0, REPEAT('x', 200), '{"id":"e","type":"order.placed"}', UTC_TIMESTAMP(6), ${at},
  ${state === 'ready' ? 0 : 1}, ${state === 'parked' ? 'UTC_TIMESTAMP(6)' : 'NULL'}
FROM ${numbersTo(count)}`,
  )
}

/** The number of rows and index entries that the pool's only connection reads for `work`. */
export async function readsOf(world: MysqlWorld, work: () => Promise<unknown>): Promise<number> {
  const count = async () => {
    const rows = await world.run("SHOW SESSION STATUS LIKE 'Handler_read%'")
    return rows.reduce((sum, row) => sum + Number(row['Value']), 0)
  }
  const before = await count()
  await work()
  // Querying the status also reads entries, the same number each time.
  const after = await count()
  return after - before - ((await count()) - after)
}
