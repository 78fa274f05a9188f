import { type Backoff, exponentialBackoff } from '../async/backoff.ts'
import { AckordError, causesOf, InvalidOptionError } from '../errors.ts'
import { beginAttempt, type Context, type ContextKey, contextKey, enter } from '../message/context.ts'
import { logFields } from '../message/log-fields.ts'
import { describeMessage } from '../message/marshal.ts'
import { isRetryable, isSettled, type Message, retryAfterOf } from '../message/message.ts'
import { checkCount, checkDuration, checkFunction } from '../options.ts'
import type { Logger } from '../ports/observability.ts'
import { PartPorts } from '../ports/part-ports.ts'
import { type Runtime, sleep, systemRuntime } from '../ports/runtime.ts'
import { type Middleware, middleware } from './middleware.ts'

/** The progress of a message's retries. */
export interface RetryState {
  /** 1 for the first attempt. */
  readonly attempt: number
  /** The errors of the attempts so far, oldest first; the last 100 of them. */
  readonly causes: readonly unknown[]
  /** When the first attempt began, in milliseconds since the epoch. */
  readonly startedAt: number
}

export interface RetryOptions {
  /** The maximum number of attempts, including the first. Default: 3. `Infinity`: until it succeeds or the time is over. */
  readonly attempts?: number | undefined
  /** The wait after each failure, unless its error has a longer `retryAfter`; the message stays in memory meanwhile. Default: `exponentialBackoff()`. */
  readonly backoff?: Backoff | undefined
  /** Milliseconds from the first attempt after which no further one begins. A running attempt is not interrupted. Default: 60,000. `Infinity`: no limit. */
  readonly timeout?: number | undefined
  /** Whether this failure is worth another attempt; called only where one is possible. Default: always. See `retryOn()` and `retryExcept()`. */
  readonly shouldRetry?: ((error: unknown, state: RetryState) => boolean) | undefined
  /** Called when attempts or time are exhausted, before the rejection. Errors that it throws are logged. Optional. */
  readonly onExhausted?: ((message: Message, error: RetryExhaustedError) => void | Promise<void>) | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
  /** Default: that of the router. */
  readonly logger?: Logger | undefined
}

export class RetryExhaustedError extends AckordError {
  static {
    this.prototype.name = 'RetryExhaustedError'
  }

  readonly attempts: number
  /** The errors of the attempts, oldest first; the last 100 of them. */
  readonly causes: readonly unknown[]
  readonly reason: 'attempts' | 'timeout'
  /** The `retryAfter` of the last error in milliseconds, if it has one. */
  readonly retryAfter: number | undefined

  constructor(message: Message, state: RetryState, reason: 'attempts' | 'timeout') {
    const { attempt, causes } = state
    const cause = causes.at(-1)
    const limit = reason === 'attempts' ? '' : ', because the time for retries is over'
    const text = `Gave up on ${describeMessage(message)} after ${attempt} attempt${attempt === 1 ? '' : 's'}${limit}.`
    super('ACKORD_RETRY_EXHAUSTED', text, { cause, retryable: isRetryable(cause) })
    this.attempts = attempt
    this.causes = causes
    this.reason = reason
    this.retryAfter = retryAfterOf(cause)
  }
}

/** Enough to see a pattern; without a limit, endless retries would keep every error in memory. */
const keptCauses = 100

const retryStateKey: ContextKey<RetryState> = contextKey('ackord.retryState', { callScoped: true })

/** The state of the innermost retry around this context; its `causes` are those of earlier attempts. */
export function retryState(context: Context): RetryState | undefined {
  return context.get(retryStateKey)
}

/**
 * Repeats the handling of a message that failed. It belongs outside of the transaction, so that each attempt has one of its own. There is no further
 * attempt once the message is settled, the signal is aborted, or the error says that the message is at fault; the rejection is then that of the
 * attempt, or the signal's reason where it is aborted between two attempts.
 */
