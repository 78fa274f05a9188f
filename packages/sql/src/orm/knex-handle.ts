import { AckordError } from '@ackord/core'
import type { RunTracked } from './callback-driver.ts'

/** What is used of a `Knex`, be it the root or a transaction. */
export interface KnexHandle {
  readonly client: KnexExecutor
  readonly isTransaction?: boolean | undefined
  isCompleted?(): boolean
}

/** What sends the queries of a `Knex`. */
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
 * The same transaction with every query tracked. Whatever a `Knex` makes (queries, raw ones, changes of the schema) has the executor that
 * will send it, and is given another one.
 */
export function trackedHandle(transaction: KnexHandle, run: RunTracked): KnexHandle {
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
      // `schema` is made when it is asked for.
      if (typeof value !== 'function') return adopt(value)
      return Object.assign((...given: unknown[]) => adopt(value.apply(target, given)), value)
    },
  })
}

/** A savepoint of Knex, whose queries are tracked. It ends by its callback only. */
function nested(transaction: KnexHandle, begin: Call, run: RunTracked): Call {
  return (work, ...options) => {
    if (typeof work !== 'function')
      throw new AckordError('ACKORD_TRANSACTION_REQUIRED', 'In a transaction of ours, transaction() needs a callback.')
    return begin.call(transaction, (inner: KnexHandle) => work(trackedHandle(inner, run)), ...options)
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
