import { escapeText } from './escape-text.ts'

/** UTF-16 code units of an error's message; longer messages are truncated with a mark. */
const maxMessageLength = 4000

/**
 * Every code an Ackord error can carry. The list is closed: `docs/errors.md` has a heading for each, and a test compares the two.
 */
export const errorCodes = [
  'ACKORD_ALREADY_STARTED',
  'ACKORD_BATCH_MESSAGE_FAILED',
  'ACKORD_BATCH_UNSUPPORTED',
  'ACKORD_CHAOS',
  'ACKORD_CIRCUIT_OPEN',
  'ACKORD_CLAIM_LOST',
  'ACKORD_CODEC_FAILED',
  'ACKORD_COMMAND_TOO_LONG',
  'ACKORD_COMMIT_UNKNOWN',
  'ACKORD_CROSS_SLOT',
  'ACKORD_DATABASE_BUSY',
  'ACKORD_DEAD_LETTERS_BUSY',
  'ACKORD_DELIVERY_LIMIT',
  'ACKORD_DUPLICATE_ID',
  'ACKORD_HANDLER_EXISTS',
  'ACKORD_HANDLER_REFUSED',
  'ACKORD_INBOX_BUSY',
  'ACKORD_INPUT_REFUSED',
  'ACKORD_INVALID_ATTRIBUTES',
  'ACKORD_INVALID_MESSAGE',
  'ACKORD_INVALID_OPTION',
  'ACKORD_INVALID_OUTPUT',
  'ACKORD_KEY_FORGOTTEN',
  'ACKORD_KEY_NACKED',
  'ACKORD_KEY_UNKNOWN',
  'ACKORD_LEASE_LOST',
  'ACKORD_LIMITER_FAILED',
  'ACKORD_MARSHAL_FAILED',
  'ACKORD_MAX_DELIVERIES',
  'ACKORD_MESSAGE_EXPIRED',
  'ACKORD_MIDDLEWARE_ORDER',
  'ACKORD_MISSING_ATTRIBUTE',
  'ACKORD_NACKED',
  'ACKORD_NEXT_CALLED_TWICE',
  'ACKORD_NEXT_NOT_AWAITED',
  'ACKORD_NO_HANDLER',
  'ACKORD_NO_OUTPUT',
  'ACKORD_NOT_AN_ERROR',
  'ACKORD_PARTIAL_COMMIT',
  'ACKORD_PAYLOAD_INVALID',
  'ACKORD_PAYLOAD_MISSING',
  'ACKORD_PROCESS_ID',
  'ACKORD_PROCESS_NOT_STARTED',
  'ACKORD_PROCESS_STATE',
  'ACKORD_PROCESS_TIMEOUT',
  'ACKORD_PUBLISH_FAILED',
  'ACKORD_REDIS_UNANSWERED',
  'ACKORD_REJECTED',
  'ACKORD_REPLAY_FAILED',
  'ACKORD_REPLAY_RUNNING',
  'ACKORD_RETRY_EXHAUSTED',
  'ACKORD_SCHEMA',
  'ACKORD_SCOPE_ENDED',
  'ACKORD_SHUTDOWN',
  'ACKORD_SOURCE_FAILED',
  'ACKORD_STORE_REFUSES_WRITES',
  'ACKORD_TENANT_LIMITED',
  'ACKORD_TENANT_UNAVAILABLE',
  'ACKORD_TENANT_UNKNOWN',
  'ACKORD_TRANSACTION_ABORTED',
  'ACKORD_TRANSACTION_CONFLICT',
  'ACKORD_TRANSACTION_REQUIRED',
  'ACKORD_UNMARSHAL_FAILED',
  'ACKORD_VALIDATION_FAILED',
  'ACKORD_WRONG_DATA',
] as const

export type ErrorCode = (typeof errorCodes)[number]

export interface AckordErrorOptions {
  readonly cause?: unknown
  /** See {@link AckordError.retryable}. Default: true. */
  readonly retryable?: boolean | undefined
}

