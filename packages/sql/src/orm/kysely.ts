import { checkFunction } from '@ackord/core/internal'
import type { Driver, StatementResult } from '../contract/driver.ts'
import { type CallbackDialect, callbackDriver, type RunTracked } from './callback-driver.ts'

/** The part of a `Kysely` that is used. */
export interface KyselyClient {
  transaction(): KyselyTransactionBuilder
  readonly isTransaction: boolean
  getExecutor(): unknown
}

export interface KyselyTransactionBuilder {
  setIsolationLevel(isolation: 'read committed' | 'repeatable read' | 'serializable'): KyselyTransactionBuilder
  // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is its own, which can be used as a Kysely.
  execute<R>(work: (transaction: any) => Promise<R>): Promise<R>
}

/** A driver on Kysely. */
export function kyselyDriver<Client extends KyselyClient>(db: Client, dialect: CallbackDialect): Driver<Client> {
  checkFunction('fromKysely(db).transaction', db?.transaction)
  checkFunction('fromKysely(db).getExecutor', db.getExecutor)
  // The run-time shape, whatever the types say.
  const root = db as unknown as KyselyHandle
  const driver = callbackDriver<KyselyHandle>(
    {
      root,
      begin(work, isolation) {
        const builder = db.transaction()
        return (isolation === undefined ? builder : builder.setIsolationLevel(isolation)).execute(work)
      },
      run,
      track: (transaction, run) => tracked(root.getExecutor(), transaction, run),
      // A transaction that has ended rejects queries. Other handles may be on a connection whose state only the server knows.
      inTransaction: (handle) => handle.isTransaction || undefined,
    },
    dialect,
  )
  return driver as unknown as Driver<Client>
}

/** The parts of a `Kysely` or a `Transaction` that are used beyond the client. */
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
  // The same as `CompiledQuery.raw()` creates.
  const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] }
  const executor = handle.getExecutor().withoutPlugins()
  const { rows, numAffectedRows } = await executor.executeQuery({ sql, parameters, query, queryId: { queryId: 'ackord' } })
  // Rows are objects: no statement of the library asks for arrays.
  return { rows: rows as StatementResult['rows'], count: Number(numAffectedRows ?? 0) }
}

/** The same transaction on an executor with a tracked connection: Kysely requests the connection before it sends anything. */
function tracked(executor: KyselyExecutor, transaction: KyselyHandle, run: RunTracked): KyselyHandle {
  const connections = transaction.getExecutor()
  const provider: KyselyConnections = {
    provideConnection: (consumer) =>
      run(undefined, (admit) => connections.provideConnection((connection) => consumer(guarded(connection, admit)))),
  }
  const Transaction = transaction.constructor as new (properties: object) => KyselyHandle
  return new Transaction({
    executor: executor.withConnectionProvider(provider),
    dialect: { createIntrospector: () => transaction.introspection },
    // Only needed to begin a transaction.
    config: {},
    driver: {},
  })
}

function guarded(connection: KyselyConnection, admit: (sql: string) => void): KyselyConnection {
  return {
    async executeQuery(query) {
      admit(query.sql)
      return await connection.executeQuery(query)
    },
    streamQuery(query, chunkSize) {
      admit(query.sql)
      return connection.streamQuery(query, chunkSize)
    },
  }
}
