import { compose, type Middleware } from '@ackord/core'
import { checkNoMore } from '@ackord/core/internal'
import type { Database } from './database.ts'
import { type GroupCommitOptions, groupCommit } from './group-commit.ts'
import type { InboxOptions } from './inbox.ts'
import { inboxAround } from './inbox-middleware.ts'
import { type OutboxOptions, outboxMiddleware } from './outbox-middleware.ts'
import type { TransactionOptions } from './run-transaction.ts'
import { transactionMiddleware } from './transaction-middleware.ts'

export interface TransactionalOptions {
  readonly inbox: InboxOptions
  readonly outbox: OutboxOptions
  readonly transaction?: TransactionOptions | undefined
  /** Lets messages that wait at the same time share a transaction. Default: off. */
  readonly groupCommit?: GroupCommitOptions | undefined
}

/** Transaction, inbox and outbox in the one order that works. */
export function transactional<Handle>(database: Database<Handle>, options: TransactionalOptions): Middleware {
  const { transaction, inbox, outbox, groupCommit: grouped, ...unknown } = options
  checkNoMore('transactional()', unknown)
  // The outbox leaves no outputs.
  const alone = compose(transactionMiddleware(database, transaction), inboxAround(database, inbox), outboxMiddleware(database, outbox))
  return grouped === undefined ? alone : groupCommit(database, alone, { ...options, groupCommit: grouped })
}
