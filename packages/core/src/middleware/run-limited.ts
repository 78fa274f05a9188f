import { linkedController } from '../abortable.ts'
import { type Context, type ContextKey, contextKey, enter, withDeadline, withSignal } from '../context.ts'
import type { AckordError, AckordErrorOptions } from '../errors.ts'
import { isRetryable } from '../failures.ts'
import type { Message } from '../message.ts'
import type { Process } from '../process.ts'
import type { Runtime } from '../runtime.ts'

export interface Limit {
  /** Milliseconds since the epoch. */
  readonly deadline: number
  /** Milliseconds, for a limit of the work itself: it can be begun anew after a wait that was on purpose. */
  readonly duration?: number | undefined
  readonly runtime: Runtime
  /** The error that says so. */
  readonly late: (options?: AckordErrorOptions) => AckordError
}

interface RunningLimit {
  readonly outer: RunningLimit | undefined
  suspend(): void
  restart(): void
}

const runningLimitKey: ContextKey<RunningLimit> = contextKey('ackord.runningLimit', { callScoped: true })

/** The time-outs around a message, for middleware that makes messages wait for each other. */
export interface RunningTimeouts {
  suspend(): void
  /** Each begins anew. */
  restart(): void
}

const noTimeouts: RunningTimeouts = { suspend() {}, restart() {} }

export function timeoutsOf(context: Context): RunningTimeouts {
  const innermost = context.get(runningLimitKey)
  if (innermost === undefined) return noTimeouts
  const limits: RunningLimit[] = []
  for (let limit: RunningLimit | undefined = innermost; limit !== undefined; limit = limit.outer) limits.push(limit)
  return {
    suspend() {
      for (const limit of limits) limit.suspend()
    },
    restart() {
      for (const limit of limits) limit.restart()
    },
  }
}

/**
 * Calls `next` with a signal that is aborted at the deadline, and waits until it has really ended: a handler that was
 * left running may still use its transaction's connection. What succeeds after the abort has succeeded.
 */
export async function runLimited(
  next: Process,
  message: Message,
  context: Context,
  { deadline, duration, runtime, late }: Limit,
): Promise<readonly Message[]> {
  using controller = linkedController(context.signal)
  let limited = withDeadline(withSignal(context, controller.signal), deadline)
  let reason: AckordError | undefined
  const onLate = () => {
    reason = late()
    controller.abort(reason)
  }
  let timer = runtime.setTimeout(onLate, deadline - runtime.now())
  if (duration !== undefined) {
    limited = limited.with(runningLimitKey, {
      outer: context.get(runningLimitKey),
      suspend: () => timer.cancel(),
      restart() {
        timer.cancel()
        timer = runtime.setTimeout(onLate, duration)
      },
    })
  }
  try {
    return await enter(limited, () => next(message, limited))
  } catch (error) {
    // Where the parent was aborted first, its reason is the one that counts.
    if (reason === undefined || error === reason || controller.signal.reason !== reason) throw error
    throw late({ cause: error, retryable: isRetryable(error) })
  } finally {
    timer.cancel()
  }
}
