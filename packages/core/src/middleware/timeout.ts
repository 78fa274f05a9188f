import { linkedController } from '../async/abort.ts'
import { AckordError, type AckordErrorOptions } from '../errors.ts'
import { type Context, type ContextKey, contextKey, enter, withDeadline, withSignal } from '../message/context.ts'
import { describeMessage } from '../message/marshal.ts'
import { isRetryable, type Message } from '../message/message.ts'
import { checkDuration } from '../options.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import type { Middleware } from './middleware.ts'

export interface TimeoutOptions {
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/**
 * Aborts the signal after `duration` milliseconds and waits for the handler to end, even if it ignores the signal. A failure after the abort is
 * reported as a time-out, with the failure as its cause; a success remains one.
 */
export function timeoutMiddleware(duration: number, options: TimeoutOptions = {}): Middleware {
  const { runtime = systemRuntime } = options
  checkDuration('duration', duration, { min: 1 })

  return (next) =>
    async function timeout(message, context) {
      // biome-ignore lint/plugin: handlers see the deadline as an instant; the time-out itself is measured by its duration.
      const deadline = runtime.now() + duration
      const late = (more?: AckordErrorOptions) => timedOut(message, duration, more)
      return await runLimited((limited) => next(message, limited), context, { deadline, remaining: duration, duration, runtime, late })
    }
}

function timedOut(message: Message, duration: number, options?: AckordErrorOptions): AckordError {
  return new AckordError('ACKORD_PROCESS_TIMEOUT', `Handling ${describeMessage(message)} took longer than ${duration} ms.`, options)
}

export interface Limit {
  /** Milliseconds since the epoch: the instant that handlers see as the context's deadline. */
  readonly deadline: number
  /** Milliseconds until the deadline, so that a change of the wall clock meanwhile makes no difference. */
  readonly remaining: number
  /** Milliseconds, for a limit of the work itself: it can be restarted after a deliberate wait. */
  readonly duration?: number | undefined
  readonly runtime: Runtime
  /** Creates the time-out error. */
  readonly late: (options?: AckordErrorOptions) => AckordError
}

interface RunningLimit {
  readonly outer: RunningLimit | undefined
  readonly duration: number
  suspend(): void
  restart(): void
}

const runningLimitKey: ContextKey<RunningLimit> = contextKey('ackord.runningLimit', { callScoped: true })

/** The time-outs around a message, for middleware that makes messages wait for each other. */
export interface RunningTimeouts {
  /** Milliseconds: the shortest of them. Infinity if there are none. */
  readonly duration: number
  suspend(): void
  /** Restarts each of them. */
  restart(): void
}

const noTimeouts: RunningTimeouts = { duration: Infinity, suspend() {}, restart() {} }

export function timeoutsOf(context: Context): RunningTimeouts {
  const innermost = context.get(runningLimitKey)
  if (innermost === undefined) return noTimeouts
  const limits: RunningLimit[] = []
  for (let limit: RunningLimit | undefined = innermost; limit !== undefined; limit = limit.outer) limits.push(limit)
  return {
    duration: Math.min(...limits.map(({ duration }) => duration)),
    suspend() {
      for (const limit of limits) limit.suspend()
    },
    restart() {
      for (const limit of limits) limit.restart()
    },
  }
}

/**
 * Does the work with a signal that is aborted at the deadline, and waits until it has really ended: a handler that was left running may still use its
 * transaction's connection. A success after the abort remains a success.
 */
export async function runLimited<R>(
  work: (limited: Context) => Promise<R>,
  context: Context,
  { deadline, remaining, duration, runtime, late }: Limit,
): Promise<R> {
  using controller = linkedController(context.signal)
  let limited = withDeadline(withSignal(context, controller.signal), deadline)
  let reason: AckordError | undefined
  const onLate = () => {
    reason = late()
    controller.abort(reason)
  }
  let timer = runtime.setTimeout(onLate, remaining)
  if (duration !== undefined) {
    limited = limited.with(runningLimitKey, {
      outer: context.get(runningLimitKey),
      duration,
      suspend: () => timer.cancel(),
      restart() {
        timer.cancel()
        timer = runtime.setTimeout(onLate, duration)
      },
    })
  }
  try {
    return await enter(limited, () => work(limited))
  } catch (error) {
    // If the parent was aborted first, its reason applies.
    if (reason === undefined || error === reason || controller.signal.reason !== reason) throw error
    throw late({ cause: error, retryable: isRetryable(error) })
  } finally {
    timer.cancel()
  }
}
