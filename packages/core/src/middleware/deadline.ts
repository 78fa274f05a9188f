import { AckordError, type AckordErrorOptions } from '../errors.ts'
import { describeMessage } from '../message/marshal.ts'
import type { Message } from '../message/message.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import type { Middleware } from './middleware.ts'
import { runLimited } from './timeout.ts'

export interface DeadlineOptions {
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/**
 * Enforces the earlier of the message's `expirytime` and the context's deadline: a message that is too late is not handled, and for one that takes
 * too long the signal is aborted and its end awaited. An expired message is at fault itself and not worth a retry; one that met an earlier deadline
 * has timed out.
 */
export function deadlineMiddleware(options: DeadlineOptions = {}): Middleware {
  const { runtime = systemRuntime } = options

  return (next) =>
    async function deadline(message, context) {
      const expiry = message.expiryTime?.getTime() ?? Infinity
      const limit = Math.min(expiry, context.deadline ?? Infinity)
      if (limit === Infinity) return await next(message, context)

      const remaining = timeUntil(limit, runtime)
      if (timeUntil(expiry, runtime) <= 0) throw expired(message)
      const late = (more?: AckordErrorOptions) => (limit === expiry ? expired(message, more) : tooLate(message, more))
      if (remaining <= 0) throw late()
      return await runLimited((limited) => next(message, limited), context, { deadline: limit, remaining, runtime, late })
    }
}

/** Milliseconds from now to an instant of the wall clock. */
function timeUntil(instant: number, runtime: Runtime): number {
  // biome-ignore lint/plugin: the sender set `expirytime` by the wall clock, and the context's deadline is an instant as well.
  return instant - runtime.now()
}

function expired(message: Message, options?: AckordErrorOptions): AckordError {
  const text = `The expiry time of ${describeMessage(message)} has passed.`
  return new AckordError('ACKORD_MESSAGE_EXPIRED', text, { ...options, retryable: false })
}

function tooLate(message: Message, options?: AckordErrorOptions): AckordError {
  const text = `The deadline for handling ${describeMessage(message)} has passed; the message itself has not expired.`
  return new AckordError('ACKORD_PROCESS_TIMEOUT', text, options)
}
