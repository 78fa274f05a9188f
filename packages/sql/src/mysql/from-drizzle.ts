import { InvalidOptionError } from '@ackord/core'
import { checkFunction, checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { FromOptions } from '../from-options.ts'
import { type DrizzleClient, type DrizzleHandle, drizzleDriver } from '../orm/drizzle.ts'
import { callbackDialect } from './callback-dialect.ts'
import { mysqlDialect } from './mysql-dialect.ts'
import { readMysql2Answer } from './mysql2-answer.ts'

/**
 * A database on Drizzle over a pool of `mysql2`. In a transaction every query is tracked, those of Drizzle's own nested transactions
 * included, except for iterators, which must be finished before the handler returns.
 */
export function fromDrizzle<Client extends DrizzleClient>(db: Client, options: FromOptions = {}): Database<DrizzleHandle<Client>> {
  const { schema, names, order, ...unknown } = options
  checkNoMore('fromDrizzle()', unknown)
  checkFunction('fromDrizzle(db).transaction', db?.transaction)
  if (!isPool(db.$client)) throw new InvalidOptionError('fromDrizzle(db)', 'must be a database of drizzle-orm/mysql2 on a pool of mysql2.')
  return new Database({
    schema,
    names,
    order,
    dialect: mysqlDialect,
    driver: drizzleDriver(db, callbackDialect('fromDrizzle()'), readAnswer),
  })
}

/** The answer and its columns. */
function readAnswer(result: unknown): ReturnType<typeof readMysql2Answer> {
  return readMysql2Answer((result as [unknown])[0])
}

function isPool(client: unknown): boolean {
  return typeof client === 'object' && client !== null && 'getConnection' in client && 'execute' in client
}
