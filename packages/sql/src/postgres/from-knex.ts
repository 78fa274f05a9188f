import { checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import { type KnexClient, type KnexWire, knexDriver } from '../orm/knex.ts'
import { callbackDialect } from './callback-dialect.ts'
import { readPgResult } from './pg-result.ts'
import { postgresDialect } from './postgres-dialect.ts'
import type { PostgresOptions } from './postgres-options.ts'

/**
 * A database on Knex, with its client `pg`. Adapters get a `Knex`; in a transaction every query is tracked, except for streams, which must
 * be finished before the handler returns. Hooks such as `postProcessResponse` do not see our own statements.
 */
export function fromKnex<Client extends KnexClient>(knex: Client, options: PostgresOptions = {}): Database<Client> {
  const { schema, names, order, notify, ...unknown } = options
  checkNoMore('fromKnex()', unknown)
  return new Database({ schema, names, order, notify, dialect: postgresDialect, driver: knexDriver(knex, callbackDialect, wire) })
}

const wire: KnexWire = {
  // A question mark would be taken for a parameter.
  text: (sql) => sql.replaceAll('?', '\\?'),
  read: readPgResult,
}
