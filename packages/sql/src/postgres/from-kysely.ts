import { checkFunction, checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { Driver, StatementResult } from '../driver.ts'
import type { TableOptions } from '../tables.ts'
import { callbackDriver, type RunTracked } from './callback-driver.ts'
import { postgresDialect } from './postgres-dialect.ts'
import { refuseControl } from './refuse-control.ts'

/** What is used of a `Kysely`. */
export interface KyselyClient {
  // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is its own, which can be used as a Kysely.
  transaction(): { execute<R>(work: (transaction: any) => Promise<R>): Promise<R> }
  readonly isTransaction: boolean
  getExecutor(): unknown
}

/**
 * A database on Kysely, with a dialect for PostgreSQL. Adapters get a `Kysely<DB>`; in a transaction every query is tracked. Plugins do not
 * see our own statements. Whoever makes a `pg.Pool` for Kysely listens to the `error` events of the pool and of its clients.
 */
export function fromKysely<Client extends KyselyClient>(db: Client, options: TableOptions = {}): Database<Client> {
  const { schema, names, ...unknown } = options
  checkNoMore('fromKysely()', unknown)
  checkFunction('fromKysely(db).transaction', db?.transaction)
  checkFunction('fromKysely(db).getExecutor', db.getExecutor)
  // What is there at run time, whatever the types say.
  const root = db as unknown as KyselyHandle
  const driver = callbackDriver<KyselyHandle>({
    root,
    begin: (work) => db.transaction().execute(work),
    run,
    track: (transaction, run) => tracked(root.getExecutor(), transaction, run),
    // One that has ended refuses what it is given. Others may be on a connection of which only the server knows.
    inTransaction: (handle) => handle.isTransaction || undefined,
  })
  return new Database({ schema, names, dialect: postgresDialect, driver: driver as unknown as Driver<Client> })
}

/** What is used of a `Kysely` or a `Transaction`, beyond the client. */
interface KyselyHandle {
  readonly isTransaction: boolean
  readonly introspection: unknown
  getExecutor(): KyselyExecutor
}

interface KyselyExecutor extends KyselyConnections {
  executeQuery(query: KyselyQuery): Promise<KyselyResult>
  withoutPlugins(): KyselyExecutor
  withConnectionProvider(provider: KyselyConnections): KyselyExecutor
}

interface KyselyConnections {
  provideConnection<T>(consumer: (connection: KyselyConnection) => Promise<T>): Promise<T>
}

interface KyselyConnection {
  executeQuery(query: KyselyQuery): Promise<KyselyResult>
  streamQuery(query: KyselyQuery, chunkSize?: number): AsyncIterableIterator<KyselyResult>
}

interface KyselyQuery {
  readonly sql: string
  readonly parameters: readonly unknown[]
  readonly query: object
  readonly queryId: object
}

interface KyselyResult {
  readonly rows: unknown[]
  readonly numAffectedRows?: bigint | undefined
}

async function run(handle: KyselyHandle, sql: string, parameters: readonly unknown[]): Promise<StatementResult> {
  // What `CompiledQuery.raw()` makes.
  const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] }
  const executor = handle.getExecutor().withoutPlugins()
  const { rows, numAffectedRows } = await executor.executeQuery({ sql, parameters, query, queryId: { queryId: 'ackord' } })
  // Rows are objects: none of our statements asks for arrays.
  return { rows: rows as StatementResult['rows'], count: Number(numAffectedRows ?? 0) }
}

/** The same transaction on an executor whose connection is tracked: everything that Kysely sends asks for it first. */
function tracked(executor: KyselyExecutor, transaction: KyselyHandle, run: RunTracked): KyselyHandle {
  const connections = transaction.getExecutor()
  const provider: KyselyConnections = {
    provideConnection: (consumer) => run(undefined, () => connections.provideConnection((connection) => consumer(guarded(connection)))),
  }
  const Transaction = transaction.constructor as new (properties: object) => KyselyHandle
  return new Transaction({
    executor: executor.withConnectionProvider(provider),
    dialect: { createIntrospector: () => transaction.introspection },
    // Only those who begin a transaction need them.
    config: {},
    driver: {},
  })
}

function guarded(connection: KyselyConnection): KyselyConnection {
  return {
    async executeQuery(query) {
      refuseControl(query.sql)
      return await connection.executeQuery(query)
    },
    streamQuery: (query, chunkSize) => connection.streamQuery(query, chunkSize),
  }
}
