import { AckordError, type Backoff, type PublishFailure, type Runtime, toError } from '@ackord/core'
import { escapeText, messageOf } from '@ackord/core/internal'
import type { ParkReason } from '../options/relay-events.ts'
import type { ClaimedRecord, Outcome } from '../store/outbox-store.ts'

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

/** Text that every store can keep: bounded, on one line, and without secrets or the values that drivers quote. */
function errorText(error: unknown): string {
  // With room for the mark that it was cut.
  return escapeText(messageOf(toError(error)), longestText - 50)
}

/** What has been found out about a claimed record, before the store is told. A record without one goes back as it was. */
export interface Verdict {
  readonly record: ClaimedRecord
  readonly outcome: Outcome
  /** What it failed with, whole; the outcome has its text. */
  readonly error?: unknown
  /** If it is to be parked. */
  readonly reason?: ParkReason | undefined
}

const fallback = 1000
const longest = 24 * 60 * 60 * 1000

/** A delay that any store can add to its clock. Publishers are written by others: one that is no number, or years, must not make every settle of its batch fail. */
export function delayOf(delay: number): number {
  return delay >= 0 ? Math.min(Math.round(delay), longest) : fallback
}

/** The same for a back-off, which may also throw. */
export function backoffDelay(backoff: Backoff, attempt: number, runtime: Runtime): number {
  try {
    return delayOf(backoff(attempt, runtime.random))
  } catch {
    return fallback
  }
}
