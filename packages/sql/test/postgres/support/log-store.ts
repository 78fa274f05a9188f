import { type Runtime, silentLogger, systemRuntime } from '@ackord/core'
import type { ClaimedRecord, NewOutboxRecord } from '@ackord/outbox'
import type { PoolClient } from 'pg'
import { expect } from 'vitest'
import type { LogStatements } from '../../../src/contract/log-statements.ts'
import type { OwnershipPort } from '../../../src/contract/store-dialect.ts'
import { type Database, type SqlOutbox, type SqlOutboxOptions, sqlOutbox } from '../../../src/index.ts'
import { type OrderedClaims, orderedClaims } from '../../../src/ordering/ordered-claims.ts'
import type { RotationOptions } from '../../../src/postgres/log/rotation.ts'
import { postgresLog } from '../../../src/postgres/log/statements.ts'
import { postgresOwnership } from '../../../src/postgres/ordering/ownership.ts'
import { partitionCount } from '../../../src/records/outbox-row.ts'
import { portOf } from '../../../src/transaction/database.ts'
import type { World } from '../../support/world.ts'
import { idsOf, lease, published } from './ordered-store.ts'

export function logged<Handle>(database: Database<Handle>, options: SqlOutboxOptions = {}): SqlOutbox<Handle> {
  return sqlOutbox(database, { mode: 'log', logger: silentLogger, ...options })
}

/** The statements themselves. */
export function logStatements<Handle>(
  { database }: { readonly database: Database<Handle> },
  rotation: RotationOptions = {},
): LogStatements {
  return postgresLog(logPort(database), rotation)
}

function logPort<Handle>(database: Database<Handle>): OwnershipPort {
  const { driver, tables } = portOf(database)
  const all = tables({})
  return { driver: driver as never, table: all.outbox, tables: all, retain: false, keepsFailures: async () => true }
}

/** Rotates the log. By default, a leaf that has records is left. Waits for the rotation that a relay may just be doing. */
export async function rotate(world: World, rotation: RotationOptions = { maxAge: 0 }): Promise<void> {
  await expect
    .poll(() => world.query(`SELECT FROM pg_stat_activity WHERE application_name = $1 AND state <> 'idle'`, [world.schema]), {
      interval: 5,
    })
    .toEqual([])
  await logStatements(world, rotation).rotate()
}

/** A connection of the test for a transaction that stays open. `rotate` does not wait for it. */
export async function openSession(world: { client(): Promise<PoolClient> }): Promise<AsyncDisposable & { readonly client: PoolClient }> {
  const client = await world.client()
  await client.query(`SET application_name = 'held'`)
  return {
    client,
    async [Symbol.asyncDispose]() {
      await client.query('ROLLBACK; RESET application_name')
      client.release()
    },
  }
}

/** Stores records in the log, in a transaction of their own. */
export async function append(world: Pick<World, 'database'>, ...records: readonly NewOutboxRecord[]): Promise<void> {
  await world.database.write((transaction) => logged(world.database).append(transaction, records))
}

/** Publishes everything that can be claimed. Resolves to the ids, in the order of the claims. */
export async function drain(store: SqlOutbox<unknown>, limit = 1000): Promise<(string | undefined)[]> {
  const ids: (string | undefined)[] = []
  for (;;) {
    const claimed: readonly ClaimedRecord[] = await store.claim({ limit, lease })
    if (claimed.length === 0) return ids
    const answers = await store.settle(claimed.map(published))
    if (answers.includes('lost')) throw new Error('A claim was lost.')
    ids.push(...idsOf(claimed))
  }
}

/** The number of the leaf that is written, and the number of records in each leaf. */
export async function ringOf(world: World): Promise<{ readonly written: number; readonly records: readonly number[] }> {
  const counts = [0, 1, 2, 3].map((leaf) => `(SELECT count(*) FROM ackord_log_${leaf})::int`)
  const [row] = await world.query(
    `SELECT (SELECT version FROM ackord_meta WHERE name = 'log') AS written, ARRAY[${counts.join(', ')}] AS records`,
  )
  return { written: Number(row?.['written']), records: row?.['records'] as number[] }
}

/** Ends the leases of all relays, as if they had died long ago. */
export async function expireRelays(world: Pick<World, 'query'>): Promise<void> {
  await world.query(`UPDATE ackord_relays SET alive_until = clock_timestamp() - interval '1 second'`)
}

/** The claims of a relay, some of whose statements are replaced. */
export function claimsWith<Handle>(
  { database }: { readonly database: Database<Handle> },
  replace: (statements: LogStatements) => Partial<LogStatements>,
  runtime: Runtime = systemRuntime,
): OrderedClaims {
  const port = logPort(database)
  const statements = postgresLog(port)
  return orderedClaims(postgresOwnership(port), { runtime, logger: silentLogger, log: { ...statements, ...replace(statements) } })
}

/** Claims with two relays in turn, until each of them has its share of the partitions. */
export async function shareOut(...relays: readonly Pick<OrderedClaims, 'claim' | 'ownedPartitions'>[]): Promise<void> {
  const share = partitionCount / relays.length
  while (relays.some((relay) => relay.ownedPartitions().length !== share)) {
    for (const relay of relays) expect(await relay.claim({ limit: 1, lease })).toEqual([])
  }
}

/** Publishes everything that these relays can claim, in turns. Resolves to the ids, in the order of the claims. */
export async function drainAll(...relays: readonly Pick<OrderedClaims, 'claim' | 'settle'>[]): Promise<(string | undefined)[]> {
  const ids: (string | undefined)[] = []
  for (let empty = 0; empty < 2 * relays.length; ) {
    for (const relay of relays) {
      const claimed = await relay.claim({ limit: 1000, lease })
      empty = claimed.length === 0 ? empty + 1 : 0
      await relay.settle(claimed.map(published))
      ids.push(...idsOf(claimed))
    }
  }
  return ids
}

/** Makes all retries due. */
export async function makeDue(world: Pick<World, 'query'>): Promise<void> {
  await world.query(`UPDATE ackord_outbox SET available_at = clock_timestamp() - interval '1 second' WHERE state = 'waiting'`)
}
