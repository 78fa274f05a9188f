import { abortable, withTimeLimit } from '../async/abort.ts'
import { exponentialBackoff } from '../async/backoff.ts'
import { AckordError } from '../errors.ts'
import type { DescribedMetrics } from '../ports/metric-table.ts'
import type { Logger } from '../ports/observability.ts'
import { probe } from '../ports/probe.ts'
import type { Runtime, Timer } from '../ports/runtime.ts'
import type { FairnessSettings, RateSettings } from './fairness-options.ts'
import { memoryRateLimiter } from './memory-rate-limiter.ts'
import type { RateGrant, RateLimiter, RateRequest } from './rate-limiter.ts'

/** Milliseconds for which a granted permit may be used. Then it is returned: another process may need it. */
const leaseTime = 1000
/** The maximum number of permits of a lease. */
const maxLease = 1000
/** Milliseconds of a rate that a call serves at least while a tenant waits for it, so that there is no call per message. */
const servedPerCall = 100
/** Tenants that wait ask again at multiples of this many milliseconds, so that they share calls. */
const grid = 20

const failureDelays = exponentialBackoff({ initial: 250, max: 10_000 })

/** The permits of a tenant in this process. */
export class PermitLease {
  readonly key: string
  /** Granted and not used. */
  permits = 0
  /** Until when they may be used. */
  until = 0
  /** Permits that the limiter gets back with the next call. */
  unused = 0
  /** The number of permits that the last lease had: it doubles while leases are used up in time, and is halved when one is not. */
  size = 1
  /** Not before then is the limiter asked again. */
  retryAt = 0

  constructor(key: string) {
    this.key = key
  }
}

export interface PermitOwner {
  readonly lease: PermitLease
  readonly rate: RateSettings | undefined
  /** The number of messages that wait for permits. */
  readonly waiting: number
}

export interface PermitsOptions extends Pick<FairnessSettings, 'limiter' | 'limiterTimeout' | 'onLimiterFailure'> {
  /** The maximum number of messages that begin at once. */
  readonly concurrency: number
  /** Called with owners that `take()` refused, and which have permits now or no rate any more. */
  readonly onGranted: (owners: readonly PermitOwner[]) => void
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: DescribedMetrics | undefined
}

/**
 * Takes permits from a limiter in small leases, and spends them one by one. At most one call of the limiter is under way; tenants that need permits meanwhile share the
 * next one. Permits that are not used within a second are returned.
 *
 *     none ─ take() is refused ─▶ wanting ─ granted ─▶ leased ─ used up ─▶ none
 *                                  ▲   └ none granted: asks again later   └ a second has passed ─▶ none, the rest is returned
 */
export class Permits {
  readonly #options: PermitsOptions
  readonly #stopped = new AbortController()
  readonly #wanting = new Set<PermitOwner>()
  /** Owners that have permits, or permits to return. */
  readonly #leased = new Set<PermitOwner>()
  #calling = false
  #timer: Timer | undefined
  #timerAt = Infinity
  /** Consecutive failures of the limiter. */
  #failures = 0
  #failedUntil = -Infinity
  /** In place of the limiter while it fails. */
  #ownLimiter: RateLimiter | undefined

  constructor(options: PermitsOptions) {
    this.#options = options
  }

  /** Whether a message may begin now. If not, permits are asked for, and the owner is reported to `onGranted`. */
  take(owner: PermitOwner): boolean {
    const { lease, rate } = owner
    if (rate === undefined) return true
    if (lease.permits > 0) {
      if (this.#options.runtime.monotonic() < lease.until) {
        lease.permits -= 1
        if (lease.permits === 0) lease.size = Math.min(maxLease, lease.size * 2)
        return true
      }
      this.#expire(lease)
    }
    if (!this.#wanting.has(owner)) {
      this.#wanting.add(owner)
      // In a later turn, so that all tenants that need permits now share the call.
      void Promise.resolve().then(() => this.#run())
    }
    return false
  }

  /** Whether the owner can be forgotten: it has no permits and wants none. */
  isIdle(owner: PermitOwner): boolean {
    return !this.#wanting.has(owner) && !this.#leased.has(owner)
  }

  /** Idempotent. Permits that are not used are lost; calls under way are no longer waited for. */
  stop(): void {
    this.#stopped.abort(new AckordError('ACKORD_SHUTDOWN', 'The router was stopped.'))
    this.#timer?.cancel()
    this.#timer = undefined
    this.#wanting.clear()
    this.#leased.clear()
  }

  #expire(lease: PermitLease): void {
    lease.unused += lease.permits
    lease.permits = 0
    lease.size = Math.max(1, Math.floor(lease.size / 2))
  }

