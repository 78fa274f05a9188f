import { AckordError } from '@ackord/core'

/** COMMIT answered ROLLBACK: a statement had failed, and its error was caught. Nothing was committed. */
export class TransactionAbortedError extends AckordError {
  static {
    this.prototype.name = 'TransactionAbortedError'
  }

  constructor(options: { readonly cause?: unknown } = {}) {
    super(
      'ACKORD_TRANSACTION_ABORTED',
      'The database rolled the transaction back instead of committing it, because a statement in it had failed. Do not catch the error of a statement, or run statements that may fail in a savepoint.',
      options,
    )
  }
}

/**
 * A statement that cannot run in a transaction shared by several messages: it may end the transaction, such as CALL on MySQL or a file of
 * `sql.file()`, or it creates a savepoint when it is too late to store the events of the other messages first. It was not sent: the group is
 * dissolved, and the message is handled in a transaction of its own.
 */
export class NeedsOwnTransactionError extends AckordError {
  static {
    this.prototype.name = 'NeedsOwnTransactionError'
  }

  constructor(problem: string = statementNotSent) {
    super(
      'ACKORD_TRANSACTION_ABORTED',
      `${problem} The group is dissolved, and each of its messages is handled in a transaction of its own.`,
    )
  }
}

const statementNotSent =
  'A statement cannot be run in a transaction that this message shares with others (CALL, EXECUTE, a compound statement, a file of postgres.js, a savepoint of some ORMs), so it was not sent.'

/** The transaction was not ended by the middleware. The changes made before that may be committed. */
export class TransactionEndedError extends AckordError {
  static {
    this.prototype.name = 'TransactionEndedError'
  }

  constructor(options: { readonly cause?: unknown; readonly detail?: string | undefined } = {}) {
    super(
      'ACKORD_SCOPE_ENDED',
      `A statement of the handler had ended the transaction${options.detail ?? ''}: changes made before it may be committed. Leave BEGIN, COMMIT and ROLLBACK to the middleware.`,
      'cause' in options ? { cause: options.cause } : {},
    )
  }
}

/** The outcome of the transaction is unknown: the connection was lost during COMMIT. */
export class CommitUnknownError extends AckordError {
  static {
    this.prototype.name = 'CommitUnknownError'
  }

  constructor(cause: unknown) {
    super(
      'ACKORD_COMMIT_UNKNOWN',
      'It is not known whether the transaction was committed: the connection was lost during COMMIT. The message will be redelivered, and the inbox decides.',
      { cause },
    )
  }
}

/** Whether changes of a failed transaction may be committed. */
export function isOutcomeUnknown(error: unknown): boolean {
  return error instanceof CommitUnknownError || error instanceof TransactionEndedError
}

/** The tables do not exist, or have a version that this code does not work with. */
export class SchemaError extends AckordError {
  static {
    this.prototype.name = 'SchemaError'
  }

  readonly problem: 'missing' | 'older' | 'newer'

  constructor(problem: 'missing' | 'older' | 'newer', text: string, options: { readonly cause?: unknown } = {}) {
    super('ACKORD_SCHEMA', text, options)
    this.problem = problem
  }
}

/** No tenant could be determined for a message or request, or there is no database for the tenant. The message is rejected. */
export class TenantUnknownError extends AckordError {
  static {
    this.prototype.name = 'TenantUnknownError'
  }

  /** `undefined`: `tenantOf` has returned no tenant. */
  readonly tenant: string | undefined

  constructor(text: string, tenant: string | undefined) {
    super('ACKORD_TENANT_UNKNOWN', text, { retryable: false })
    this.tenant = tenant
  }
}

/** The database of one tenant cannot be used at the moment. A message is nacked with the delay `retryAfter`; those of other tenants are not affected. */
export class TenantUnavailableError extends AckordError {
  static {
    this.prototype.name = 'TenantUnavailableError'
  }

  readonly tenant: string
  /** Milliseconds until the next try. */
  readonly retryAfter: number

  constructor(tenant: string, problem: string, options: { readonly retryAfter: number; readonly cause?: unknown }) {
    const { retryAfter, cause } = options
    super('ACKORD_TENANT_UNAVAILABLE', `The database of the tenant '${tenant}' ${problem}`, cause === undefined ? {} : { cause })
    this.tenant = tenant
    this.retryAfter = retryAfter
  }
}
