import type { Logger } from '@ackord/core'
import type { OutboxMeter } from './outbox-meter.ts'
import type { ClaimedRecord } from './outbox-store.ts'
import type { RelayEvent } from './relay-events.ts'
import type { Verdict } from './verdict.ts'

export interface RelayObserverOptions {
  readonly meter: OutboxMeter
  readonly logger: Logger
  /** Must not throw. */
  readonly emit: (event: RelayEvent) => void
}

/** Tells the metrics, the listener and the log what happens to records and to those the relay depends on. */
export class RelayObserver {
  readonly meter: OutboxMeter
  readonly #logger: Logger
  readonly #emit: (event: RelayEvent) => void

  constructor({ meter, logger, emit }: RelayObserverOptions) {
    this.meter = meter
    this.#logger = logger
    this.#emit = emit
  }

  claimed(records: readonly ClaimedRecord[]): void {
    this.meter.batch(records.length)
    if (records.length > 0) this.#emit({ type: 'claimed', records })
  }

  released(records: readonly ClaimedRecord[]): void {
    if (records.length === 0) return
    this.meter.count('released', records)
    this.#emit({ type: 'released', records })
  }

  lost(records: readonly ClaimedRecord[]): void {
    if (records.length === 0) return
    this.meter.count('leasesLost', records)
    this.#emit({ type: 'lost', records })
  }

  /** What the store has applied. */
  settled(verdicts: readonly Verdict[]): void {
    const published: ClaimedRecord[] = []
    const parked: Verdict[] = []
    for (const verdict of verdicts) {
      const { record, outcome, error } = verdict
      if (outcome.result === 'published') published.push(record)
      else if (outcome.result === 'parked') parked.push(verdict)
      else {
        this.meter.count('failed', [record])
        this.#emit({ type: 'failed', record, error, retryAfter: outcome.retryAfter })
      }
    }
    if (published.length > 0) {
      this.meter.count('published', published)
      this.#emit({ type: 'published', records: published })
    }
    this.#parked(parked)
  }

  deadLetters(taken: readonly ClaimedRecord[], refused: readonly ClaimedRecord[], error: unknown): void {
    this.meter.count('deadLetters', taken)
    if (refused.length === 0) return
    this.meter.count('deadLettersFailed', refused)
    this.#emit({ type: 'deadLetterFailed', records: refused, error })
  }

  destinationDown(destination: string, error: unknown): void {
    this.meter.destinationDown(destination, true)
    this.#emit({ type: 'destinationDown', destination, error })
  }

  destinationUp(destination: string, downFor: number): void {
    this.meter.destinationDown(destination, false)
    this.#emit({ type: 'destinationUp', destination, downFor })
  }

  storeDown(error: unknown): void {
    this.meter.storeDown(true)
    this.#emit({ type: 'storeDown', error })
  }

  storeUp(downFor: number): void {
    this.meter.storeDown(false)
    this.#emit({ type: 'storeUp', downFor })
  }

  /** What was down is not known any more. */
  ended(downDestinations: readonly string[]): void {
    for (const destination of downDestinations) this.meter.destinationDown(destination, false)
    this.meter.storeDown(false)
  }

  #parked(verdicts: readonly Verdict[]): void {
    for (const { record, error, reason = 'permanent' } of verdicts) {
      this.meter.count('parked', [record], { reason })
      this.#emit({ type: 'parked', record, error, reason })
    }
    const [first] = verdicts
    if (first?.outcome.result !== 'parked') return
    const { destination, id, attempts } = first.record
    const fields = { parked: verdicts.length, destination, id, attempts, reason: first.reason, error: first.outcome.error }
    // One line for the batch: who parks one record often parks many.
    this.#logger.warn(fields, 'Records were parked; they wait to be re-armed or discarded. The first of them is shown.')
  }
}
