import type { Backoff, Logger, Runtime } from '@ackord/core'
import { TenantUnavailableError } from '../errors.ts'

/** `unreachable`: no transaction could be begun. `refusesWrites`: transactions begin, and their writes are refused. */
export type OutageKind = 'unreachable' | 'refusesWrites'

interface Outage {
  readonly since: number
  kind: OutageKind
  failures: number
  error: unknown
  /** When the next call may try the database. */
  until: number
  /** When the call that tries it has started. */
  tryingSince: number | undefined
}

/** Milliseconds after which another call may try the database although one has not ended: its handler may take long. */
const slowTry = 30_000

/** Milliseconds. The delay of a message that arrives while another one tries the database. */
const tryDelay = 1000

/** The maximum number of outages that are remembered: `open()` may be asked for any name. */
const maxOutages = 1000

interface TenantOutagesOptions {
  readonly backoff: Backoff
  readonly runtime: Runtime
  readonly logger: () => Logger
}

/**
 * Which tenants have a database that cannot be used. Calls for such a tenant fail immediately, so that they occupy no slot of the router and no connection while it is down.
 *
 *     (none) ─ a call fails ─▶ down: calls fail ─ the back-off is over ─▶ one call tries the database ─ it succeeds ─▶ (none)
 *                                ▲                                            └ it fails ─┐
 *                                └────────────────────── with a longer back-off ──────────┘
 */
export class TenantOutages {
  readonly #options: TenantOutagesOptions
  readonly #outages = new Map<string, Outage>()

  constructor(options: TenantOutagesOptions) {
    this.#options = options
  }

  get tenants(): readonly string[] {
    return [...this.#outages.keys()]
  }

  /** Throws if the tenant is down and not due for a try. Returns whether the call is that try; it must then be reported by `tried()`. */
  check(tenant: string): boolean {
    const outage = this.#outages.get(tenant)
    if (outage === undefined) return false
    const now = this.#options.runtime.monotonic()
    if (now < outage.until) throw this.#error(tenant, outage, outage.until - now)
    if (outage.tryingSince !== undefined && now - outage.tryingSince < slowTry) throw this.#error(tenant, outage, tryDelay)
    outage.tryingSince = now
    return true
  }

  /** The try has ended, with any result. */
  tried(tenant: string): void {
    const outage = this.#outages.get(tenant)
    if (outage !== undefined) outage.tryingSince = undefined
  }

  /** The database could not be used. Returns the error of the call. */
  failed(tenant: string, kind: OutageKind, error: unknown): TenantUnavailableError {
    const { backoff, runtime, logger } = this.#options
    const now = runtime.monotonic()
    const outage = this.#outages.get(tenant) ?? this.#add(tenant, kind, now)
    outage.kind = kind
    outage.error = error
    // Calls that ran concurrently fail together: they are one failure.
    if (now >= outage.until) {
      outage.failures += 1
      outage.until = now + backoff(outage.failures, runtime.random)
      if (outage.failures === 1) {
        const text =
          'The database of a tenant cannot be used. Its messages are nacked with a delay, and one at a time tries it again; those of other tenants are not affected.'
        logger().warn({ err: error, tenant }, text)
      }
    }
    return this.#error(tenant, outage, outage.until - now)
  }

  /** A call has used the database successfully; `begun`: it began a transaction, which then failed for another reason. */
  worked(tenant: string, result: 'begun' | 'committed'): void {
    if (this.#outages.size === 0) return
    const outage = this.#outages.get(tenant)
    if (outage === undefined || (result === 'begun' && outage.kind === 'refusesWrites')) return
    this.#outages.delete(tenant)
    const { runtime, logger } = this.#options
    logger().info({ tenant, downFor: Math.round(runtime.monotonic() - outage.since) }, 'The database of a tenant can be used again.')
  }

  #add(tenant: string, kind: OutageKind, now: number): Outage {
    const [oldest] = this.#outages.keys()
    if (this.#outages.size >= maxOutages && oldest !== undefined) this.#outages.delete(oldest)
    const outage: Outage = { since: now, kind, failures: 0, error: undefined, until: now, tryingSince: undefined }
    this.#outages.set(tenant, outage)
    return outage
  }

  /** The delays are spread, so that the messages that wait do not return at the same moment. */
  #error(tenant: string, { kind, error }: Outage, delay: number): TenantUnavailableError {
    const retryAfter = Math.ceil(Math.max(delay, 1) * (1 + 0.2 * this.#options.runtime.random()))
    const reason = error instanceof Error ? error.message : String(error)
    const problem = kind === 'refusesWrites' ? `refuses writes: ${reason}` : `cannot be used: ${reason}`
    return new TenantUnavailableError(tenant, problem, { retryAfter, cause: error })
  }
}
