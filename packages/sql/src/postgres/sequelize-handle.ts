import { AckordError } from '@ackord/core'
import type { RunTracked } from '../orm/callback-driver.ts'

/** What is used of a `Transaction` of Sequelize, beyond what its types show. */
export interface SequelizeTransaction {
  /** Sequelize awaits it before each query. */
  readonly connection: SequelizeConnection | Promise<SequelizeConnection>
  /** How it ended. */
  readonly finished?: string | undefined
  readonly sequelize: { readonly constructor: { readonly _cls?: Namespace | undefined } }
}

/** What is used of a client of `pg`. Sequelize gives it a callback. */
export interface SequelizeConnection {
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
export function trackedTransaction(transaction: SequelizeTransaction, run: RunTracked): SequelizeTransaction {
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
      const runLent: RunTracked = (sql, start) => {
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

function trackedConnection(connection: SequelizeConnection, run: RunTracked): SequelizeConnection {
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
