import { isAckordError } from '../errors.ts'
import type { Message } from './message.ts'

/** Whether the same message may succeed later. Only an error that says otherwise puts the fault in the message. */
export function isRetryable(error: unknown): boolean {
  return !isAckordError(error) || error.retryable !== false
}

/** How long an error says that trying again is of no use, in milliseconds: a circuit is open, a broker asked for a pause. */
export function retryAfterOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('retryAfter' in error)) return undefined
  return typeof error.retryAfter === 'number' && error.retryAfter >= 0 && error.retryAfter < Infinity ? error.retryAfter : undefined
}

/** Whether the broker has been given its answer. A message that nobody waits for never is settled. */
export function isSettled(message: Message): boolean {
  return message.state !== undefined && message.state !== 'pending'
}
