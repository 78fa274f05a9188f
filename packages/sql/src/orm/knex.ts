import { AckordError } from '@ackord/core'
import { checkFunction } from '@ackord/core/internal'
import type { Driver, StatementResult } from '../contract/driver.ts'
import { type CallbackDialect, callbackDriver, type RunTracked } from './callback-driver.ts'

/** The part of a `Knex` that is used. */
export interface KnexClient {
  // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is its own, which can be used as a Knex.
  transaction(work: (transaction: any) => Promise<any>, options?: { isolationLevel?: any }): Promise<unknown>
  readonly client: unknown
}

/** The differences between the clients of Knex. */
export interface KnexWire {
  /** Converts a statement of the library to the form that Knex accepts. */
  text(sql: string): string
  /** Reads the client's answer. */
  read(response: unknown): StatementResult
}

/** A driver on Knex. */
export function knexDriver<Client extends KnexClient>(knex: Client, dialect: CallbackDialect, wire: KnexWire): Driver<Client> {
  checkFunction('fromKnex(knex).transaction', knex?.transaction)
  const driver = callbackDriver<KnexHandle>(
    {
      // The run-time shape, whatever the types say.
      root: knex as unknown as KnexHandle,
      begin: (work, isolation) =>
        knex.transaction(work, isolation === undefined ? undefined : { isolationLevel: isolation }) as ReturnType<typeof work>,
      run: (handle, sql, parameters) => run(handle, sql, parameters, wire),
      track: trackedHandle,
      inTransaction: ({ isTransaction, isCompleted }) => isTransaction === true && isCompleted?.() === false,
    },
    dialect,
  )
  return driver as unknown as Driver<Client>
}

async function run({ client }: KnexHandle, sql: string, parameters: readonly unknown[], wire: KnexWire): Promise<StatementResult> {
  const connection = await client.acquireConnection()
  try {
    const { response } = await client.query(connection, { sql: wire.text(sql), bindings: [...parameters] })
    return wire.read(response)
  } finally {
    await client.releaseConnection(connection)
  }
}

/** The part of a `Knex`, the root or a transaction, that is used. */
interface KnexHandle {
  readonly client: KnexExecutor
  readonly isTransaction?: boolean | undefined
  isCompleted?(): boolean
}

/** Sends the queries of a `Knex`. */
interface KnexExecutor {
  acquireConnection(): Promise<unknown>
  releaseConnection(connection: unknown): Promise<void>
  query(connection: unknown, query: KnexQuery | string): Promise<{ readonly response: unknown }>
}

interface KnexQuery {
  readonly sql: string
  readonly bindings: unknown[]
}

type Call = (...given: unknown[]) => unknown

/**
 * The same transaction with every query tracked. Every object that a `Knex` creates (queries, raw queries, schema changes) refers to the executor
 * that will send it, which is replaced.
 */
function trackedHandle(transaction: KnexHandle, run: RunTracked): KnexHandle {
  const { client } = transaction
  const executor: KnexExecutor = Object.assign(Object.create(client), {
    query: (connection: unknown, query: KnexQuery | string) =>
      run(typeof query === 'string' ? query : query.sql, () => client.query(connection, query)),
  })
  const adopt = (made: unknown) => {
    if (isMade(made, client)) made.client = executor
    return made
  }
  return new Proxy(transaction, {
    apply: (target, _, given) => adopt((target as unknown as Call)(...given)),
    get(target, name) {
      if (name === 'client') return executor
      if (name === 'commit' || name === 'rollback') return refuse
      const value: unknown = Reflect.get(target, name)
      if (name === 'transaction' || name === 'savepoint') return nested(target, value as Call, run)
      // `schema` is created when it is read.
      if (typeof value !== 'function') return adopt(value)
      return Object.assign((...given: unknown[]) => adopt(value.apply(target, given)), value)
    },
  })
}

/** A savepoint of Knex with tracked queries. It ends with its callback only. */
function nested(transaction: KnexHandle, begin: Call, run: RunTracked): Call {
  return (work, ...options) => {
    if (typeof work !== 'function')
      throw new AckordError('ACKORD_TRANSACTION_REQUIRED', 'Inside of a transaction of the middleware, transaction() requires a callback.')
    // Knex sends the savepoint itself.
    const before = run.admitSavepoint()
    const start = () => begin.call(transaction, (inner: KnexHandle) => work(trackedHandle(inner, run)), ...options)
    return before === undefined ? start() : before.then(start)
  }
}

function refuse(): never {
  throw new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    'The middleware commits and rolls back. Throw to roll back; use transaction() for a part of it.',
  )
}

function isMade(made: unknown, client: KnexExecutor): made is { client: KnexExecutor } {
  return typeof made === 'object' && made !== null && 'client' in made && made.client === client
}
