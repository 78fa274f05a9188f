import { type Message, type Middleware, middleware } from '@ackord/core'
import { outputsWithoutOutbox } from '@ackord/outbox'
import { internalsOf, type Redis } from './redis.ts'
import { type TransactionOptions, transactionRunner } from './run-transaction.ts'

/**
 * Queues the writes of a message and commits them together when the handler succeeds: with the marker of the inbox around it, or alone.
 * They are dropped if the handler fails, its signal is aborted, or it nacks or rejects the message. Acks wait for the commit.
 */
export function transactionMiddleware(redis: Redis, options: TransactionOptions = {}): Middleware {
  const runTransaction = transactionRunner(internalsOf(redis), 'transactionMiddleware()', options)
  const { inheritPorts } = runTransaction

  return middleware({ role: 'transaction', resource: redis, inheritPorts }, (next) => {
    return function transaction(message, context) {
      return runTransaction({ message, run: (inside) => next(message, inside), problemOf }, context)
    }
  })
}

function problemOf(outputs: readonly Message[], message: Message | undefined): Error | undefined {
  return outputs.length > 0 && message !== undefined ? outputsWithoutOutbox(message, outputs.length) : undefined
}
