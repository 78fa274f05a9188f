import { compose, type Middleware } from '@ackord/core'
import { checkNoMore } from '@ackord/core/internal'
import { type InboxOptions, inboxMiddleware } from './inbox-middleware.ts'
import { type OutboxOptions, outboxMiddleware } from './outbox-middleware.ts'
import type { Redis } from './redis.ts'
import type { TransactionOptions } from './run-transaction.ts'
import { transactionMiddleware } from './transaction-middleware.ts'

export interface TransactionalOptions {
  readonly inbox: InboxOptions
  readonly outbox: OutboxOptions
  readonly transaction?: TransactionOptions | undefined
}

/** Inbox, transaction and outbox in the one order that works. */
export function transactional(redis: Redis, options: TransactionalOptions): Middleware {
  const { inbox, transaction, outbox, ...unknown } = options
  checkNoMore('transactional()', unknown)
  return compose(inboxMiddleware(redis, inbox), transactionMiddleware(redis, transaction), outboxMiddleware(redis, outbox))
}
