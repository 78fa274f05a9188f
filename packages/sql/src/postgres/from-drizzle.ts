import { InvalidOptionError } from '@ackord/core'
import { checkFunction, checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { Driver, StatementResult } from '../driver.ts'
import type { TableOptions } from '../tables.ts'
import { callbackDriver, type RunTracked } from './callback-driver.ts'
import { postgresDialect } from './postgres-dialect.ts'

/** What is used of the database that `drizzle()` of `drizzle-orm/node-postgres` makes. */
export interface DrizzleClient {
  // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is found by inference.
  transaction(work: (transaction: any) => Promise<any>): Promise<unknown>
  readonly _: { readonly session: unknown }
  readonly $client: unknown
}

/** The database itself or a transaction on it: what both have can be used without knowing which one it is. */
export type DrizzleHandle<Client extends DrizzleClient> = Client | Parameters<Parameters<Client['transaction']>[0]>[0]

/**
 * A database on Drizzle over a `pg.Pool`. In a transaction every query is tracked, those of Drizzle's own nested transactions included.
 * As with every pool of `pg`, whoever makes it listens to its `error` events.
 */
export function fromDrizzle<Client extends DrizzleClient>(db: Client, options: TableOptions = {}): Database<DrizzleHandle<Client>> {
  const { schema, names, ...unknown } = options
  checkNoMore('fromDrizzle()', unknown)
  checkFunction('fromDrizzle(db).transaction', db?.transaction)
  if (!isPool(db.$client)) throw new InvalidOptionError('fromDrizzle(db)', 'must be a database of drizzle-orm/node-postgres on a pg.Pool.')
  const driver = callbackDriver<DrizzleDatabase>({
    // What is there at run time, whatever the types say.
    root: db as unknown as DrizzleDatabase,
    begin: (work) => listening((listen) => db.transaction((transaction) => work(listen(transaction))) as ReturnType<typeof work>),
    run,
    track,
    // A transaction that has ended still takes queries, on a connection that may be another's: only the server knows.
    inTransaction: (handle) => ('rollback' in handle ? undefined : false),
    serverError,
  })
  return new Database({ schema, names, dialect: postgresDialect, driver: driver as unknown as Driver<DrizzleHandle<Client>> })
}

/** What is used of a database or transaction of Drizzle, beyond what its types show. */
interface DrizzleDatabase {
  readonly dialect: unknown
  readonly session: DrizzleSession
  readonly schema?: unknown
  readonly nestedIndex?: number
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

async function run({ session }: DrizzleDatabase, sql: string, parameters: readonly unknown[]): Promise<StatementResult> {
  try {
    const result = await session.prepareQuery({ sql, params: [...parameters] }, undefined, undefined, false).execute()
    // That of `pg`. Several statements have several, which nobody looks at.
    const { rows = [], rowCount } = result as { readonly rows?: StatementResult['rows']; readonly rowCount?: number | null }
    return { rows, count: rowCount ?? 0 }
  } catch (error) {
    throw serverError(error)
  }
}

/** Drizzle wraps what a query fails with. */
function serverError(error: unknown): unknown {
  return error instanceof Error && error.cause instanceof Error && 'query' in error ? error.cause : error
}

/** The same transaction on a session whose queries are tracked: everything that Drizzle sends goes through `prepareQuery`. */
function track(transaction: DrizzleDatabase, run: RunTracked): DrizzleDatabase {
  const session = new Proxy(transaction.session, {
    get(target, name, receiver) {
      if (name !== 'prepareQuery') return Reflect.get(target, name, receiver)
      return (...given: Parameters<DrizzleSession['prepareQuery']>) => tracked(target.prepareQuery(...given), given[0].sql, run)
    },
  })
  const { dialect, schema, nestedIndex } = transaction
  const Transaction = transaction.constructor as new (...given: unknown[]) => DrizzleDatabase
  return new Transaction(dialect, session, schema, nestedIndex)
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

/** A connection that breaks while nothing is sent on it would end the process. What is sent next fails all the same. */
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

function isPool(client: unknown): boolean {
  return typeof client === 'object' && client !== null && 'connect' in client && 'totalCount' in client
}
