import type { Logger, Runtime } from '@ackord/core'
import type { ClaimedRecord, OutboxStore } from '../store/outbox-store.ts'
import type { Verdict } from './outcomes.ts'
import type { RelayObserver } from './relay-observer.ts'
import type { StoreCalls } from './store-calls.ts'

export interface SettlerOptions {
  readonly store: OutboxStore
  readonly calls: StoreCalls
  readonly observer: RelayObserver
  readonly runtime: Runtime
  /** Milliseconds. */
  readonly lease: number
  readonly logger: Logger
}

/** Settles and releases claimed records in the store, whether claimed or received on the hot path. Both calls try until `until` at most, and never reject. */
export class Settler {
  readonly #options: SettlerOptions

  constructor(options: SettlerOptions) {
    this.#options = options
  }

  /** One settle() for all. */
  async settle(verdicts: readonly Verdict[], until: number): Promise<void> {
    const { store, calls, observer, runtime, logger } = this.#options
    if (verdicts.length === 0) return
    const outcomes = verdicts.map(({ outcome }) => outcome)
    const startedAt = runtime.monotonic()
    try {
      const answers = await calls.run(() => store.settle(outcomes), { until })
      observer.meter.duration('settle', runtime.monotonic() - startedAt)
      if (answers.length === verdicts.length && answers.every((answer) => answer === 'applied')) {
        observer.settled(verdicts)
        return
      }
      observer.settled(verdicts.filter((_, index) => answers[index] === 'applied'))
      observer.lost(recordsOf(verdicts.filter((_, index) => answers[index] !== 'applied')))
    } catch (error) {
      observer.lost(recordsOf(verdicts))
      const text = 'The store did not accept outcomes before the lease expired or the stop ended; the records will be published again.'
      logger.error({ err: error, records: verdicts.length }, text)
    }
  }

  /** Releases records if the store can be reached while they are leased; otherwise they wait for the lease to expire. */
  async release(records: readonly ClaimedRecord[], until: number): Promise<void> {
    const { store, calls, observer, runtime, lease } = this.#options
    if (records.length === 0) return
    // `release` does not report which claims it accepted; after the end of the lease, by our clock, it may be none. So the store is asked first which
    // claims are still valid.
    const late = until <= runtime.monotonic()
    try {
      const held = late ? await calls.run(() => store.renew(records, lease), { until }).catch(() => []) : undefined
      await calls.run(() => store.release(records), { until })
      observer.released(held === undefined ? records : records.filter((_, index) => held[index] === true))
      if (held !== undefined) observer.lost(records.filter((_, index) => held[index] !== true))
    } catch {
      observer.lost(records)
    }
  }
}

function recordsOf(verdicts: readonly Verdict[]): ClaimedRecord[] {
  return verdicts.map(({ record }) => record)
}
