import { InvalidOptionError } from '@ackord/core'
import { checkFunction } from '@ackord/core/internal'
import type { FromOptions } from '../../contract/database-options.ts'
import type { Driver } from '../../contract/driver.ts'
import { Database } from '../../transaction/database.ts'
import { mysqlDialect } from '../dialect.ts'
import { mysqlDriver } from './driver.ts'
import { type MysqlAnswer, type MysqlPool, type MysqlQueryable, type MysqlWire, readStatus, type WireStatement } from './wire.ts'

/** What is used of a pool of `mysql2/promise`. */
export interface Mysql2Pool extends MysqlPool {}

/**
 * A database on a pool of `mysql2/promise`. Adapters get `query` and `execute`; in a transaction they are tracked. On MySQL a statement
 * that fails is undone alone: a handler that catches its error goes on, and what it did before is committed.
 */
export function fromMysql2<Pool extends Mysql2Pool>(pool: Pool, options: FromOptions = {}): Database<Pick<Pool, 'query' | 'execute'>> {
  checkFunction('fromMysql2(pool).getConnection', pool?.getConnection)
  if ('promise' in pool) throw new InvalidOptionError('fromMysql2(pool)', 'must be a pool of mysql2/promise. Give it pool.promise().')
  // Inside, only the forms that MysqlQueryable names are used; outside, all of them are passed through.
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
    const { call, sql, values, givesRows, explain } = statement
    // The promises of mysql2 are a layer that takes a stack trace of every call, which is dear; a pool has no connection below it.
    const { connection } = handle as { readonly connection?: CallbackConnection | undefined }
    if (typeof connection?.[call] !== 'function') return sendOnPool(handle, statement)
    return new Promise((resolve, reject) => {
      const done: Done = (error, answer) =>
        error === null || error === undefined ? resolve(readMysql2Answer(answer)) : reject(explain(error))
      // mysql2 copies what it is given one by one, which is a good part of what it does for a statement.
      connection[call](givesRows ? withOptions(sql, values) : { sql, values }, done)
    })
  },
  read(_, result) {
    const [answer] = result as [unknown]
    return readMysql2Answer(answer)
  },
}

async function sendOnPool(handle: MysqlQueryable, { call, sql, values, explain }: WireStatement): Promise<MysqlAnswer> {
  try {
    // Its own form of a statement.
    const [answer] = (await handle[call](withOptions(sql, values) as never)) as [unknown]
    return readMysql2Answer(answer)
  } catch (error) {
    throw explain(error)
  }
}

/** Whatever the pool was made with; of types, only another function takes the place of the pool's. */
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

/** Reads what `mysql2` answers: a header, rows, or a list of those from a procedure or several statements, of which the last one tells. */
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
