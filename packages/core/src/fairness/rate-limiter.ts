import { InvalidOptionError } from '../errors.ts'
import { checkCount, checkDuration, checkName } from '../options.ts'

/** A rate, and how many permits of a key a process wants or returns. */
export interface RateRequest {
  /** Whose rate it is: the tenant. */
  readonly key: string
  /** The number of permits that are added per `interval`. */
  readonly limit: number
  /** Milliseconds. */
  readonly interval: number
  /** The maximum number of permits that a key collects while it uses none. */
  readonly burst: number
  /** The maximum number of permits to grant; with 0 the request only returns some. */
  readonly wanted: number
  /** Permits that were granted before and not used. */
  readonly returned: number
}

export interface RateGrant {
  /** At most `wanted`. */
  readonly granted: number
  /** Milliseconds until there is another permit; 0 if all that were wanted were granted. */
  readonly retryAfter: number
}

/**
 * Counts the permits of rates, for one process or for all that share a store. A process takes some permits in advance, so that one call serves many messages.
 *
 * - Every key has a bucket of its own. A new bucket has `burst` permits. It gains `limit` permits per `interval`, evenly over time, by the clock of the store, and never has
 *   more than `burst`.
 * - `take` puts back the returned permits, and then grants as many as are wanted and there: whole ones, and none in advance.
 * - So in any period at most `burst` permits, those that the period adds and those that were returned in it are granted, over all processes. Calls for a key are atomic.
 * - Grants are in the order of the requests. The keys of a call are unique.
 * - The rate of a key may change from one call to the next. The latest one applies.
 * - A bucket that is full may be forgotten. A limiter that keeps its buckets elsewhere must remove those that are not used.
 * - The clock of the store may be set back: a bucket then has no fewer permits than an empty one.
 * - Permits whose answer is lost are not granted again before they are added anew.
 */
export interface RateLimiter {
  /** Rejects if the store fails. When the signal is aborted, the caller no longer waits for the answer. */
  take(requests: readonly RateRequest[], options: { readonly signal: AbortSignal }): Promise<readonly RateGrant[]>
}

/** The highest rate per second: beyond it the clocks of the stores are too coarse. */
const maxPerSecond = 100_000

/** Validates a rate. `option` names it in the error. */
export function checkRate(option: string, { limit, interval, burst }: Pick<RateRequest, 'limit' | 'interval' | 'burst'>): void {
  checkCount(`${option}.limit`, limit)
  checkDuration(`${option}.interval`, interval, { min: 1 })
  checkCount(`${option}.burst`, burst)
  if ((limit * 1000) / interval > maxPerSecond) {
    throw new InvalidOptionError(option, `must be at most ${maxPerSecond} per second; it is ${(limit * 1000) / interval}.`)
  }
}

/** @internal For limiters: validates the requests of a call. */
export function checkRateRequests(requests: readonly RateRequest[]): void {
  const keys = new Set<string>()
  for (const request of requests) {
    const { key, wanted, returned } = request
    checkName('key', key)
    if (keys.has(key)) throw new InvalidOptionError('key', `must be unique in a call; ${JSON.stringify(key)} is there twice.`)
    keys.add(key)
    checkRate('rate', request)
    checkCount('wanted', wanted, { min: 0 })
    checkCount('returned', returned, { min: 0 })
  }
}
