import type { OpenCrashWorld } from '@ackord/testkit/suites'
import { crashWorldOn } from '../../support/crash-world.ts'
import { openPg, postgresUrl } from '../../support/world.ts'
import { batchSize, consumer } from './crash-rules.ts'

/** The service on PostgreSQL and RabbitMQ, unchanged or as a mutant. */
export function crashWorld(service: string, options: { readonly mutant?: string; readonly patience?: number } = {}): OpenCrashWorld {
  const { mutant, patience } = options
  const environment = { CRASH_POSTGRES: postgresUrl, CRASH_MUTANT: mutant }
  return crashWorldOn(openOrders, { service, environment, consumer, batchSize, patience })
}

async function openOrders() {
  const world = await openPg({ fresh: true })
  // No primary key, so that a command that is applied twice leaves two rows.
  await world.query('ALTER TABLE orders DROP CONSTRAINT orders_pkey')
  return world
}
