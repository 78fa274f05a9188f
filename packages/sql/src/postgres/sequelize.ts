import { AckordError, InvalidOptionError } from '@ackord/core'
import { checkFunction, checkNoMore } from '@ackord/core/internal'
import type { Driver, StatementResult } from '../contract/driver.ts'
import { callbackDriver, type RunQuery, type RunTracked } from '../orm/callback-driver.ts'
import { Database } from '../transaction/database.ts'
import { callbackDialect } from './callback-dialect.ts'
import { readPgResult } from './client/pg-result.ts'
import { type PostgresOptions, postgresDialect } from './dialect.ts'

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

/** What is used of a `Transaction` of Sequelize, beyond what its types show. */
interface SequelizeTransaction {
  /** Sequelize awaits it before each query. */
  readonly connection: SequelizeConnection | Promise<SequelizeConnection>
  /** How it ended. */
  readonly finished?: string | undefined
  readonly sequelize: { readonly constructor: { readonly _cls?: Namespace | undefined } }
}

/** What is used of a client of `pg`. Sequelize gives it a callback. */
interface SequelizeConnection {
  query(sql: string, ...given: unknown[]): Promise<unknown>
}

/** Where models that are given no transaction find one, if the user has set `Sequelize.useCLS()`. */
interface Namespace {
  get(name: 'transaction'): unknown
  set(name: 'transaction', value: unknown): unknown
}

type Callback = (error: unknown, result?: unknown) => void

/** Told what is about to be sent; throws at what must not be. */
type Admit = (sql: unknown) => void

/**
 * The same transaction with every query tracked: for each that Sequelize sends in it, savepoints included, it asks for the connection. The
 * transaction that is committed keeps its own.
 */
function trackedTransaction(transaction: SequelizeTransaction, run: RunTracked): SequelizeTransaction {
  // What we get is one that Sequelize began, with its connection in it.
  const connection = transaction.connection as SequelizeConnection
  const tracked: SequelizeTransaction = Object.create(transaction, {
    connection: { get: () => lend(connection, run) },
    // After the end it is ours to refuse a query, with an error that says why.
    finished: { value: undefined },
    commit: { value: refuse },
    rollback: { value: refuse },
  })
  const namespace = transaction.sequelize.constructor._cls
  // In a savepoint there is the one from outside, which lives longer.
  if (namespace?.get('transaction') === transaction) namespace.set('transaction', tracked)
  return tracked
}

/**
 * Lends the connection for one query. It is tracked from here on: it has been started, although Sequelize takes some turns to send it. What is
 * refused here is refused with its own error, which Sequelize would wrap later.
 */
function lend(connection: SequelizeConnection, run: RunTracked): Promise<SequelizeConnection> {
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
      // A hook may hold it up, and a savepoint keeps the connection for later: the others do not wait for that.
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
  // Not a copy: Sequelize marks a connection that broke, and its pool looks at the mark.
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