  /** Calls the limiter until nothing is due, and then sets the timer. */
  async #run(): Promise<void> {
    if (this.#calling) return
    this.#calling = true
    try {
      for (let due = this.#due(); due.length > 0 && !this.#stopped.signal.aborted; due = this.#due()) await this.#ask(due)
    } finally {
      this.#calling = false
    }
    this.#schedule()
  }

  /** The owners with which the limiter is to be called now. */
  #due(): readonly PermitOwner[] {
    const now = this.#options.runtime.monotonic()
    for (const owner of this.#leased) {
      const { lease } = owner
      if (lease.permits > 0 && now >= lease.until) this.#expire(lease)
      if (lease.permits === 0 && lease.unused === 0) this.#leased.delete(owner)
    }
    this.#dropUnwanted()
    const due = new Set([...this.#wanting].filter(({ lease }) => lease.retryAt <= now))
    for (const owner of this.#leased) if (owner.lease.unused > 0 && owner.rate !== undefined) due.add(owner)
    return [...due]
  }

  /** Owners whose messages were nacked want no permits; those that have no rate any more need none. */
  #dropUnwanted(): void {
    const free: PermitOwner[] = []
    for (const owner of this.#wanting) {
      if (owner.waiting > 0 && owner.rate !== undefined) continue
      this.#wanting.delete(owner)
      if (owner.waiting > 0) free.push(owner)
    }
    for (const owner of this.#leased) if (owner.rate === undefined) this.#leased.delete(owner)
    if (free.length > 0) this.#options.onGranted(free)
  }

  #schedule(): void {
    if (this.#stopped.signal.aborted || this.#calling) return
    let at = Infinity
    for (const { lease } of this.#wanting) at = Math.min(at, lease.retryAt)
    for (const { lease } of this.#leased) at = Math.min(at, lease.permits > 0 ? lease.until : Infinity)
    if (at === this.#timerAt && this.#timer !== undefined) return
    this.#timer?.cancel()
    this.#timer = undefined
    this.#timerAt = at
    if (at === Infinity) return
    const { runtime } = this.#options
    this.#timer = runtime.setTimeout(
      () => {
        this.#timer = undefined
        void this.#run()
      },
      Math.max(0, at - runtime.monotonic()),
    )
  }

  async #ask(owners: readonly PermitOwner[]): Promise<void> {
    const { runtime, onLimiterFailure } = this.#options
    const isDown = this.#failures > 0
    if (isDown && runtime.monotonic() >= this.#failedUntil) void this.#tryAgain(owners)
    if (isDown && onLimiterFailure === 'closed') {
      this.#postpone(owners)
      return
    }
    const requests = owners.map((owner) => this.#requestOf(owner))
    if (isDown) {
      this.#accept(owners, requests, await this.#own().take(requests, { signal: this.#stopped.signal }))
      return
    }
    let grants: readonly RateGrant[]
    try {
      grants = await this.#call(requests)
    } catch (error) {
      if (!this.#stopped.signal.aborted) this.#fail(error)
      return
    }
    this.#accept(owners, requests, grants)
  }

  /** Asks the failed limiter for nothing, beside the work: a call that is not answered must not delay messages. */
  async #tryAgain(owners: readonly PermitOwner[]): Promise<void> {
    const { runtime, limiterTimeout, logger } = this.#options
    this.#failedUntil = runtime.monotonic() + limiterTimeout
    const [owner] = owners
    if (owner?.rate === undefined) return
    try {
      await this.#call([{ key: owner.lease.key, ...owner.rate, wanted: 0, returned: 0 }])
    } catch (error) {
      if (!this.#stopped.signal.aborted) this.#fail(error)
      return
    }
    if (this.#stopped.signal.aborted) return
    this.#failures = 0
    logger.info({}, 'The rate limiter works again.')
    for (const { lease } of this.#wanting) lease.retryAt = 0
    void this.#run()
  }

  #own(): RateLimiter {
    this.#ownLimiter ??= memoryRateLimiter({ runtime: this.#options.runtime })
    return this.#ownLimiter
  }

  async #call(requests: readonly RateRequest[]): Promise<readonly RateGrant[]> {
    const { runtime, limiter, limiterTimeout } = this.#options
    const late = () => new AckordError('ACKORD_LIMITER_FAILED', `The rate limiter did not answer within ${limiterTimeout} ms.`)
    const work = async (signal: AbortSignal) => await abortable(limiter.take(requests, { signal }), this.#stopped.signal)
    const grants = await withTimeLimit(runtime, limiterTimeout, late, work)
    checkGrants(requests, grants)
    await probe('rates.taken')
    return grants
  }

  #requestOf(owner: PermitOwner): RateRequest {
    const { lease, waiting } = owner
    // Present: owners without a rate are not due.
    const rate = owner.rate as RateSettings
    const soon = Math.max(lease.size, Math.min(waiting, this.#options.concurrency))
    const wanted = this.#wanting.has(owner) ? Math.min(soon, rate.burst, maxLease) : 0
    const returned = lease.unused
    lease.unused = 0
    return { key: lease.key, limit: rate.limit, interval: rate.interval, burst: rate.burst, wanted, returned }
  }

  #accept(owners: readonly PermitOwner[], requests: readonly RateRequest[], grants: readonly RateGrant[]): void {
    if (this.#stopped.signal.aborted) return
    const now = this.#options.runtime.monotonic()
    const served: PermitOwner[] = []
    for (const [index, owner] of owners.entries()) {
      const { lease } = owner
      const { wanted, limit, interval, burst } = requests[index] as RateRequest
      const { granted, retryAfter } = grants[index] as RateGrant
      if (granted > 0) {
        lease.permits += granted
        lease.until = now + leaseTime
        this.#leased.add(owner)
        this.#wanting.delete(owner)
        served.push(owner)
      }
      if (granted < wanted) lease.retryAt = retryTime(now, retryAfter, (burst * interval) / limit)
    }
    if (served.length > 0) this.#options.onGranted(served)
  }

  /** The limiter has failed: its calls are postponed, and the owners are served without it, or wait. */
  #fail(error: unknown): void {
    const { runtime, logger, metrics, onLimiterFailure } = this.#options
    this.#failures += 1
    this.#failedUntil = runtime.monotonic() + failureDelays(this.#failures, runtime.random)
    metrics?.count('ackord.fairness.limiter_failures', 1, {})
    if (this.#failures > 1) return
    const consequence =
      onLimiterFailure === 'open'
        ? 'Until it works again, this router applies the rates by itself, so that each process has the whole rate of a tenant.'
        : 'Until it works again, messages of tenants with a rate wait.'
    logger.warn({ err: error }, `The rate limiter failed. ${consequence}`)
  }

  #postpone(owners: readonly PermitOwner[]): void {
    for (const owner of owners) {
      owner.lease.retryAt = this.#failedUntil
      // The limiter cannot take them back now, and they must not count twice.
      owner.lease.unused = 0
    }
  }
}

/** When to ask again. Not for each single permit, as long as the bucket, which is full after `capacity` milliseconds, does not overflow meanwhile. */
function retryTime(now: number, retryAfter: number, capacity: number): number {
  const at = now + Math.max(retryAfter, Math.min(servedPerCall, capacity / 2))
  return capacity < 2 * grid ? at : Math.ceil(at / grid) * grid
}

/** A limiter may be one of the user's. */
function checkGrants(requests: readonly RateRequest[], grants: readonly RateGrant[]): void {
  const isValid =
    Array.isArray(grants) && grants.length === requests.length && requests.every(({ wanted }, index) => isValidGrant(grants[index], wanted))
  if (!isValid) {
    throw new AckordError(
      'ACKORD_LIMITER_FAILED',
      'The rate limiter must return a grant for each request, with at most the permits that were wanted.',
    )
  }
}

function isValidGrant(grant: RateGrant | undefined, wanted: number): boolean {
  if (grant === undefined || grant === null) return false
  const { granted, retryAfter } = grant
  return (
    Number.isSafeInteger(granted) &&
    granted >= 0 &&
    granted <= wanted &&
    typeof retryAfter === 'number' &&
    retryAfter >= 0 &&
    retryAfter < Infinity
  )
}
