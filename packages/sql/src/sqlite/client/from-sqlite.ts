import { InvalidOptionError, type Logger, type Runtime, systemRuntime } from '@ackord/core'
import { checkChoice, checkDuration, checkFunction, PartPorts, rejectUnknownOptions } from '@ackord/core/internal'
import type { FromOptions } from '../../contract/database-options.ts'
import type { Driver } from '../../contract/driver.ts'
import { Database } from '../../transaction/database.ts'
import { sqliteDialect } from '../dialect.ts'
import { quoteIdentifier } from '../sql-text.ts'
import type { SqliteClient, SqliteHandle } from './client.ts'
import { fileOf, type Synchronous } from './connection.ts'
import { sqliteDriver } from './driver.ts'

export interface FromSqliteOptions<Client> extends FromOptions {
  /**
   * A second connection to the same file, for `database.executor()` outside of transactions and for operators' reads. It sees committed data, waits
   * for no writer, and is set to read-only. Default: none, and there is no usable handle outside of transactions.
   */
  readonly reader?: Client | undefined
  /**
   * Milliseconds to wait while a connection of another process keeps the file locked. The wait of messages of this process for each other is not
   * limited. Default: 5,000. 0: no limit.
   */
  readonly lockTimeout?: number | undefined
  /** `normal` is faster, but a power failure may lose the latest commits, whose messages are acked. Default: `full`. */
  readonly synchronous?: Synchronous | undefined
  /** Warned if the file cannot have a write-ahead log. Also for the parts on this database that have none. Default: that of the first router, relay or service that uses it; until then the console, from `info` up. */
  readonly logger?: Logger | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** The type of a database of `fromSqlite()`, to pass it around: `SqliteDatabase<DatabaseSync>`. */
export type SqliteDatabase<Client extends SqliteClient> = Database<Pick<Client, 'prepare' | 'exec'>>

/**
 * A database on a `DatabaseSync` of node:sqlite (Node 22.16 and later) or a `Database` of better-sqlite3. Adapters get `prepare` and `exec`, and
 * statements that end with their transaction. The library owns the client from now on: statements sent on it directly may become part of the
 * transaction of a message. It is set to WAL and to a `busy_timeout` of 0 when it is first used.
 */
export function fromSqlite<Client extends SqliteClient>(client: Client, options: FromSqliteOptions<Client> = {}): SqliteDatabase<Client> {
  const { reader, lockTimeout = 5000, synchronous, logger: givenLogger, runtime = systemRuntime, ...tables } = options
  const { schema, names, order, ...unknown } = tables
  rejectUnknownOptions('fromSqlite()', unknown)
  checkClient('fromSqlite(client)', client)
  if (reader !== undefined) checkClient('reader', reader)
  checkDuration('lockTimeout', lockTimeout)
  if (synchronous !== undefined) checkChoice('synchronous', synchronous, ['full', 'normal'])
  if (schema !== undefined) quoteIdentifier('schema', schema)
  const { logger } = new PartPorts({ logger: givenLogger })
  const file = fileOf(client)
  const connection = file.connect(client, { reader, synchronous })
  const driver = sqliteDriver(file, connection, { logger, runtime, lockTimeout })
  // Inside, only the methods in SqliteHandle are used; outside, all other features of a client's statements are passed through.
  return new Database({
    schema,
    names,
    order,
    logger,
    dialect: sqliteDialect,
    driver: driver as unknown as Driver<Pick<Client, keyof SqliteHandle>>,
  })
}

function checkClient(option: string, client: SqliteClient): void {
  checkFunction(`${option}.prepare`, client?.prepare)
  checkFunction(`${option}.exec`, client.exec)
  if (typeof client.isTransaction === 'boolean' || typeof client.inTransaction === 'boolean') return
  throw new InvalidOptionError(
    option,
    'must report whether it is in a transaction: node:sqlite does since Node 22.16, better-sqlite3 in every version.',
  )
}
