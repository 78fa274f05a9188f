import { AckordError, type Backoff, type PublishFailure, type Runtime, toError } from '@ackord/core'
import { escapeText, messageOf } from '@ackord/core/internal'
import type { ParkReason } from '../options/relay-events.ts'
import type { ClaimedRecord, Outcome } from '../store/outbox-store.ts'

export interface OutcomeOptions {
  readonly maxAttempts: number
  readonly backoff: Backoff
  readonly runtime: Runtime
}

const maxTextLength = 2000

export function published({ id, token }: ClaimedRecord): Outcome {
  return { id, token, result: 'published' }
}

/** The verdict on a failure of the record itself. */
export function failed(record: ClaimedRecord, failure: Omit<PublishFailure, 'ok'>, options: OutcomeOptions): Outcome {
  const { id, token, attempts } = record
  const { maxAttempts, backoff, runtime } = options
  if (failure.permanent === true || attempts >= maxAttempts) return parked(record, failure.error)
  const retryAfter = Math.max(backoffDelay(backoff, attempts, runtime), delayOf(failure.retryAfter ?? 0))
  return { id, token, result: 'failed', error: errorText(failure.error), cause: causeOf(failure.error), retryAfter }
}

export function parked({ id, token }: ClaimedRecord, error: unknown): Outcome {
  return { id, token, result: 'parked', error: errorText(error), cause: causeOf(error) }
}

/** For a record that has used up its attempts without an outcome: its relays crashed, or stalled past their lease. It is not sent again. */
export function neverSettled({ attempts }: ClaimedRecord, maxAttempts: number): AckordError | undefined {
  if (attempts <= maxAttempts) return undefined
  const text = `The record was claimed ${attempts - 1} times and never settled, so it was not tried again: it may be what crashes its relays.`
  return new AckordError('ACKORD_MAX_DELIVERIES', text, { retryable: false })
}

export function exhausted(record: ClaimedRecord, maxAttempts: number): Outcome | undefined {
  const error = neverSettled(record, maxAttempts)
  return error === undefined ? undefined : parked(record, error)
}

/** An error text that every store can keep: limited in length, on one line, and without secrets or the values that drivers quote. */
function errorText(error: unknown): string {
  // Leaves room for the truncation mark.
  return escapeText(messageOf(toError(error)), maxTextLength - 50)
}

const maxCauseLength = 200

/** The cause that many failures have in common: the error code, and the text without what differs from record to record. */
export function causeOf(thrown: unknown): string {
  const error = toError(thrown)
  const { code } = error as { readonly code?: unknown }
  const text = masks.reduce((masked, [pattern, mask]) => masked.replace(pattern, mask), errorText(error))
  const known = typeof code === 'string' && code !== '' && !text.includes(code)
  return (known ? `${code}: ${text}` : text).slice(0, maxCauseLength)
}

const masks: readonly (readonly [RegExp, string])[] = [
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '…'],
  [/'[^']*'|"[^"]*"|`[^`]*`/g, "'…'"],
  // Ids of letters and digits, such as ULIDs and hashes.
  [/\b(?=\w*\d)(?=\w*[a-z])\w{12,}\b/gi, '…'],
  [/\d+/g, 'N'],
]

/** The result for a claimed record, before it is settled in the store. A record without one is released. */
export interface Verdict {
  readonly record: ClaimedRecord
  readonly outcome: Outcome
  /** The original failure; the outcome only has its text. */
  readonly error?: unknown
  /** Set if the record is to be parked. */
  readonly reason?: ParkReason | undefined
}

const fallback = 1000
const maxDelay = 24 * 60 * 60 * 1000

/**
 * A delay that any store can add to its clock. Publishers are third-party code: a delay that is not a number, or is years long, must not make every
 * settle of its batch fail.
 */
export function delayOf(delay: number): number {
  return delay >= 0 ? Math.min(Math.round(delay), maxDelay) : fallback
}

/** The same for a back-off function, which may also throw. */
export function backoffDelay(backoff: Backoff, attempt: number, runtime: Runtime): number {
  try {
    return delayOf(backoff(attempt, runtime.random))
  } catch {
    return fallback
  }
}