export function retryMiddleware(options: RetryOptions = {}): Middleware {
  const { attempts = 3, backoff = exponentialBackoff(), timeout = 60_000, shouldRetry = always } = options
  const { onExhausted, runtime = systemRuntime, logger: given } = options
  const { logger, inheritPorts } = new PartPorts({ logger: given })
  checkCount('attempts', attempts, { infinite: true })
  checkFunction('backoff', backoff)
  checkDuration('timeout', timeout, { infinite: true })
  checkFunction('shouldRetry', shouldRetry)
  if (onExhausted !== undefined) checkFunction('onExhausted', onExhausted)

  async function exhausted(message: Message, state: RetryState, reason: 'attempts' | 'timeout'): Promise<Error> {
    const error = new RetryExhaustedError(message, state, reason)
    try {
      await onExhausted?.(message, error)
    } catch (failure) {
      logger.error({ err: failure, ...logFields(message) }, 'onExhausted failed.')
    }
    return error
  }

  return middleware(
    { role: 'retry', inheritPorts },
    (next) =>
      async function retry(message, context) {
        const startedAt = runtime.monotonic()
        let state: RetryState = { attempt: 1, causes: [], startedAt: runtime.now() }
        while (true) {
          const attempt = beginAttempt(context).with(retryStateKey, state)
          let delay: number
          try {
            return await enter(attempt, () => next(message, attempt))
          } catch (error) {
            if (isSettled(message) || context.signal.aborted || !isRetryable(error)) throw error
            state = { ...state, causes: [...state.causes.slice(1 - keptCauses), error] }
            if (!shouldRetry(error, state)) throw error
            if (state.attempt >= attempts) throw await exhausted(message, state, 'attempts')

            delay = Math.max(validDelay(backoff(state.attempt, () => runtime.random())), retryAfterOf(error) ?? 0)
            // Waiting for an attempt that will not happen would only block the message.
            if (runtime.monotonic() - startedAt + delay > timeout) throw await exhausted(message, state, 'timeout')
            const fields = { err: error, ...logFields(message), attempt: state.attempt, retryAfter: delay }
            logger.warn(fields, 'An attempt failed and will be repeated.')
          }
          await sleep(runtime, delay, { signal: context.signal })
          state = { ...state, attempt: state.attempt + 1 }
        }
      },
  )
}

function always(): boolean {
  return true
}

/** A back-off that returns no valid duration must not make the timer fire immediately, or never. */
function validDelay(delay: number): number {
  if (delay >= 0 && delay < Infinity) return delay
  throw new InvalidOptionError('backoff', `must return milliseconds, 0 or more; it returned ${delay}.`)
}

/** A value of an error's `code`, ours or a driver's (`'ECONNRESET'`, `'40001'`), or a class of errors. */
export type ErrorKind = string | (abstract new (...args: never[]) => Error)

/** For `shouldRetry`: only errors of these kinds, or caused by one. */
export function retryOn(...kinds: readonly ErrorKind[]): (error: unknown) => boolean {
  checkKinds('retryOn()', kinds)
  return (error) => isOfKind(error, kinds)
}

/** For `shouldRetry`: all errors except those of these kinds, or caused by one. */
export function retryExcept(...kinds: readonly ErrorKind[]): (error: unknown) => boolean {
  checkKinds('retryExcept()', kinds)
  return (error) => !isOfKind(error, kinds)
}

function isOfKind(error: unknown, kinds: readonly ErrorKind[]): boolean {
  for (const cause of causesOf(error, { aggregated: true })) {
    if (typeof cause !== 'object' || cause === null) continue
    for (const kind of kinds) {
      if (typeof kind === 'string' ? 'code' in cause && cause.code === kind : cause instanceof kind) return true
    }
  }
  return false
}

function checkKinds(caller: string, kinds: readonly ErrorKind[]): void {
  // An empty list could mean "none" or "all".
  if (kinds.length === 0) throw new InvalidOptionError(caller, 'requires at least one error code or error class.')
  if (kinds.every((kind) => typeof kind === 'function' || (typeof kind === 'string' && kind !== ''))) return
  throw new InvalidOptionError(caller, 'accepts only error codes (non-empty strings) and error classes.')
}
