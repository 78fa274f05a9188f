import { AckordError, type Runtime, type Timer } from '@ackord/core'
import { renewalInterval } from '../options/key-order.ts'
import type { Claim, OutboxStore } from '../store/outbox-store.ts'
import type { StoreCalls } from './store-calls.ts'

/** The share of its lease that must be left when a record is sent that has waited in memory. */
export const leaseMargin: number = 1 / 3

/** Claims that were made together and are renewed until they are dropped or lost. */
export class Lease<C extends Claim = Claim> {
  readonly #runtime: Runtime
  readonly #held: Set<C>
  readonly #lost = new AbortController()
  /** By the runtime's clock, counted from before the call to the store: never later than in the store. */
  until: number

  constructor(runtime: Runtime, claims: readonly C[], until: number) {
    this.#runtime = runtime
    this.#held = new Set(claims)
    this.until = until
  }

  /** The claims that are neither dropped nor lost. */
  get claims(): readonly C[] {
    return [...this.#held]
  }

  get size(): number {
    return this.#held.size
  }

  get expired(): boolean {
    return this.until <= this.#runtime.monotonic()
  }

  /** Aborted when the last claim is lost. */
  get signal(): AbortSignal {
    return this.#lost.signal
  }

  holds(claim: C): boolean {
    return this.#held.has(claim)
  }

  /** For a claim that is being settled: it is no longer renewed. Returns whether it was held. */
  drop(claim: C): boolean {
    return this.#held.delete(claim)
  }

  markLost(claims: readonly C[]): C[] {
    const lost = claims.filter((claim) => this.#held.delete(claim))
    if (lost.length > 0 && this.#held.size === 0) {
      this.#lost.abort(new AckordError('ACKORD_LEASE_LOST', 'The lease on these records was lost; another relay may have claimed them.'))
    }
    return lost
  }
}

export interface LeaseKeeperOptions<C extends Claim> {
  readonly store: OutboxStore
  readonly calls: StoreCalls
  readonly lease: number
  readonly runtime: Runtime
  /** Called with the claims that another relay has, or may have. */
  readonly onLost: (claims: readonly C[]) => void
}

/**
 * Renews all leases of a reader in one call, after a third of their duration, or a tenth with order per key. Uses one timer, and none while no claim
 * is held.
 */
export class LeaseKeeper<C extends Claim> {
  readonly #options: LeaseKeeperOptions<C>
  readonly #leases = new Set<Lease<C>>()
  #timer: Timer | undefined
  #renewing = false

  constructor(options: LeaseKeeperOptions<C>) {
    this.#options = options
  }

  get leases(): readonly Lease<C>[] {
    return [...this.#leases]
  }

  hold(claims: readonly C[], until: number): Lease<C> {
    const lease = new Lease(this.#options.runtime, claims, until)
    if (claims.length === 0) return lease
    this.#leases.add(lease)
    this.#schedule()
    return lease
  }

  /** For claims that are being settled or released. Stops renewing a lease that holds no other claim. */
  drop(lease: Lease<C>, claims: readonly C[]): void {
    for (const claim of claims) lease.drop(claim)
    if (lease.size === 0) this.end(lease)
  }

  /** Stops renewing. The caller must settle or release the claims that the lease still holds. */
  end(lease: Lease<C>): void {
    this.#leases.delete(lease)
    if (this.#leases.size > 0) return
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #schedule(): void {
    const { runtime, store, lease } = this.#options
    if (this.#timer !== undefined || this.#renewing || this.#leases.size === 0) return
    // A publish in flight keeps the process alive; its lease alone should not.
    this.#timer = runtime.setTimeout(() => void this.#tick(), renewalInterval(store, lease), { keepAlive: false })
  }

  async #tick(): Promise<void> {
    this.#timer = undefined
    this.#renewing = true
    try {
      await this.#renew()
    } catch {
      // Out of time. The failed calls have been reported already.
    } finally {
      this.#renewing = false
      for (const lease of this.#leases) if (lease.expired) this.#markLost(lease, lease.claims)
      this.#schedule()
    }
  }

  async #renew(): Promise<void> {
    const { store, calls, lease: duration, runtime } = this.#options
    const renewed = [...this.#leases].map((lease) => ({ lease, claims: lease.claims }))
    const claims = renewed.flatMap((part) => part.claims)
    if (claims.length === 0) return
    const until = Math.min(...renewed.map(({ lease }) => lease.until))
    let startedAt = 0
    const answers = await calls.run(
      () => {
        startedAt = runtime.monotonic()
        return store.renew(claims, duration)
      },
      { until },
    )
    let index = 0
    for (const part of renewed) {
      const lost = part.claims.filter(() => {
        const kept = answers[index] === true
        index += 1
        return !kept
      })
      part.lease.until = startedAt + duration
      this.#markLost(part.lease, lost)
    }
  }

  #markLost(lease: Lease<C>, claims: readonly C[]): void {
    // A claim that was settled during the call is no longer held: it is not lost.
    if (!this.#leases.has(lease)) return
    const lost = lease.markLost(claims)
    if (lease.size === 0) this.end(lease)
    if (lost.length > 0) this.#options.onLost(lost)
  }
}
