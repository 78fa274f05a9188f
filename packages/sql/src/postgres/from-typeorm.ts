import { checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import { type TypeormDataSource, typeormDriver } from '../orm/typeorm.ts'
import { callbackDialect } from './callback-dialect.ts'
import { postgresDialect } from './postgres-dialect.ts'
import type { PostgresOptions } from './postgres-options.ts'

/**
 * A database on TypeORM, with its driver `postgres`. Adapters get an `EntityManager`; in a transaction every query is tracked, except for
 * streams, which must be finished before the handler returns.
 */
export function fromTypeorm<Source extends TypeormDataSource>(
  dataSource: Source,
  options: PostgresOptions = {},
): Database<Source['manager']> {
  const { schema, names, order, notify, ...unknown } = options
  checkNoMore('fromTypeorm()', unknown)
  return new Database({ schema, names, order, notify, dialect: postgresDialect, driver: typeormDriver(dataSource, callbackDialect) })
}
