import { InvalidOptionError } from '@ackord/core'
import { checkFunction } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { Driver } from '../driver.ts'
import type { TableOptions } from '../tables.ts'
import { mysqlDialect } from './mysql-dialect.ts'
import { mysqlDriver } from './mysql-driver.ts'
import { type MysqlAnswer, type MysqlPool, type MysqlWire, readStatus } from './mysql-wire.ts'

/** What is used of a pool of `mysql2/promise`. */
export interface Mysql2Pool extends MysqlPool {}

/**
 * A database on a pool of `mysql2/promise`. Adapters get `query` and `execute`; in a transaction they are tracked. On MySQL a statement
 * that fails is undone alone: a handler that catches its error goes on, and what it did before is committed.
 */
export function fromMysql2<Pool extends Mysql2Pool>(pool: Pool, options: TableOptions = {}): Database<Pick<Pool, 'query' | 'execute'>> {
  checkFunction('fromMysql2(pool).getConnection', pool?.getConnection)
  if ('promise' in pool) throw new InvalidOptionError('fromMysql2(pool)', 'must be a pool of mysql2/promise. Give it pool.promise().')
  // Inside, only the forms that MysqlQueryable names are used; outside, all of them are passed through.
  return new Database({
    ...options,
    dialect: mysqlDialect,
    driver: mysqlDriver(pool, wire) as unknown as Driver<Pick<Pool, 'query' | 'execute'>>,
  })
}

type CallbackConnection = Record<
  'query' | 'execute',
  (statement: never, callback: (error: unknown, ...result: unknown[]) => void) => unknown
>

interface Header {
  readonly affectedRows: number
  readonly serverStatus?: number | undefined
}

const wire: MysqlWire = {
  name: 'fromMysql2()',
  calls: ['query', 'execute'],
  // Whatever the pool was made with; of types, only another function takes the place of the pool's.
  statement: (sql, values) => ({ sql, values, rowsAsArray: false, nestTables: false, typeCast: castByDefault, namedPlaceholders: false }),
  send(handle, call, statement) {
    // The promises of mysql2 are a layer that takes a stack trace of every call, which is dear; a pool has no connection below it.
    const { connection } = handle as { readonly connection?: CallbackConnection | undefined }
    if (typeof connection?.[call] !== 'function') return handle[call](statement)
    return new Promise((resolve, reject) => {
      connection[call](statement, (error, ...result) => (error === null || error === undefined ? resolve(result) : reject(error)))
    })
  },
  read(_, result) {
    const [answer] = result as [unknown]
    return answerOf(answer)
  },
}

function castByDefault(_: unknown, next: () => unknown): unknown {
  return next()
}

/** A header, rows, or a list of those from a procedure or several statements, of which the last one tells. */
function answerOf(answer: unknown): MysqlAnswer {
  if (!Array.isArray(answer)) {
    const { affectedRows = 0, serverStatus } = (answer ?? {}) as Partial<Header>
    return { rows: [], count: affectedRows, ...readStatus(serverStatus) }
  }
  const last: unknown = answer.at(-1)
  if (Array.isArray(last) || isHeader(last)) return answerOf(last)
  return { rows: answer, count: 0, ...readStatus(undefined) }
}

function isHeader(value: unknown): boolean {
  return typeof value === 'object' && value !== null && value.constructor?.name === 'ResultSetHeader'
}
