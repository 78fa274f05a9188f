import { AckordError, InvalidOptionError } from '@ackord/core'
import { causesOf, checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import type { Driver, StatementResult } from '../../contract/driver.ts'
import { callbackDriver, type RunQuery, type RunTracked } from '../../orm/callback-driver.ts'
import { Database } from '../../transaction/database.ts'
import { type PostgresOptions, postgresDialect } from '../dialect.ts'
import { callbackDialect } from '../orm.ts'
import { readPgResult } from './pg-handle.ts'

/** The part of a `Sequelize` that is used. */
export interface SequelizeClient {
  // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is found by inference.
  transaction(work: (transaction: any) => Promise<any>): Promise<unknown>
  getDialect(): string
  readonly connectionManager: {
    getConnection(options: { readonly type: 'write' }): Promise<object>
    releaseConnection(connection: object): void
  }
}

/** Spread into the options of a query: `{ ...database.executor(), where }`. Outside of a transaction it is empty. */
export interface SequelizeHandle<Client extends SequelizeClient> {
  // Type inference uses the last overload: without a callback it resolves to the transaction.
  readonly transaction?: Awaited<ReturnType<Client['transaction']>>
}

/** The type of a database of `fromSequelize()`, to pass it around: `SequelizeDatabase<Sequelize>`. */
export type SequelizeDatabase<Client extends SequelizeClient> = Database<SequelizeHandle<Client>>

/**
 * A database on Sequelize 6, with its dialect `postgres`. Adapters get `{ transaction }` for the options of their queries; in a transaction every
 * query is tracked, also those that find it through `Sequelize.useCLS()`. Hooks and `logging` do not see the library's own statements.
 */
export function fromSequelize<Client extends SequelizeClient>(sequelize: Client, options: PostgresOptions = {}): SequelizeDatabase<Client> {
  const { schema, names, order, mode, notify, ...unknown } = options
  rejectUnknownOptions('fromSequelize()', unknown)
  checkFunction('fromSequelize(sequelize).transaction', sequelize?.transaction)
  checkFunction('fromSequelize(sequelize).connectionManager.getConnection', sequelize.connectionManager?.getConnection)
  if (sequelize.getDialect() !== 'postgres') throw new InvalidOptionError('fromSequelize(sequelize)', "must have the dialect 'postgres'.")
  if ((sequelize as { readonly options?: { readonly native?: unknown } }).options?.native === true)
    throw new InvalidOptionError(
      'fromSequelize(sequelize)',
      'must not have native: true: that client does not transfer the bytes of a payload unchanged.',
    )
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
  return new Database({ schema, names, order, mode, notify, dialect, driver: driver as unknown as Driver<SequelizeHandle<Client>> })
}

/** The run-time shape of a handle, whatever the types say. */
interface RawHandle {
  readonly transaction?: SequelizeTransaction | null | undefined
}

/** A pool is identified by its handle, so a `Sequelize` has one handle, however often it is wrapped. */
const roots = new WeakMap<object, RawHandle>()

function rootOf(sequelize: object): RawHandle {
  let root = roots.get(sequelize)
  if (root === undefined) {
    root = Object.freeze({})
    roots.set(sequelize, root)
  }
  return root
}

/** Sent on the connection itself: Sequelize would search the text for its own parameters. */
async function run(
  { connectionManager }: SequelizeClient,
  { transaction }: RawHandle,
  sql: string,
  parameters: readonly unknown[],
): Promise<StatementResult> {
  const connection = (await (transaction?.connection ?? connectionManager.getConnection({ type: 'write' }))) as SequelizeConnection
  try {
    // Several statements are only accepted without parameters.
    return readPgResult(await connection.query(sql, ...(parameters.length === 0 ? [] : [[...parameters]])))
  } finally {
    if (!isObject(transaction)) connectionManager.releaseConnection(connection)
  }
}

function isObject<T>(value: T | null | undefined): value is T {
  return value !== null && value !== undefined
}

/** Like the dialect's, for errors of Sequelize and their wrappers. */
function isConflict(error: unknown): boolean {
  for (const cause of causesOf(error)) {
    if (postgresDialect.isConflict(serverError(cause))) return true
  }
  return false
}

/** The server error behind a Sequelize error. */
function serverError(error: unknown): unknown {
  return error instanceof Error && 'original' in error ? error.original : error
}

/** The parts of a `Transaction` of Sequelize that are used and not in its types. */
interface SequelizeTransaction {
  /** Sequelize awaits it before each query. */
  readonly connection: SequelizeConnection | Promise<SequelizeConnection>
  /** How it ended. */
  readonly finished?: string | undefined
  readonly sequelize: { readonly constructor: { readonly _cls?: Namespace | undefined } }
}

/** The part of a client of `pg` that is used. Sequelize passes it a callback. */
interface SequelizeConnection {
  query(sql: string, ...given: unknown[]): Promise<unknown>
}

/** Where models without an explicit transaction find one, if the user has called `Sequelize.useCLS()`. */
interface Namespace {
  get(name: 'transaction'): unknown
  set(name: 'transaction', value: unknown): unknown
}

type Callback = (error: unknown, result?: unknown) => void

/** Called with the text before it is sent; throws if it must not be sent. */
type Admit = (sql: unknown) => void

/**
 * The same transaction with every query tracked: Sequelize reads the connection for each query that it sends, including savepoints. The transaction
 * that is committed keeps its own connection.
 */
function trackedTransaction(transaction: SequelizeTransaction, run: RunTracked): SequelizeTransaction {
  // Sequelize began this transaction, so it has a connection.
  const connection = transaction.connection as SequelizeConnection
  const tracked: SequelizeTransaction = Object.create(transaction, {
    connection: { get: () => acquire(connection, run) },
    // After the end the tracker refuses queries, with an error that says why.
    finished: { value: undefined },
    commit: { value: refuse },
    rollback: { value: refuse },
  })
  const namespace = transaction.sequelize.constructor._cls
  // A savepoint uses the connection of the outer transaction, which lives longer.
  if (namespace?.get('transaction') === transaction) namespace.set('transaction', tracked)
  return tracked
}

/**
 * Provides the connection for one query. The query is tracked from here on: it has been started, although Sequelize takes some turns to send it. A
 * refusal keeps its own error here, which Sequelize would wrap later.
 */
function acquire(connection: SequelizeConnection, run: RunTracked): Promise<SequelizeConnection> {
  return new Promise((resolve, reject) => {
    async function waitForQuery(admit: Admit): Promise<void> {
      let awaited = true
      let query: Promise<unknown> | undefined
      const runLent: RunQuery = (sql, start) => {
        if (!awaited) return run(sql, start)
        awaited = false
        const sent = runAdmitted(sql, start, admit)
        query = sent
        return sent
      }
      resolve(trackedConnection(connection, runLent))
      // A hook may delay it, and a savepoint keeps the connection for later: other queries do not wait for that.
      for (let turn = 0; awaited && turn < 50; turn += 1) await undefined
      awaited = false
      await query
    }
    run(undefined, waitForQuery).catch(reject)
  })
}

async function runAdmitted<T>(sql: unknown, start: (admit: Admit) => Promise<T>, admit: Admit): Promise<T> {
  admit(sql)
  return await start(admit)
}

function trackedConnection(connection: SequelizeConnection, run: RunQuery): SequelizeConnection {
  async function query(sql: string, ...given: unknown[]): Promise<unknown> {
    const callback = typeof given.at(-1) === 'function' ? (given.pop() as Callback) : undefined
    const sent = run(sql, () => connection.query(sql, ...given))
    if (callback === undefined) return await sent
    return sent.then((result) => callback(undefined, result), callback)
  }
  // Not a copy: Sequelize marks a broken connection, and its pool checks the mark.
  return new Proxy(connection, {
    get: (target, name, receiver) => (name === 'query' ? query : Reflect.get(target, name, receiver)),
  })
}

async function refuse(): Promise<never> {
  throw new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    'The middleware commits and rolls back. Throw to roll back; use sequelize.transaction({ transaction }, …) for a part of it.',
  )
}
