import type { Logger, Runtime } from '@ackord/core'
import type { ClaimedRecord, OutboxStore } from './outbox-store.ts'
import type { RelayObserver } from './relay-observer.ts'
import type { StoreCalls } from './store-calls.ts'
import type { Verdict } from './verdict.ts'

export interface SettlerOptions {
  readonly store: OutboxStore
  readonly calls: StoreCalls
  readonly observer: RelayObserver
  readonly runtime: Runtime
  readonly logger: Logger
}

/** Tells the store what became of claimed records. It does not ask where they came from. Both calls last until `until` at most, and never reject. */
export class Settler {
  readonly #options: SettlerOptions

  constructor(options: SettlerOptions) {
    this.#options = options
  }

  /** One settle for all. */
  async settle(verdicts: readonly Verdict[], until: number): Promise<void> {
    const { store, calls, observer, runtime, logger } = this.#options
    if (verdicts.length === 0) return
    const outcomes = verdicts.map(({ outcome }) => outcome)
    const startedAt = runtime.now()
    try {
      const answers = await calls.run(() => store.settle(outcomes), { until })
      observer.meter.duration('settle', runtime.now() - startedAt)
      if (answers.length === verdicts.length && answers.every((answer) => answer === 'applied')) {
        observer.settled(verdicts)
        return
      }
      observer.settled(verdicts.filter((_, index) => answers[index] === 'applied'))
      observer.lost(recordsOf(verdicts.filter((_, index) => answers[index] !== 'applied')))
    } catch (error) {
      observer.lost(recordsOf(verdicts))
      const text = 'The store did not take outcomes before the lease was over, or the stop; the records will be published again.'
      logger.error({ err: error, records: verdicts.length }, text)
    }
  }

  /** Unclaims records, if the store can be reached while they are ours; otherwise they wait for the end of the lease. */
  async giveBack(records: readonly ClaimedRecord[], until: number): Promise<void> {
    const { store, calls, observer, runtime } = this.#options
    if (records.length === 0) return
    // The store does not say which it took; after the end of the lease it may be none.
    const late = until <= runtime.now()
    try {
      await calls.run(() => store.release(records), { until })
      if (late) observer.lost(records)
      else observer.released(records)
    } catch {
      observer.lost(records)
    }
  }
}

function recordsOf(verdicts: readonly Verdict[]): ClaimedRecord[] {
  return verdicts.map(({ record }) => record)
}
