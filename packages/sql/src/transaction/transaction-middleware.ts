import { type Middleware, middleware } from '@ackord/core'
import { type Database, portOf } from './database.ts'
import { type TransactionOptions, transactionRules, transactionRunner } from './run-transaction.ts'

/**
 * One transaction per message and attempt: committed when the handler succeeds, rolled back when it fails, its signal is aborted or the message is
 * nacked or rejected in it. Acks wait for the commit. Inside of a transaction on the same database it is a savepoint.
 */
export function transactionMiddleware<Handle>(database: Database<Handle>, options: TransactionOptions = {}): Middleware {
  const port = portOf(database)
  const rules = transactionRules(port, 'transactionMiddleware()', options)
  const runTransaction = transactionRunner(port, rules)

  return middleware({ role: 'transaction', resource: database, inheritPorts: rules.inheritPorts }, (next) => {
    return function transaction(message, context) {
      return runTransaction({ message, run: (inside) => next(message, inside) }, context)
    }
  })
}
