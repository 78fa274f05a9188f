import { checkFunction } from '@ackord/core/internal'
import type { Driver, StatementResult } from '../contract/driver.ts'
import { type CallbackDialect, callbackDriver, type RunTracked } from './callback-driver.ts'

/** The part of a database created by `drizzle()` that is used. */
export interface DrizzleClient {
  // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is found by inference.
  transaction(work: (transaction: any) => Promise<any>, config?: { isolationLevel?: any }): Promise<unknown>
  readonly $client: unknown
}

/** The database or a transaction on it: their common methods can be used without knowing which one it is. */
export type DrizzleHandle<Client extends DrizzleClient> = Client | Parameters<Parameters<Client['transaction']>[0]>[0]

/** A driver on Drizzle. `read` reads the answers of its client. */
export function drizzleDriver<Client extends DrizzleClient>(
  db: Client,
  dialect: CallbackDialect,
  read: (answer: unknown) => StatementResult,
): Driver<DrizzleHandle<Client>> {
  checkFunction('fromDrizzle(db).transaction', db?.transaction)
  const driver = callbackDriver<DrizzleDatabase>(
    {
      // The run-time shape, whatever the types say.
      root: db as unknown as DrizzleDatabase,
      begin: (work, isolation) =>
        listening((listen) => {
          const config = isolation === undefined ? undefined : { isolationLevel: isolation }
          return db.transaction((transaction) => work(listen(transaction)), config) as ReturnType<typeof work>
        }),
      run: (handle, sql, parameters) => run(handle, sql, parameters, read),
      track,
      // A transaction that has ended still accepts queries, on a connection that may belong to another one: only the server knows.
      inTransaction: (handle) => ('rollback' in handle ? undefined : false),
      serverError,
    },
    dialect,
  )
  return driver as unknown as Driver<DrizzleHandle<Client>>
}

/** The parts of a Drizzle database or transaction that are used and not in its types. */
interface DrizzleDatabase {
  readonly dialect: unknown
  readonly session: DrizzleSession
  readonly schema?: unknown
  readonly nestedIndex?: number
  /** MySQL only. */
  readonly mode?: unknown
  transaction(work: (transaction: DrizzleDatabase) => Promise<unknown>, config?: unknown): Promise<unknown>
}

interface DrizzleSession {
  readonly client: unknown
  prepareQuery(query: DrizzleQuery, fields: undefined, name: undefined, isResponseInArrayMode: boolean): PreparedQuery
}

interface DrizzleQuery {
  readonly sql: string
  readonly params: unknown[]
}

interface PreparedQuery {
  execute(...given: unknown[]): Promise<unknown>
  all?(...given: unknown[]): Promise<unknown>
}

async function run(
  { session }: DrizzleDatabase,
  sql: string,
  parameters: readonly unknown[],
  read: (answer: unknown) => StatementResult,
): Promise<StatementResult> {
  try {
    return read(await session.prepareQuery({ sql, params: [...parameters] }, undefined, undefined, false).execute())
  } catch (error) {
    throw serverError(error)
  }
}

/** Drizzle wraps the errors of queries. */
function serverError(error: unknown): unknown {
  return error instanceof Error && error.cause instanceof Error && 'query' in error ? error.cause : error
}

/** The same transaction on a session with tracked queries: everything that Drizzle sends goes through `prepareQuery`. */
function track(transaction: DrizzleDatabase, run: RunTracked): DrizzleDatabase {
  const session = new Proxy(transaction.session, {
    get(target, name, receiver) {
      if (name !== 'prepareQuery') return Reflect.get(target, name, receiver)
      return (...given: Parameters<DrizzleSession['prepareQuery']>) => tracked(target.prepareQuery(...given), given[0].sql, run)
    },
  })
  const { dialect, schema, nestedIndex, mode } = transaction
  const Transaction = transaction.constructor as new (...given: unknown[]) => DrizzleDatabase
  return new Transaction(dialect, session, schema, nestedIndex, mode)
}

function tracked(query: PreparedQuery, sql: string, run: RunTracked): PreparedQuery {
  const execute = query.execute.bind(query)
  const all = query.all?.bind(query)
  return Object.assign(query, {
    execute: (...given: unknown[]) => run(sql, () => execute(...given)),
    all: all && ((...given: unknown[]) => run(sql, () => all(...given))),
  })
}

interface Emitter {
  on(event: 'error', listener: () => void): unknown
  removeListener(event: 'error', listener: () => void): unknown
}

/** An idle connection that breaks would end the process with an unhandled error event. The next statement fails in any case. */
async function listening<R>(begin: (listen: (transaction: DrizzleDatabase) => DrizzleDatabase) => Promise<R>): Promise<R> {
  let client: Emitter | undefined
  const ignore = () => {}
  try {
    return await begin((transaction) => {
      client = transaction.session.client as Emitter
      client.on('error', ignore)
      return transaction
    })
  } finally {
    client?.removeListener('error', ignore)
  }
}
