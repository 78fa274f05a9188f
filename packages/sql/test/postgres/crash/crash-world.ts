import type { OpenCrashWorld } from '@ackord/testkit/suites'
import { createSchema, type OutboxMode } from '../../../src/index.ts'
import { crashWorldOn } from '../../support/crash-world.ts'
import { openPg, postgresUrl } from '../../support/world.ts'
import { batchSize, consumer } from './crash-rules.ts'

/** The service on PostgreSQL and RabbitMQ, unchanged or as a mutant. */
export function crashWorld(
  service: string,
  options: {
    readonly mutant?: string
    readonly patience?: number
    readonly partitions?: boolean
    readonly mode?: OutboxMode
    readonly batches?: boolean
  } = {},
): OpenCrashWorld {
  const { mutant, patience, partitions = false, mode, batches = false } = options
  const environment = { CRASH_POSTGRES: postgresUrl, CRASH_MUTANT: mutant, CRASH_MODE: mode, CRASH_BATCHES: batches ? 'yes' : undefined }
  return crashWorldOn(() => openOrders(partitions), { service, environment, consumer, batchSize, patience, mode })
}

async function openOrders(partitions: boolean) {
  const world = await openPg({ fresh: true })
  if (partitions) await createSchema(world.database, { inbox: { partitions } })
  // No primary key, so that a command that is applied twice leaves two rows.
  await world.query('ALTER TABLE orders DROP CONSTRAINT orders_pkey')
  return world
}
