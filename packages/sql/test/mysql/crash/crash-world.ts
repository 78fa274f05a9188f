import type { OpenCrashWorld } from '@ackord/testkit/suites'
import { crashWorldOn } from '../../support/crash-world.ts'
import { mariadbUrl, openMysql2 } from '../support/mysql-world.ts'
import { batchSize, consumer } from './crash-rules.ts'

/** The service on MariaDB and RabbitMQ. */
export function crashWorld(service: string): OpenCrashWorld {
  return crashWorldOn(openOrders, { service, environment: { CRASH_MARIADB: mariadbUrl }, consumer, batchSize })
}

async function openOrders() {
  const world = await openMysql2({ fresh: true })
  // No primary key, so that a command that is applied twice leaves two rows.
  await world.query('ALTER TABLE orders DROP PRIMARY KEY')
  return world
}