/** The base of all errors thrown by Ackord. Branch on `isAckordError(error, code)`, not on `instanceof`: node_modules may contain two copies of a package. */
export class AckordError extends Error {
  static {
    this.prototype.name = 'AckordError'
  }

  readonly code: ErrorCode

  /**
   * Whether the same message may succeed when it is handled again: later, by another instance, or after a deployment. `false` means that the fault is
   * in the message itself; the router then rejects it (dead letter) instead of requesting a redelivery.
   */
  readonly retryable: boolean

  constructor(code: ErrorCode, message: string, options: AckordErrorOptions = {}) {
    // Callers may quote foreign texts: the message stays on one line and limited in length.
    super(escapeText(message, maxMessageLength), 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.retryable = options.retryable ?? true
  }
}

/** Compares the code, so that it also recognises errors of another copy of the package. */
export function isAckordError(error: unknown, code?: ErrorCode): error is AckordError {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return false
  if (code !== undefined) return error.code === code
  return (errorCodes as readonly string[]).includes(error.code)
}

/** An invalid option or argument, detected when the object is created. */
export class InvalidOptionError extends AckordError {
  static {
    this.prototype.name = 'InvalidOptionError'
  }

  /** The option, or the function whose argument is invalid, as the message names it first. */
  readonly option: string

  constructor(option: string, problem: string, options: { readonly cause?: unknown } = {}) {
    super('ACKORD_INVALID_OPTION', `${option} ${problem}`, options)
    this.option = option
  }
}

/** Throw it in a handler to reject the message permanently: it goes to the dead letter instead of being redelivered. */
export class RejectError extends AckordError {
  static {
    this.prototype.name = 'RejectError'
  }

  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('ACKORD_REJECTED', message, { ...options, retryable: false })
  }
}

/**
 * The store accepts no writes at the moment: its memory or disk is full, or it is read-only. Nothing was written. The router keeps the message, stops
 * reading, and tries one message at a time until the store accepts writes again.
 */
export class StoreRefusesWritesError extends AckordError {
  static {
    this.prototype.name = 'StoreRefusesWritesError'
  }

  constructor(store: string, detail: string, options: { readonly cause?: unknown } = {}) {
    super('ACKORD_STORE_REFUSES_WRITES', `${store} refuses writes, and nothing was written: ${detail}`, options)
  }
}

export class TransactionRequiredError extends AckordError {
  static {
    this.prototype.name = 'TransactionRequiredError'
  }

  constructor(caller: string) {
    super(
      'ACKORD_TRANSACTION_REQUIRED',
      `${caller} found no transaction in the context. Register the transaction middleware outside of it.`,
    )
  }
}

/** Converts a thrown value to an error: itself if it is an error, otherwise an error that describes the value. */
export function toError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown
  return new AckordError('ACKORD_NOT_AN_ERROR', `A value that is not an error was thrown: ${describeValue(thrown)}.`, {
    cause: thrown,
  })
}

/** Names the kind of a value without showing its content: payloads do not belong in error texts. */
export function describeValue(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object') {
    // Not `value.constructor`: data may have a member of that name.
    const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
    return typeof name !== 'string' || name === '' || name === 'Object' ? 'a plain object' : `an instance of ${name}`
  }
  if (typeof value === 'undefined') return 'undefined'
  return `a ${typeof value}`
}

export interface CauseOptions {
  /** Whether the errors of an AggregateError are included, before its own cause. Default: false. */
  readonly aggregated?: boolean | undefined
}

/** The error, its cause, the cause of that, and so on. Yields each object once, so that a cycle of causes ends. */
export function* causesOf(error: unknown, options: CauseOptions = {}): Generator<unknown, void, void> {
  const { aggregated = false } = options
  const seen = new Set<unknown>()
  const pending = [error]
  while (pending.length > 0) {
    const next = pending.pop()
    if (next === undefined || next === null || seen.has(next)) continue
    seen.add(next)
    yield next
    if (typeof next !== 'object') continue
    if ('cause' in next) pending.push(next.cause)
    if (aggregated && next instanceof AggregateError) pending.push(...next.errors.toReversed())
  }
}
