import { compose, type Middleware } from '@ackord/core'
import { rejectUnknownOptions } from '@ackord/core/internal'
import { checkGroupCommit, type GroupCommitOptions, groupCommit } from './group-commit/group-commit.ts'
import { checkInboxOptions, type InboxOptions, inboxAround } from './inbox/inbox.ts'
import { checkOutboxOptions, type OutboxOptions, outboxMiddleware } from './outbox/outbox-middleware.ts'
import type { Database } from './transaction/database.ts'
import type { TransactionOptions } from './transaction/run-transaction.ts'
import { transactionMiddleware } from './transaction/transaction-middleware.ts'

export interface TransactionalOptions {
  readonly inbox: InboxOptions
  readonly outbox: OutboxOptions
  readonly transaction?: TransactionOptions | undefined
  /** Lets messages that wait at the same time share a transaction. Default: off. */
  readonly groupCommit?: GroupCommitOptions | undefined
}

/** Checks what can be checked without a database. */
export function checkTransactional(options: TransactionalOptions): void {
  const { transaction: _, inbox, outbox, groupCommit: grouped, ...unknown } = options
  rejectUnknownOptions('transactional()', unknown)
  checkInboxOptions(inbox)
  checkOutboxOptions(outbox)
  if (grouped !== undefined) checkGroupCommit(grouped)
}

/** Transaction, inbox and outbox in the only order that works. Messages of batch handlers share a transaction. */
export function transactional<Handle>(database: Database<Handle>, options: TransactionalOptions): Middleware {
  const { transaction, inbox, outbox, groupCommit: grouped, ...unknown } = options
  rejectUnknownOptions('transactional()', unknown)
  const alone = compose(
    transactionMiddleware(database, transaction),
    inboxAround(database, inbox, { outputsAreStored: true }),
    outboxMiddleware(database, outbox),
  )
  return groupCommit(database, alone, { transaction, inbox, outbox, groupCommit: grouped })
}
