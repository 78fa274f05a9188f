import { isAckordError } from '../errors.ts'
import type { Message } from './message.ts'

/** Whether the same message may succeed later. Only an error with `retryable: false` puts the fault in the message. */
export function isRetryable(error: unknown): boolean {
  return !isAckordError(error) || error.retryable !== false
}

/** For how many milliseconds the error says that a retry is useless: a circuit is open, a broker requested a pause. */
export function retryAfterOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('retryAfter' in error)) return undefined
  return typeof error.retryAfter === 'number' && error.retryAfter >= 0 && error.retryAfter < Infinity ? error.retryAfter : undefined
}

/** Whether the broker has received its answer. A message without acking is never settled. */
export function isSettled(message: Message): boolean {
  return message.state !== undefined && message.state !== 'pending'
}
