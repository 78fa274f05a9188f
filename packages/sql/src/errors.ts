import { AckordError } from '@ackord/core'

/** COMMIT answered ROLLBACK: a statement had failed before, and somebody caught its error. Nothing was committed. */
export class TransactionAbortedError extends AckordError {
  static {
    this.prototype.name = 'TransactionAbortedError'
  }

  constructor(options: { readonly cause?: unknown } = {}) {
    super(
      'ACKORD_TRANSACTION_ABORTED',
      'The database rolled the transaction back instead of committing it, because a statement in it had failed. Let the error of a statement pass, or run what may fail in a savepoint.',
      options,
    )
  }
}

/** Whether the transaction was committed cannot be known: the connection was lost while it was. */
export class CommitUnknownError extends AckordError {
  static {
    this.prototype.name = 'CommitUnknownError'
  }

  constructor(cause: unknown) {
    super(
      'ACKORD_COMMIT_UNKNOWN',
      'It is not known whether the transaction was committed: the connection was lost during COMMIT. The message will come again, and its inbox decides.',
      { cause },
    )
  }
}

/** The tables are not there, or not those this version works with. */
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
