import { AckordError, type Runtime, type Timer } from '@ackord/core'
import { renewalInterval } from '../options/key-order.ts'
import type { Claim, OutboxStore } from '../store/outbox-store.ts'
import type { StoreCalls } from './store-calls.ts'

/** Of its lease, what must be left when a record is sent that has waited in memory. */
export const leaseMargin: number = 1 / 3

/** Some claims that were made together and are renewed until they are dropped, or lost. */
export class Lease<C extends Claim = Claim> {
  readonly #runtime: Runtime
  readonly #held: Set<C>
  readonly #lost = new AbortController()
  /** By the runtime's clock, and counted from before the store was asked: never later than the store has it. */
  until: number

  constructor(runtime: Runtime, claims: readonly C[], until: number) {
    this.#runtime = runtime
    this.#held = new Set(claims)
    this.until = until
  }

  /** What is neither dropped nor lost. */
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

  /** For a claim that is being settled: nobody renews it any more. Gives whether it was held. */
  drop(claim: C): boolean {
    return this.#held.delete(claim)
  }

  lose(claims: readonly C[]): C[] {
    const lost = claims.filter((claim) => this.#held.delete(claim))
    if (lost.length > 0 && this.#held.size === 0) {
      this.#lost.abort(new AckordError('ACKORD_LEASE_LOST', 'The lease on these records was lost; somebody else may have them.'))
    }
    return lost
  }
}

export interface LeaseKeeperOptions<C extends Claim> {
  readonly store: OutboxStore
  readonly calls: StoreCalls
  readonly lease: number
  readonly runtime: Runtime
  /** Told what the store gave to somebody else, or may have. */
  readonly onLost: (claims: readonly C[]) => void
}

/** Renews all leases of a reader in one call, at a third of their time, or a tenth in key order. One timer, and none while nothing is held. */
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

  /** Stops renewing. What the lease still holds is the caller's to settle or release. */
  end(lease: Lease<C>): void {
    this.#leases.delete(lease)
    if (this.#leases.size > 0) return
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #schedule(): void {
    const { runtime, store, lease } = this.#options
    if (this.#timer !== undefined || this.#renewing || this.#leases.size === 0) return
    // What is being published keeps the process alive; its lease alone should not.
    this.#timer = runtime.setTimeout(() => void this.#tick(), renewalInterval(store, lease), { keepAlive: false })
  }

  async #tick(): Promise<void> {
    this.#timer = undefined
    this.#renewing = true
    try {
      await this.#renew()
    } catch {
      // Out of time. The calls have told what failed.
    } finally {
      this.#renewing = false
      for (const lease of this.#leases) if (lease.expired) this.#lose(lease, lease.claims)
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
      this.#lose(part.lease, lost)
    }
  }

  #lose(lease: Lease<C>, claims: readonly C[]): void {
    // One that ended while the store was asked has been settled, and so is not held: that is no loss.
    if (!this.#leases.has(lease)) return
    const lost = lease.lose(claims)
    if (lease.size === 0) this.end(lease)
    if (lost.length > 0) this.#options.onLost(lost)
  }
}
