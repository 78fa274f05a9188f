import { AckordError, type Backoff, type PublishFailure, type Runtime, toError } from '@ackord/core'
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
  if (failure.permanent === true || attempts >= maxAttempts) return parked(record, failure.error)
  const retryAfter = Math.max(backoffDelay(backoff, attempts, runtime), delayOf(failure.retryAfter ?? 0))
  return { id, token, result: 'failed', error: errorText(failure.error), retryAfter }
}

export function parked({ id, token }: ClaimedRecord, error: unknown): Outcome {
  return { id, token, result: 'parked', error: errorText(error) }
}

/** For a record that has used up its attempts without an outcome: its relays died, or stalled past their lease. It is not sent again. */
export function neverSettled({ attempts }: ClaimedRecord, maxAttempts: number): AckordError | undefined {
  if (attempts <= maxAttempts) return undefined
  const text = `It was claimed ${attempts - 1} times and never settled, so it was not tried again: it may be what ends its relays.`
  return new AckordError('ACKORD_MAX_DELIVERIES', text, { retryable: false })
}

export function exhausted(record: ClaimedRecord, maxAttempts: number): Outcome | undefined {
  const error = neverSettled(record, maxAttempts)
  return error === undefined ? undefined : parked(record, error)
}

/** Text that every store can keep: bounded, without NUL and without half characters. */
function errorText(error: unknown): string {
  return toError(error).message.slice(0, longestText).replaceAll('\0', '\ufffd').toWellFormed()
}
