import { compose, type Middleware } from '@ackord/core'
import { rejectUnknownOptions } from '@ackord/core/internal'
import { type InboxOptions, inboxMiddleware } from './inbox/inbox-middleware.ts'
import { type OutboxOptions, outboxMiddleware } from './outbox/outbox-middleware.ts'
import type { Redis } from './transaction/redis.ts'
import type { TransactionOptions } from './transaction/run-transaction.ts'
import { transactionMiddleware } from './transaction/transaction-middleware.ts'

export interface TransactionalOptions {
  readonly inbox: InboxOptions
  readonly outbox: OutboxOptions
  readonly transaction?: TransactionOptions | undefined
}

/** Inbox, transaction and outbox in the one order that works. */
export function transactional(redis: Redis, options: TransactionalOptions): Middleware {
  const { inbox, transaction, outbox, ...unknown } = options
  rejectUnknownOptions('transactional()', unknown)
  return compose(inboxMiddleware(redis, inbox), transactionMiddleware(redis, transaction), outboxMiddleware(redis, outbox))
}
