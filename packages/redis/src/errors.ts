import { AckordError, type Message } from '@ackord/core'
import { nameOf } from '@ackord/core/internal'
import { shownKey } from './client/argument.ts'
import type { RedisArgument } from './client/port.ts'

/** Some commands of a transaction were carried out and one failed. It is not tried again: what was done would be done twice. */
export class PartialCommitError extends AckordError {
  static {
    this.prototype.name = 'PartialCommitError'
  }

  constructor(owner: string, detail: string) {
    super(
      'ACKORD_PARTIAL_COMMIT',
      `A command failed in the middle of the commit of ${owner}; those before it were carried out, those behind it were not: ${detail}. Put right by hand what is there. With rollback: true it is undone where that is possible.`,
      { retryable: false },
    )
  }
}

/** Nobody knows whether it was committed: no answer, and none to the question for it. */
export class CommitUnknownError extends AckordError {
  static {
    this.prototype.name = 'CommitUnknownError'
  }

  constructor(owner: string, cause: unknown) {
    super(
      'ACKORD_COMMIT_UNKNOWN',
      `It is not known whether the transaction of ${owner} was committed: Redis did not answer. The message will come again, and its inbox decides.`,
      { cause },
    )
  }
}

/** Nothing was written. */
export class TransactionAbortedError extends AckordError {
  static {
    this.prototype.name = 'TransactionAbortedError'
  }

  constructor(owner: string, detail: string, options: { readonly cause?: unknown; readonly retryable?: boolean } = {}) {
    super('ACKORD_TRANSACTION_ABORTED', `The transaction of ${owner} was not committed, and nothing of it is there: ${detail}`, options)
  }
}

/** What a transaction expected was no longer so, as often as it was run. Nothing was written. */
export class TransactionConflictError extends AckordError {
  static {
    this.prototype.name = 'TransactionConflictError'
  }

  constructor(owner: string, key: RedisArgument | undefined) {
    const which = key === undefined ? 'a key' : `the key ${shownKey(key)}`
    super(
      'ACKORD_TRANSACTION_CONFLICT',
      `The transaction of ${owner} was not committed, and nothing of it is there: ${which} was changed by somebody else after it was read, each time.`,
    )
  }
}

/** The lease on a message was lost while it was handled. Nothing was written; whoever has it now handles it. */
export class LeaseLostError extends AckordError {
  static {
    this.prototype.name = 'LeaseLostError'
  }

  constructor(owner: string) {
    super(
      'ACKORD_LEASE_LOST',
      `The lease on ${owner} ran out while it was handled, so that another worker may have it. Nothing was written. If handlers take that long, or the process stalls, use a longer lease.`,
    )
  }
}

/** Somebody else is handling the message. That is not the same as done, so it is not acked. */
export class InboxBusyError extends AckordError {
  static {
    this.prototype.name = 'InboxBusyError'
  }

  /** Milliseconds after which the lease of the other one ends if it does not renew it. */
  readonly retryAfter: number

  constructor(owner: string, retryAfter: number) {
    super('ACKORD_INBOX_BUSY', `Another worker is handling ${owner}. It comes again later; if it was handled by then, it is a duplicate.`)
    this.retryAfter = retryAfter
  }
}

/** A command, or a whole transaction, with more arguments than one script can take. Nothing was written. */
export class CommandTooLongError extends AckordError {
  static {
    this.prototype.name = 'CommandTooLongError'
  }

  constructor(command: string | undefined, count: number, limit: number) {
    const advice = 'Write less in one message, or spread it over several transactions.'
    const text =
      command === undefined
        ? `A transaction has ${count} arguments, and Redis accepts ${limit} in one call. Nothing of it was written. ${advice}`
        : `${command} has ${count} arguments, and a Redis script can pass on ${limit}. It was not added to the transaction. Split it into several commands.`
    super('ACKORD_COMMAND_TOO_LONG', text, { retryable: false })
  }
}

/** A key that cannot commit together with the others. */
export class CrossSlotError extends AckordError {
  static {
    this.prototype.name = 'CrossSlotError'
  }

  constructor(key: RedisArgument, anchor: RedisArgument) {
    super(
      'ACKORD_CROSS_SLOT',
      `The key ${shownKey(key)} is in another slot than ${shownKey(anchor)}, so that on a cluster they cannot commit together. Give both the same tag, by redis.key(tag, …); the inbox has its own by the option tag. On a single server, slotCheck: 'cluster' allows it.`,
    )
  }
}

export function outputsWithoutOutbox(message: Message, count: number): AckordError {
  return new AckordError(
    'ACKORD_INVALID_OUTPUT',
    `Handling ${nameOf(message)} gave ${count} outputs, and there is an inbox around it but no outbox. If the process ended after the commit they would be lost, because the message would come back as a duplicate. Add outboxMiddleware() inside of the transaction.`,
  )
}
