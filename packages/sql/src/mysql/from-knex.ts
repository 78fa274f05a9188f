import { checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { FromOptions } from '../from-options.ts'
import { type KnexClient, type KnexWire, knexDriver } from '../orm/knex.ts'
import { callbackDialect } from './callback-dialect.ts'
import { mysqlDialect } from './mysql-dialect.ts'
import { readMysql2Answer } from './mysql2-answer.ts'

/**
 * A database on Knex, with its client `mysql2`. Adapters get a `Knex`; in a transaction every query is tracked, except for streams, which
 * must be finished before the handler returns. Hooks such as `postProcessResponse` do not see our own statements.
 */
export function fromKnex<Client extends KnexClient>(knex: Client, options: FromOptions = {}): Database<Client> {
  const { schema, names, order, ...unknown } = options
  checkNoMore('fromKnex()', unknown)
  return new Database({ schema, names, order, dialect: mysqlDialect, driver: knexDriver(knex, callbackDialect('fromKnex()'), wire) })
}

const wire: KnexWire = {
  text: (sql) => sql,
  // The answer and its columns.
  read: (response) => readMysql2Answer((response as [unknown])[0]),
}
