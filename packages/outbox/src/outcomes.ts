import { type Backoff, type PublishFailure, type Runtime, toError } from '@ackord/core'
import { backoffDelay, delayOf } from './delay.ts'
import type { ClaimedRecord, Outcome } from './outbox-store.ts'

export interface OutcomeOptions {
  readonly maxAttempts: number
  readonly backoff: Backoff
  readonly runtime: Runtime
}

const longestText = 2000

export function published({ id, token }: ClaimedRecord): Outcome {
  return { id, token, result: 'published' }
}

/** What a failure of the record itself leads to. */
export function failed(record: ClaimedRecord, failure: Omit<PublishFailure, 'ok'>, options: OutcomeOptions): Outcome {
  const { id, token, attempts } = record
  const { maxAttempts, backoff, runtime } = options
  const error = errorText(failure.error)
  if (failure.permanent === true || attempts >= maxAttempts) return { id, token, result: 'parked', error }
  const retryAfter = Math.max(backoffDelay(backoff, attempts, runtime), delayOf(failure.retryAfter ?? 0))
  return { id, token, result: 'failed', error, retryAfter }
}

/** For a record that has used up its attempts without an outcome: its relays died, or stalled past their lease. It is not sent again. */
export function exhausted({ id, token, attempts }: ClaimedRecord, maxAttempts: number): Outcome | undefined {
  if (attempts <= maxAttempts) return undefined
  const error = `It was claimed ${attempts - 1} times and never settled, so it was not tried again: it may be what ends its relays.`
  return { id, token, result: 'parked', error }
}

/** Text that every store can keep: bounded, without NUL and without half characters. */
function errorText(error: unknown): string {
  return toError(error)
    .message.slice(0, longestText)
    .replaceAll('\0', '\ufffd')
    .replaceAll(/\p{Surrogate}/gu, '\ufffd')
}
