import { linkedController } from '../abortable.ts'
import { type Context, enter, withDeadline, withSignal } from '../context.ts'
import type { AckordError, AckordErrorOptions } from '../errors.ts'
import { isRetryable } from '../failures.ts'
import type { Message } from '../message.ts'
import type { Process } from '../process.ts'
import type { Runtime } from '../runtime.ts'

export interface Limit {
  /** Milliseconds since the epoch. */
  readonly deadline: number
  readonly runtime: Runtime
  /** The error that says so. */
  readonly late: (options?: AckordErrorOptions) => AckordError
}

/**
 * Calls `next` with a signal that is aborted at the deadline, and waits until it has really ended: a handler that was
 * left running may still use its transaction's connection. What succeeds after the abort has succeeded.
 */
export async function runLimited(
  next: Process,
  message: Message,
  context: Context,
  { deadline, runtime, late }: Limit,
): Promise<readonly Message[]> {
  using controller = linkedController(context.signal)
  const limited = withDeadline(withSignal(context, controller.signal), deadline)
  let reason: AckordError | undefined
  const timer = runtime.setTimeout(() => {
    reason = late()
    controller.abort(reason)
  }, deadline - runtime.now())
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
