import { checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import { type KyselyClient, kyselyDriver } from '../orm/kysely.ts'
import { callbackDialect } from './callback-dialect.ts'
import { postgresDialect } from './postgres-dialect.ts'
import type { PostgresOptions } from './postgres-options.ts'

/**
 * A database on Kysely, with a dialect for PostgreSQL. Adapters get a `Kysely<DB>`; in a transaction every query is tracked. Plugins do not
 * see our own statements. Whoever makes a `pg.Pool` for Kysely listens to the `error` events of the pool and of its clients.
 */
export function fromKysely<Client extends KyselyClient>(db: Client, options: PostgresOptions = {}): Database<Client> {
  const { schema, names, order, notify, ...unknown } = options
  checkNoMore('fromKysely()', unknown)
  return new Database({ schema, names, order, notify, dialect: postgresDialect, driver: kyselyDriver(db, callbackDialect) })
}
