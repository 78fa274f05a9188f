import { InvalidOptionError } from '../errors.ts'
import type { Message } from '../message/message.ts'
import { checkChoice, checkCount, checkDuration, checkFunction, rejectUnknownOptions } from '../options.ts'
import type { Runtime } from '../ports/runtime.ts'
import { memoryRateLimiter } from './memory-rate-limiter.ts'
import { checkRate, type RateLimiter } from './rate-limiter.ts'

/** A number of messages per second, or per `interval` in milliseconds. */
export type Rate =
  | number
  | {
      readonly limit: number
      /** Milliseconds. */
      readonly interval: number
      /** How many messages of a tenant that was idle may begin at once. Default: `limit`. */
      readonly burst?: number | undefined
    }

export interface FairnessOptions {
  /** The tenant of a message. Messages without a tenant share the slots like those of one more tenant, and have no limits. */
  readonly by: (message: Message) => string | undefined
  /** The maximum number of messages of one tenant that are handled concurrently in this router, or a function of the tenant. Default: no limit. */
  readonly concurrency?: number | ((tenant: string) => number | undefined) | undefined
  /**
   * The maximum rate at which the messages of one tenant begin to be handled, or a function of the tenant. In any period these are at most `burst` and those
   * that the rate allows in the period and one second more. Default: no limit.
   */
  readonly rate?: Rate | ((tenant: string) => Rate | undefined) | undefined
  /**
   * Counts the rates: `sqlRateLimiter(database)` or `redisRateLimiter(redis)` for all processes together. Default: a limiter of this router, so that each process has
   * the whole rate.
   */
  readonly limiter?: RateLimiter | undefined
  /** The time limit of a call of the limiter, in milliseconds. Default: 1000. */
  readonly limiterTimeout?: number | undefined
  /**
   * While the limiter fails. `open`: this router applies the rates by itself, so that each process has the whole rate. `closed`: messages with a rate wait.
   * Default: 'open', with a warning.
   */
  readonly onLimiterFailure?: 'open' | 'closed' | undefined
  /** The maximum number of messages that wait in the router because of the limits of their tenants; see `excess`. Default: a quarter of the router's `buffer`. */
  readonly maxWaiting?: number | undefined
  /**
   * What happens to messages beyond `maxWaiting`, if the wait would take longer than a second. `return`: they are nacked with a delay, until about their turn, so that the router reads
   * the messages of other tenants behind them. `wait`: they stay, and when they fill the `buffer`, the router reads no more. Default: 'return'; with
   * `orderingKey` 'wait', because most brokers deliver a nacked message behind later ones of its key.
   */
  readonly excess?: 'return' | 'wait' | undefined
  /**
   * A message that was delivered more often than this is not returned any more, because every return may count as a delivery at the broker. Default: 3, and at most
   * half of `maxDeliveries`.
   */
  readonly maxReturns?: number | undefined
}

/** A rate with its defaults applied. */
export interface RateSettings {
  readonly limit: number
  readonly interval: number
  readonly burst: number
}

export interface TenantLimits {
  readonly concurrency: number
  readonly rate: RateSettings | undefined
}

export interface FairnessSettings {
  readonly by: (message: Message) => string | undefined
  /** Throws if a function of the user does, or returns something invalid. */
  readonly limitsOf: (tenant: string | undefined) => TenantLimits
  readonly limiter: RateLimiter
  readonly limiterTimeout: number
  readonly onLimiterFailure: 'open' | 'closed'
  readonly maxWaiting: number
  readonly excess: 'return' | 'wait'
  readonly maxReturns: number
}

interface RouterPart {
  readonly buffer: number
  readonly maxDeliveries: number
  readonly isOrdered: boolean
  readonly runtime: Runtime
}

/** Applies the defaults and rejects invalid options. */
export function fairnessSettings(options: FairnessOptions, { buffer, maxDeliveries, isOrdered, runtime }: RouterPart): FairnessSettings {
  if (typeof options !== 'object' || options === null) {
    throw new InvalidOptionError('fairness', 'must be an object such as { by: (message) => message.subject }.')
  }
  const {
    by,
    concurrency,
    rate,
    limiter,
    limiterTimeout = 1000,
    onLimiterFailure = 'open',
    maxWaiting = Math.max(1, Math.floor(buffer / 4)),
    excess = isOrdered ? 'wait' : 'return',
    maxReturns = Math.min(3, Math.max(1, Math.floor(maxDeliveries / 2))),
    ...unknown
  } = options
  rejectUnknownOptions('fairness', unknown)
  checkFunction('fairness.by', by)
  if (buffer === 0)
    throw new InvalidOptionError('buffer', 'must be 1 or more with fairness: the messages that wait for their turn need room.')
  if (typeof concurrency === 'number') checkConcurrency(concurrency)
  else if (concurrency !== undefined) checkFunction('fairness.concurrency', concurrency)
  if (rate !== undefined && typeof rate !== 'function') rateSettings(rate)
  if (limiter !== undefined) {
    if (rate === undefined) throw new InvalidOptionError('fairness.limiter', 'has no effect without fairness.rate.')
    checkFunction('fairness.limiter.take', limiter?.take)
  }
  checkCount('fairness.maxWaiting', maxWaiting)
  if (maxWaiting > buffer)
    throw new InvalidOptionError('fairness.maxWaiting', `must be at most the router's buffer, ${buffer}; it is ${maxWaiting}.`)
  const fixed: TenantLimits = {
    concurrency: typeof concurrency === 'number' ? concurrency : Infinity,
    rate: rate === undefined || typeof rate === 'function' ? undefined : rateSettings(rate),
  }
  const depends = typeof concurrency === 'function' || typeof rate === 'function'
  return {
    by,
    limitsOf(tenant) {
      if (tenant === undefined) return unlimited
      if (!depends) return fixed
      const ownRate = typeof rate === 'function' ? rate(tenant) : undefined
      const ownConcurrency = typeof concurrency === 'function' ? concurrency(tenant) : undefined
      return {
        concurrency: ownConcurrency === undefined ? fixed.concurrency : checkConcurrency(ownConcurrency),
        rate: ownRate === undefined ? fixed.rate : rateSettings(ownRate),
      }
    },
    limiter: limiter ?? memoryRateLimiter({ runtime }),
    limiterTimeout: checkDuration('fairness.limiterTimeout', limiterTimeout, { min: 1 }),
    onLimiterFailure: checkChoice('fairness.onLimiterFailure', onLimiterFailure, ['open', 'closed']),
    maxWaiting,
    excess: checkChoice('fairness.excess', excess, ['return', 'wait']),
    maxReturns: checkCount('fairness.maxReturns', maxReturns, { infinite: true }),
  }
}

const unlimited: TenantLimits = { concurrency: Infinity, rate: undefined }

function checkConcurrency(concurrency: number): number {
  return checkCount('fairness.concurrency', concurrency, { infinite: true })
}

function rateSettings(rate: Rate): RateSettings {
  if (typeof rate === 'number') {
    const settings = { limit: rate, interval: 1000, burst: rate }
    checkRate('fairness.rate', settings)
    return settings
  }
  if (typeof rate !== 'object' || rate === null) {
    throw new InvalidOptionError('fairness.rate', 'must be a number of messages per second, or { limit, interval }.')
  }
  const { limit, interval, burst = limit, ...unknown } = rate
  rejectUnknownOptions('fairness.rate', unknown)
  checkRate('fairness.rate', { limit, interval, burst })
  return { limit, interval, burst }
}
