import { InvalidOptionError } from '@ackord/core'
import { checkFunction, checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import { type DrizzleClient, type DrizzleHandle, drizzleDriver } from '../orm/drizzle.ts'
import { callbackDialect } from './callback-dialect.ts'
import { readPgResult } from './pg-result.ts'
import { postgresDialect } from './postgres-dialect.ts'
import type { PostgresOptions } from './postgres-options.ts'

/**
 * A database on Drizzle over a `pg.Pool`. In a transaction every query is tracked, those of Drizzle's own nested transactions included.
 * As with every pool of `pg`, whoever makes it listens to its `error` events.
 */
export function fromDrizzle<Client extends DrizzleClient>(db: Client, options: PostgresOptions = {}): Database<DrizzleHandle<Client>> {
  const { schema, names, order, notify, ...unknown } = options
  checkNoMore('fromDrizzle()', unknown)
  checkFunction('fromDrizzle(db).transaction', db?.transaction)
  if (!isPool(db.$client)) throw new InvalidOptionError('fromDrizzle(db)', 'must be a database of drizzle-orm/node-postgres on a pg.Pool.')
  return new Database({ schema, names, order, notify, dialect: postgresDialect, driver: drizzleDriver(db, callbackDialect, readPgResult) })
}

function isPool(client: unknown): boolean {
  return typeof client === 'object' && client !== null && 'connect' in client && 'totalCount' in client
}
