import { InvalidOptionError } from '@ackord/core'
import { checkFunction, checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { Driver, StatementResult } from '../driver.ts'
import { callbackDriver } from '../orm/callback-driver.ts'
import { callbackDialect } from './callback-dialect.ts'
import { readPgResult } from './pg-result.ts'
import { postgresDialect } from './postgres-dialect.ts'
import type { PostgresOptions } from './postgres-options.ts'
import { type SequelizeConnection, type SequelizeTransaction, trackedTransaction } from './sequelize-handle.ts'

/** What is used of a `Sequelize`. */
export interface SequelizeClient {
  // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is found by inference.
  transaction(work: (transaction: any) => Promise<any>): Promise<unknown>
  getDialect(): string
  readonly connectionManager: {
    getConnection(options: { readonly type: 'write' }): Promise<object>
    releaseConnection(connection: object): void
  }
}

/** What is spread into the options of a query: `{ ...database.executor(), where }`. Outside of a transaction it says nothing. */
export interface SequelizeHandle<Client extends SequelizeClient> {
  // Of its signatures, inference looks at the last one: without a callback it gives the transaction.
  readonly transaction?: Awaited<ReturnType<Client['transaction']>>
}

/**
 * A database on Sequelize 6, with its dialect `postgres`. Adapters get `{ transaction }` for the options of their queries; in one every
 * query is tracked, also those that find it by `Sequelize.useCLS()`. Hooks and `logging` do not see our own statements.
 */
export function fromSequelize<Client extends SequelizeClient>(
  sequelize: Client,
  options: PostgresOptions = {},
): Database<SequelizeHandle<Client>> {
  const { schema, names, order, notify, ...unknown } = options
  checkNoMore('fromSequelize()', unknown)
  checkFunction('fromSequelize(sequelize).transaction', sequelize?.transaction)
  checkFunction('fromSequelize(sequelize).connectionManager.getConnection', sequelize.connectionManager?.getConnection)
  if (sequelize.getDialect() !== 'postgres') throw new InvalidOptionError('fromSequelize(sequelize)', "must have the dialect 'postgres'.")
  const driver = callbackDriver<RawHandle>(
    {
      root: rootOf(sequelize),
      begin: (work) => sequelize.transaction((transaction) => work({ transaction })) as ReturnType<typeof work>,
      run: (handle, sql, parameters) => run(sequelize, handle, sql, parameters),
      track: ({ transaction }, run) => ({ transaction: trackedTransaction(transaction as SequelizeTransaction, run) }),
      inTransaction: ({ transaction }) => isObject(transaction) && transaction.finished === undefined,
      serverError,
    },
    callbackDialect,
  )
  const dialect = { ...postgresDialect, isConflict }
  return new Database({ schema, names, order, notify, dialect, driver: driver as unknown as Driver<SequelizeHandle<Client>> })
}

/** What a handle is at run time, whatever the types say. */
interface RawHandle {
  readonly transaction?: SequelizeTransaction | null | undefined
}

/** A pool is known by its handle, so that a `Sequelize` has one, however often it is wrapped. */
const roots = new WeakMap<object, RawHandle>()

function rootOf(sequelize: object): RawHandle {
  let root = roots.get(sequelize)
  if (root === undefined) {
    root = Object.freeze({})
    roots.set(sequelize, root)
  }
  return root
}

/** On the connection itself: Sequelize would read the text for parameters of its own. */
async function run(
  { connectionManager }: SequelizeClient,
  { transaction }: RawHandle,
  sql: string,
  parameters: readonly unknown[],
): Promise<StatementResult> {
  const connection = (await (transaction?.connection ?? connectionManager.getConnection({ type: 'write' }))) as SequelizeConnection
  try {
    // Several statements are only taken without parameters.
    return readPgResult(await connection.query(sql, ...(parameters.length === 0 ? [] : [[...parameters]])))
  } finally {
    if (!isObject(transaction)) connectionManager.releaseConnection(connection)
  }
}

function isObject<T>(value: T | null | undefined): value is T {
  return value !== null && value !== undefined
}

/** As the dialect has it, for errors of Sequelize and what handlers wrap around them. */
function isConflict(error: unknown): boolean {
  let current = error
  for (let depth = 0; depth < 10 && current instanceof Error; depth += 1) {
    if (postgresDialect.isConflict(serverError(current))) return true
    current = current.cause
  }
  return false
}

/** The error of the server behind one of Sequelize. */
function serverError(error: unknown): unknown {
  return error instanceof Error && 'original' in error ? error.original : error
}
