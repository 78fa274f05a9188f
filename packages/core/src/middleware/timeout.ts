import { AckordError, type AckordErrorOptions } from '../errors.ts'
import type { Message } from '../message.ts'
import { checkDuration } from '../options.ts'
import type { Middleware } from '../process.ts'
import { type Runtime, systemRuntime } from '../runtime.ts'
import { nameOf } from '../stages.ts'
import { runLimited } from './run-limited.ts'

export interface TimeoutOptions {
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/**
 * Aborts the signal after `duration` milliseconds and waits for the handler to end; one that ignores the signal is waited for.
 * A failure after the abort is reported as a time-out, with the failure as its cause; a success stays one.
 */
export function timeoutMiddleware(duration: number, options: TimeoutOptions = {}): Middleware {
  const { runtime = systemRuntime } = options
  checkDuration('duration', duration, { min: 1 })

  return (next) =>
    async function timeout(message, context) {
      const deadline = runtime.now() + duration
      const late = (more?: AckordErrorOptions) => timedOut(message, duration, more)
      return await runLimited(next, message, context, { deadline, duration, runtime, late })
    }
}

function timedOut(message: Message, duration: number, options?: AckordErrorOptions): AckordError {
  return new AckordError('ACKORD_PROCESS_TIMEOUT', `Handling ${nameOf(message)} took longer than ${duration} ms.`, options)
}
