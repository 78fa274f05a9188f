import { type Message, type Middleware, middleware } from '@ackord/core'
import { outputsWithoutOutbox } from '../errors.ts'
import { internalsOf, type Redis } from './redis.ts'
import { type TransactionOptions, transactionRunner } from './run-transaction.ts'

/**
 * Gathers the writes of a message and commits them together when the handler succeeds: with the marker of the inbox outside of it, or alone.
 * They are forgotten when it fails, its signal is aborted, or the message is nacked or rejected in it. Acks wait for the commit.
 */
export function transactionMiddleware(redis: Redis, options: TransactionOptions = {}): Middleware {
  const runTransaction = transactionRunner(internalsOf(redis), 'transactionMiddleware()', options)

  return middleware({ role: 'transaction', resource: redis }, (next) => {
    return function transaction(message, context) {
      return runTransaction({ message, run: (inside) => next(message, inside), problemOf }, context)
    }
  })
}

function problemOf(outputs: readonly Message[], message: Message | undefined): Error | undefined {
  return outputs.length > 0 && message !== undefined ? outputsWithoutOutbox(message, outputs.length) : undefined
}
