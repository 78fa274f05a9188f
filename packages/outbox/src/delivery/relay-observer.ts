import type { Logger, MetricLabels, Metrics, PublishResult } from '@ackord/core'
import { type DescribedMetrics, logFields, safeLabels } from '@ackord/core/internal'
import type { RelayEvent } from '../options/relay-events.ts'
import type { OutboxRate, OutboxState, OutboxStats } from '../store/outbox-admin.ts'
import type { ClaimedRecord } from '../store/outbox-store.ts'
import type { Verdict } from './outcomes.ts'

export interface RelayObserverOptions {
  readonly meter: OutboxMeter
  readonly logger: Logger
  /** Must not throw. */
  readonly emit: (event: RelayEvent) => void
}

/** Reports what happens to records, destinations, the store and the dead letter: to the metrics, the listener and the log. */
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

  /** The outcomes that the store has applied. */
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

  deadLetters(accepted: readonly ClaimedRecord[], refused: readonly ClaimedRecord[], error: unknown): void {
    this.meter.count('deadLetters', accepted)
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

  /** The relay has ended: the state of destinations is no longer known. */
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
    const { destination, id: record, attempts, message } = first.record
    const fields = { parked: verdicts.length, ...logFields(message), destination, record, attempts, reason: first.reason }
    // One line for the batch: a fault that parks one record often parks many.
    this.#logger.warn(
      { err: first.error ?? first.outcome.error, ...fields },
      'Records were parked; they wait to be re-armed or discarded. The first of them is shown.',
    )
  }
}

export interface OutboxTotals {
  readonly published: number
  readonly failed: number
  readonly parked: number
  readonly released: number
  /** Records that were settled too late, or not at all: another relay may have published them too. */
  readonly leasesLost: number
  /** Copies that the dead letter accepted, and those that it did not. */
  readonly deadLetters: number
  readonly deadLettersFailed: number
}

const metricNames = {
  published: 'ackord.outbox.published',
  failed: 'ackord.outbox.failed',
  parked: 'ackord.outbox.parked',
  released: 'ackord.outbox.released',
  leasesLost: 'ackord.outbox.lease_lost',
  deadLetters: 'ackord.outbox.dead_letters',
  deadLettersFailed: 'ackord.outbox.dead_letters_failed',
} as const

const states: readonly OutboxState[] = ['ready', 'waiting', 'leased', 'parked', 'published']

/** Destinations whose rates are reported. */
const maxRates = 200

/** Counts records by their outcome. The metrics port is guarded: if it throws, a number is lost, never a record. */
export class OutboxMeter {
  readonly #metrics: DescribedMetrics | undefined
  readonly #totals = { published: 0, failed: 0, parked: 0, released: 0, leasesLost: 0, deadLetters: 0, deadLettersFailed: 0 }
  /** The destinations of the last statistics: one that has no records any more is reported as 0, not with its last number. */
  #shown: ReadonlySet<string> = new Set()

  readonly #rates = new Map<string, { published: number; failed: number; parked: number }>()

  /** The destinations that are down, by label. */
  readonly #down = new Map<string, Set<string>>()
  readonly #labelOf: (destination: string) => string

  constructor(metrics: Metrics | undefined) {
    this.#metrics = metrics
    const safe = metrics === undefined ? undefined : safeLabels(metrics)
    this.#labelOf = (destination) => safe?.({ destination })['destination'] ?? destination
  }

