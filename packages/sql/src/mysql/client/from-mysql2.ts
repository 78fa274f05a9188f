import { InvalidOptionError } from '@ackord/core'
import { checkFunction } from '@ackord/core/internal'
import type { FromOptions } from '../../contract/database-options.ts'
import type { Driver } from '../../contract/driver.ts'
import { Database } from '../../transaction/database.ts'
import { mysqlDialect } from '../dialect.ts'
import { mysqlDriver } from './driver.ts'
import { type MysqlAnswer, type MysqlPool, type MysqlQueryable, type MysqlWire, readStatus, type WireStatement } from './wire.ts'

/** The part of a pool of `mysql2/promise` that is used. */
export interface Mysql2Pool extends MysqlPool {}

/** The type of a database of `fromMysql2()`, to pass it around: `Mysql2Database<mysql.Pool>`. */
export type Mysql2Database<Pool extends Mysql2Pool> = Database<Pick<Pool, 'query' | 'execute'>>

/**
 * A database on a pool of `mysql2/promise`. Adapters get `query` and `execute`; in a transaction they are tracked. On MySQL a failed statement is
 * undone alone: a handler that catches its error continues, and its earlier changes are committed.
 */
export function fromMysql2<Pool extends Mysql2Pool>(pool: Pool, options: FromOptions = {}): Mysql2Database<Pool> {
  checkFunction('fromMysql2(pool).getConnection', pool?.getConnection)
  if ('promise' in pool) throw new InvalidOptionError('fromMysql2(pool)', 'must be a pool of mysql2/promise. Pass pool.promise().')
  // Inside, only the forms in MysqlQueryable are used; outside, all forms are passed through.
  return new Database({
    ...options,
    dialect: mysqlDialect,
    driver: mysqlDriver(pool, wire) as unknown as Driver<Pick<Pool, 'query' | 'execute'>>,
  })
}

type Done = (error: unknown, answer: unknown) => void

type CallbackConnection = Record<'query' | 'execute', (statement: object, done: Done) => unknown>

const wire: MysqlWire = {
  name: 'fromMysql2()',
  calls: ['query', 'execute'],
  send(handle, statement) {
    const { call, sql, values, returnsRows, explain } = statement
    // The promise layer of mysql2 captures a stack trace for every call, which is expensive; a pool has no connection below it.
    const { connection } = handle as { readonly connection?: CallbackConnection | undefined }
    if (typeof connection?.[call] !== 'function') return sendOnPool(handle, statement)
    return new Promise((resolve, reject) => {
      const done: Done = (error, answer) =>
        error === null || error === undefined ? resolve(readMysql2Answer(answer)) : reject(explain(error))
      // mysql2 copies the options one by one, which is a good part of its work for a statement.
      connection[call](returnsRows ? withOptions(sql, values) : { sql, values }, done)
    })
  },
  read(_, result) {
    const [answer] = result as [unknown]
    return readMysql2Answer(answer)
  },
}

async function sendOnPool(handle: MysqlQueryable, { call, sql, values, explain }: WireStatement): Promise<MysqlAnswer> {
  try {
    // The client's own form of a statement.
    const [answer] = (await handle[call](withOptions(sql, values) as never)) as [unknown]
    return readMysql2Answer(answer)
  } catch (error) {
    throw explain(error)
  }
}

/** Overrides the options of the pool; the pool's `typeCast` can only be overridden by another function. */
function withOptions(sql: string, values: readonly unknown[]): object {
  return { sql, values, rowsAsArray: false, nestTables: false, typeCast: castByDefault, namedPlaceholders: false }
}

function castByDefault(_: unknown, next: () => unknown): unknown {
  return next()
}

interface Header {
  readonly affectedRows: number
  readonly serverStatus?: number | undefined
}

/** Reads an answer of `mysql2`: a header, rows, or a list of these from a procedure or several statements, of which the last one counts. */
export function readMysql2Answer(answer: unknown): MysqlAnswer {
  if (!Array.isArray(answer)) {
    const { affectedRows = 0, serverStatus } = (answer ?? {}) as Partial<Header>
    return { rows: [], count: affectedRows, ...readStatus(serverStatus) }
  }
  const last: unknown = answer.at(-1)
  if (Array.isArray(last) || isHeader(last)) return readMysql2Answer(last)
  return { rows: answer, count: 0, ...readStatus(undefined) }
}

function isHeader(value: unknown): boolean {
  return typeof value === 'object' && value !== null && value.constructor?.name === 'ResultSetHeader'
}
