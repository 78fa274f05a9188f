import { AckordError } from '@ackord/core'
import { shownKey } from './client/argument.ts'
import type { RedisArgument } from './client/port.ts'

/** Some commands of a transaction were carried out and one failed. It is not retried: the commands would be carried out twice. */
export class PartialCommitError extends AckordError {
  static {
    this.prototype.name = 'PartialCommitError'
  }

  constructor(owner: string, detail: string) {
    super(
      'ACKORD_PARTIAL_COMMIT',
      `A command failed in the middle of the commit of ${owner}; the commands before it were carried out, those after it were not: ${detail}. Repair the data manually. With rollback: true the commands before it are undone where that is possible.`,
      { retryable: false },
    )
  }
}

/** Whether the transaction was committed is unknown: neither the commit nor the question about it was answered. */
export class CommitUnknownError extends AckordError {
  static {
    this.prototype.name = 'CommitUnknownError'
  }

  constructor(owner: string, cause: unknown) {
    super(
      'ACKORD_COMMIT_UNKNOWN',
      `It is unknown whether the transaction of ${owner} was committed: Redis did not answer. A message is delivered again, and its inbox decides; a request with an idempotency key can be sent again, and its key decides.`,
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
    super('ACKORD_TRANSACTION_ABORTED', `The transaction of ${owner} was not committed, and nothing was written: ${detail}`, options)
  }
}

/** A key that a transaction expects or watches was changed by another client, in every attempt. Nothing was written. */
export class TransactionConflictError extends AckordError {
  static {
    this.prototype.name = 'TransactionConflictError'
  }

  constructor(owner: string, key: RedisArgument | undefined) {
    const which = key === undefined ? 'a key' : `the key ${shownKey(key)}`
    super(
      'ACKORD_TRANSACTION_CONFLICT',
      `The transaction of ${owner} was not committed, and nothing was written: ${which} was changed by another client after it was read, in every attempt.`,
    )
  }
}

/** The lease on a message was lost while it was handled. Nothing was written; the worker that has the lease now handles the message. */
export class LeaseLostError extends AckordError {
  static {
    this.prototype.name = 'LeaseLostError'
  }

  constructor(owner: string) {
    super(
      'ACKORD_LEASE_LOST',
      `The lease on ${owner} expired while it was handled, and another worker may have it. Nothing was written. If handlers take that long, or the process stalls, use a longer lease.`,
    )
  }
}

/** Another worker is handling the message. The message is not done yet, so it is not acked. */
export class InboxBusyError extends AckordError {
  static {
    this.prototype.name = 'InboxBusyError'
  }

  /** Milliseconds after which the lease of the other worker expires if it is not renewed. */
  readonly retryAfter: number

  constructor(owner: string, retryAfter: number) {
    super(
      'ACKORD_INBOX_BUSY',
      `Another worker is handling ${owner}. The message is delivered again later; if it was handled by then, it is a duplicate.`,
    )
    this.retryAfter = retryAfter
  }
}

/** A command, or a whole transaction, has more arguments than one script accepts. Nothing was written. */
export class CommandTooLongError extends AckordError {
  static {
    this.prototype.name = 'CommandTooLongError'
  }

  constructor(command: string | undefined, count: number, limit: number) {
    const advice = 'Write less in one message, or use several transactions.'
    const text =
      command === undefined
        ? `A transaction has ${count} arguments, and Redis accepts ${limit} in one call. Nothing was written. ${advice}`
        : `${command} has ${count} arguments, and a Redis script can pass on ${limit}. It was not added to the transaction. Split it into several commands.`
    super('ACKORD_COMMAND_TOO_LONG', text, { retryable: false })
  }
}

/** A key in another slot than the other keys of its transaction. */
export class CrossSlotError extends AckordError {
  static {
    this.prototype.name = 'CrossSlotError'
  }

  constructor(key: RedisArgument, anchor: RedisArgument) {
    super(
      'ACKORD_CROSS_SLOT',
      `The key ${shownKey(key)} is in another slot than ${shownKey(anchor)}; on a cluster they cannot commit together. Give both keys the same tag with redis.key(tag, …); the inbox and redisIdempotency() have the option tag. On a single server, slotCheck: 'cluster' allows it.`,
    )
  }
}
