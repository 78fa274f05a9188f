import { checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { FromOptions } from '../from-options.ts'
import { type TypeormDataSource, typeormDriver } from '../orm/typeorm.ts'
import { callbackDialect } from './callback-dialect.ts'
import { mysqlDialect } from './mysql-dialect.ts'

/**
 * A database on TypeORM, with its drivers `mysql` and `mariadb` on `mysql2`. Adapters get an `EntityManager`; in a transaction every query is
 * tracked, except for streams, which must be finished before the handler returns.
 */
export function fromTypeorm<Source extends TypeormDataSource>(dataSource: Source, options: FromOptions = {}): Database<Source['manager']> {
  const { schema, names, order, ...unknown } = options
  checkNoMore('fromTypeorm()', unknown)
  return new Database({ schema, names, order, dialect: mysqlDialect, driver: typeormDriver(dataSource, callbackDialect('fromTypeorm()')) })
}
