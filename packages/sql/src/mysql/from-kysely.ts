import { checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { FromOptions } from '../from-options.ts'
import { type KyselyClient, kyselyDriver } from '../orm/kysely.ts'
import { callbackDialect } from './callback-dialect.ts'
import { mysqlDialect } from './mysql-dialect.ts'

/**
 * A database on Kysely, with its `MysqlDialect` on a pool of `mysql2`. Adapters get a `Kysely<DB>`; in a transaction every query is tracked.
 * Plugins do not see our own statements.
 */
export function fromKysely<Client extends KyselyClient>(db: Client, options: FromOptions = {}): Database<Client> {
  const { schema, names, order, ...unknown } = options
  checkNoMore('fromKysely()', unknown)
  return new Database({ schema, names, order, dialect: mysqlDialect, driver: kyselyDriver(db, callbackDialect('fromKysely()')) })
}
