import { rejectUnknownOptions } from '../options.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import { checkRateRequests, type RateGrant, type RateLimiter, type RateRequest } from './rate-limiter.ts'

export interface MemoryRateLimiterOptions {
  readonly runtime?: Runtime | undefined
}

/** Full buckets are removed when this many more were added. */
const sweepEvery = 1000

/** Clocks are inexact: a permit counts when it lacks less than this fraction. The bucket still owes the fraction. */
const tolerance = 0.001

/**
 * Counts the permits of rates in this process. The default of `fairness`; several routers that are to share the rates of their tenants are given the same one.
 *
 *     const limiter = memoryRateLimiter()
 *     new Router({ fairness: { by: ({ subject }) => subject, rate: 100, limiter } })
 */
export function memoryRateLimiter(options: MemoryRateLimiterOptions = {}): RateLimiter {
  const { runtime = systemRuntime, ...unknown } = options
  rejectUnknownOptions('memoryRateLimiter()', unknown)
  /** When the bucket of each key is full again. A bucket that is full need not be here. */
  const fullAt = new Map<string, number>()
  let sweepAt = sweepEvery

  function takeOne({ key, limit, interval, burst, wanted, returned }: RateRequest, now: number): RateGrant {
    const cost = interval / limit
    const capacity = burst * cost
    const before = Math.max(now, Math.min(fullAt.get(key) ?? now, now + capacity) - returned * cost)
    const available = Math.floor((capacity - (before - now)) / cost + tolerance)
    const granted = Math.min(wanted, Math.max(0, available))
    const after = before + granted * cost
    if (after > now) fullAt.set(key, after)
    else fullAt.delete(key)
    return { granted, retryAfter: granted === wanted ? 0 : Math.max(1, Math.ceil(after - now + cost - capacity)) }
  }

  function removeFull(now: number): void {
    if (fullAt.size < sweepAt) return
    for (const [key, at] of fullAt) if (at <= now) fullAt.delete(key)
    sweepAt = fullAt.size + sweepEvery
  }

  return {
    async take(requests) {
      checkRateRequests(requests)
      const now = runtime.monotonic()
      removeFull(now)
      return requests.map((request) => takeOne(request, now))
    },
  }
}
