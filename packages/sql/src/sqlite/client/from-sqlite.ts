import { consoleLogger, InvalidOptionError, type Logger, type Runtime, systemRuntime } from '@ackord/core'
import { checkChoice, checkDuration, checkFunction, checkNoMore, guardLogger } from '@ackord/core/internal'
import type { FromOptions } from '../../contract/database-options.ts'
import type { Driver } from '../../contract/driver.ts'
import { Database } from '../../transaction/database.ts'
import { sqliteDialect } from '../dialect.ts'
import { quoteIdentifier } from '../sql-text.ts'
import type { SqliteClient, SqliteHandle } from './client.ts'
import type { Synchronous } from './connection.ts'
import { sqliteDriver } from './driver.ts'
import { fileOf } from './file.ts'

export interface FromSqliteOptions<Client> extends FromOptions {
  /**
   * A second connection to the same file, for `database.executor()` outside of transactions and for what operators look at. It sees what is
   * committed, waits for nobody, and is set to read only. Default: none, and outside of transactions there is no handle that works.
   */
  readonly reader?: Client | undefined
  /**
   * Milliseconds to wait while a connection of another process keeps the file locked. How long messages of this process wait for each other
   * is not limited. Default: 5,000. 0: no limit.
   */
  readonly lockTimeout?: number | undefined
  /** `normal` is faster, and lets a power cut take the latest commits, whose messages are acked. Default: `full`. */
  readonly synchronous?: Synchronous | undefined
  /** Told if the file cannot have a write-ahead log. Default: `consoleLogger`. */
  readonly logger?: Logger | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/**
 * A database on a `DatabaseSync` of node:sqlite (Node 22.16 and later) or a `Database` of better-sqlite3. Adapters get `prepare` and `exec`, and
 * statements that end with their transaction. The client is ours from now on: what is done with it directly may slip into the transaction
 * of a message. It is set to WAL and to a `busy_timeout` of 0 when it is first used.
 */
export function fromSqlite<Client extends SqliteClient>(
  client: Client,
  options: FromSqliteOptions<Client> = {},
): Database<Pick<Client, 'prepare' | 'exec'>> {
  const { reader, lockTimeout = 5000, synchronous, logger: givenLogger = consoleLogger, runtime = systemRuntime, ...tables } = options
  const { schema, names, order, ...unknown } = tables
  checkNoMore('fromSqlite()', unknown)
  checkClient('fromSqlite(client)', client)
  if (reader !== undefined) checkClient('reader', reader)
  checkDuration('lockTimeout', lockTimeout)
  if (synchronous !== undefined) checkChoice('synchronous', synchronous, ['full', 'normal'])
  if (schema !== undefined) quoteIdentifier('schema', schema)
  const logger = guardLogger(givenLogger)
  const file = fileOf(client)
  const connection = file.connect(client, { reader, synchronous })
  const driver = sqliteDriver(file, connection, { logger, runtime, lockTimeout })
  // Inside, only what SqliteHandle names is used; outside, all else that a client's statements can do is passed through.
  return new Database({
    schema,
    names,
    order,
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
    'must tell whether it is in a transaction: node:sqlite does since Node 22.16, better-sqlite3 always did.',
  )
}