  get totals(): OutboxTotals {
    return { ...this.#totals }
  }

  /** `labels` are added to the destination's. */
  count(what: keyof OutboxTotals, records: readonly ClaimedRecord[], labels: MetricLabels = {}): void {
    this.#totals[what] += records.length
    if (what === 'published' || what === 'failed' || what === 'parked') this.#addRates(what, records)
    this.#countByDestination(metricNames[what], records, labels)
  }

  /** The counts since the last call, by destination. */
  takeRates(): readonly Pick<OutboxRate, 'destination' | 'published' | 'failed' | 'parked'>[] {
    const rates = [...this.#rates].map(([destination, counts]) => ({ destination, ...counts }))
    this.#rates.clear()
    return rates
  }

  /** Records that are being passed to the publisher. */
  attempts(destination: string, count: number): void {
    this.#metrics?.count('ackord.outbox.attempts', count, { destination })
  }

  batch(size: number): void {
    this.#metrics?.observe('ackord.outbox.batch_size', size, {})
  }

  duration(what: 'claim' | 'settle', duration: number): void {
    this.#metrics?.observe(`ackord.outbox.${what}_duration`, duration, {})
  }

  publishDuration(duration: number, destination: string): void {
    this.#metrics?.observe('ackord.outbox.publish_duration', duration, { destination })
  }

  /** `sinceClaim`: the milliseconds between the claim and the answer of the broker. */
  delivered(
    sent: readonly { readonly record: ClaimedRecord }[],
    results: readonly PublishResult[],
    { destination, sinceClaim }: { readonly destination: string; readonly sinceClaim: number },
  ): void {
    if (this.#metrics === undefined) return
    const labels = { destination }
    for (const [index, { record }] of sent.entries()) {
      if (results[index]?.ok === true) this.#metrics.observe('ackord.outbox.delivery_delay', record.age + sinceClaim, labels)
    }
  }

  destinationDown(destination: string, down: boolean): void {
    if (this.#metrics === undefined) return
    const label = this.#labelOf(destination)
    const others = this.#down.get(label) ?? new Set()
    if (down) others.add(destination)
    else others.delete(destination)
    if (others.size > 0) this.#down.set(label, others)
    else this.#down.delete(label)
    this.#metrics.gauge('ackord.outbox.destination_down', Number(others.size > 0), { destination: label })
  }

  storeDown(down: boolean): void {
    this.#metrics?.gauge('ackord.outbox.store_down', Number(down), {})
  }

  /** The statistics of the store. The lag is measured by the store's clock alone: a difference to the process's clock would be no duration. */
  backlog(stats: OutboxStats): void {
    if (this.#metrics === undefined) return
    this.#metrics.gauge('ackord.outbox.lag', stats.oldestAge ?? 0, {})
    const lags = new Map<string, number>()
    // Summed by label: several destinations may share one.
    const sums = new Map<string, Record<OutboxState, number>>()
    for (const { destination, oldestAge = 0, ...counts } of stats.destinations) {
      const label = this.#labelOf(destination)
      lags.set(label, Math.max(oldestAge, lags.get(label) ?? 0))
      const sum = sums.get(label)
      if (sum === undefined) sums.set(label, counts)
      else for (const state of states) sum[state] += counts[state]
    }
    for (const [destination, sum] of sums)
      for (const state of states) this.#metrics.gauge('ackord.outbox.records', sum[state], { destination, state })
    for (const [destination, lag] of lags) this.#metrics.gauge('ackord.outbox.destination_lag', lag, { destination })
    for (const destination of this.#shown) {
      if (sums.has(destination)) continue
      this.#metrics.gauge('ackord.outbox.destination_lag', 0, { destination })
      for (const state of states) this.#metrics.gauge('ackord.outbox.records', 0, { destination, state })
    }
    this.#shown = new Set(sums.keys())
  }

  #addRates(what: 'published' | 'failed' | 'parked', records: readonly ClaimedRecord[]): void {
    for (const { destination } of records) {
      const known = this.#rates.get(destination)
      if (known !== undefined) known[what] += 1
      // Names that an application invents must not fill the memory, nor the store.
      else if (this.#rates.size < maxRates) this.#rates.set(destination, { published: 0, failed: 0, parked: 0, [what]: 1 })
    }
  }

  #countByDestination(name: (typeof metricNames)[keyof OutboxTotals], records: readonly ClaimedRecord[], labels: MetricLabels): void {
    if (this.#metrics === undefined) return
    const amounts = new Map<string, number>()
    for (const { destination } of records) amounts.set(destination, (amounts.get(destination) ?? 0) + 1)
    for (const [destination, amount] of amounts) this.#metrics.count(name, amount, { destination, ...labels })
  }
}
