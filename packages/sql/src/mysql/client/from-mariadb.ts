import { InvalidOptionError } from '@ackord/core'
import { checkFunction } from '@ackord/core/internal'
import type { FromOptions } from '../../contract/database-options.ts'
import type { Driver } from '../../contract/driver.ts'
import type { Row } from '../../records/row.ts'
import { Database } from '../../transaction/database.ts'
import { mysqlDialect } from '../dialect.ts'
import { mysqlDriver } from './driver.ts'
import { type MysqlAnswer, type MysqlPool, type MysqlQueryable, type MysqlWire, readStatus } from './wire.ts'

/** The part of a pool of the `mariadb` connector that is used. */
export interface MariadbPool extends MysqlPool {
  batch(sql: never, values: never): Promise<unknown>
}

/** The type of a database of `fromMariadb()`, to pass it around: `MariadbDatabase<mariadb.Pool>`. */
export type MariadbDatabase<Pool extends MariadbPool> = Database<Pick<Pool, 'query' | 'execute' | 'batch'>>

/**
 * A database on a pool of the `mariadb` connector. Adapters get `query`, `execute` and `batch`; in a transaction they are tracked. On MariaDB a
 * failed statement is undone alone: a handler that catches its error continues, and its earlier changes are committed.
 */
export function fromMariadb<Pool extends MariadbPool>(pool: Pool, options: FromOptions = {}): MariadbDatabase<Pool> {
  checkFunction('fromMariadb(pool).getConnection', pool?.getConnection)
  checkFunction('fromMariadb(pool).batch', pool.batch)
  if (pool.getConnection.length > 0)
    throw new InvalidOptionError('fromMariadb(pool)', 'must be a pool of mariadb, not of mariadb/callback.')
  type Handle = Pick<Pool, 'query' | 'execute' | 'batch'>
  // As in fromMysql2(): other forms of these calls are passed through.
  return new Database({ ...options, dialect: mysqlDialect, driver: mysqlDriver(pool, wire) as unknown as Driver<Handle> })
}

const wire: MysqlWire = {
  name: 'fromMariadb()',
  calls: ['query', 'execute', 'batch'],
  async send(handle, { call, sql, values, explain }) {
    // Overrides the options of the pool.
    const options = { rowsAsArray: false, nestTables: false, metaAsArray: false, typeCast: undefined, namedPlaceholders: false }
    try {
      // The connector's own form of a statement.
      return read(handle, await handle[call]({ sql, values, ...options } as never))
    } catch (error) {
      throw explain(error)
    }
  },
  read,
}

function read(handle: MysqlQueryable, result: unknown): MysqlAnswer {
  const rows = Array.isArray(result) ? (result as readonly Row[]) : []
  const { affectedRows = 0 } = (result ?? {}) as { readonly affectedRows?: number }
  return { rows, count: affectedRows, ...readStatus(statusOf(handle)) }
}

/** A connection keeps the latest status of the server; a pool has none. */
function statusOf(handle: MysqlQueryable): unknown {
  return 'info' in handle ? (handle.info as { readonly status?: unknown } | null)?.status : undefined
}
