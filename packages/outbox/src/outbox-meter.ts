import type { MetricLabels, Metrics } from '@ackord/core'
import type { OutboxState, OutboxStats } from './outbox-admin.ts'
import type { ClaimedRecord } from './outbox-store.ts'

export interface OutboxTotals {
  readonly published: number
  readonly failed: number
  readonly parked: number
  readonly released: number
  /** Records that were settled too late, or not at all: somebody else may have published them too. */
  readonly leasesLost: number
  /** Copies that the dead letter took, and those that it did not. */
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

/** Counts records by what became of them. The port is guarded: one that throws loses a number, never a record. */
export class OutboxMeter {
  readonly #metrics: Metrics | undefined
  readonly #totals = { published: 0, failed: 0, parked: 0, released: 0, leasesLost: 0, deadLetters: 0, deadLettersFailed: 0 }
  /** Whose records were shown last: one that has none any more is shown as 0, not as it was. */
  #shown: ReadonlySet<string> = new Set()

  constructor(metrics: Metrics | undefined) {
    this.#metrics = metrics
  }

  get totals(): OutboxTotals {
    return { ...this.#totals }
  }

  /** `labels` beside the destination. */
  count(what: keyof OutboxTotals, records: readonly ClaimedRecord[], labels: MetricLabels = {}): void {
    this.#totals[what] += records.length
    this.#countByDestination(metricNames[what], records, labels)
  }

  /** Records that are handed to the publisher now. */
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

  destinationDown(destination: string, down: boolean): void {
    this.#metrics?.gauge('ackord.outbox.destination_down', Number(down), { destination })
  }

  storeDown(down: boolean): void {
    this.#metrics?.gauge('ackord.outbox.store_down', Number(down), {})
  }

  /** What the store counts. The lag is by its clock alone: a difference to ours would be no duration. */
  backlog(stats: OutboxStats): void {
    if (this.#metrics === undefined) return
    this.#metrics.gauge('ackord.outbox.lag', stats.oldestAge ?? 0, {})
    const shown = new Set<string>()
    for (const { destination, ...counts } of stats.destinations) {
      shown.add(destination)
      for (const state of states) this.#metrics.gauge('ackord.outbox.records', counts[state], { destination, state })
    }
    for (const destination of this.#shown) {
      if (shown.has(destination)) continue
      for (const state of states) this.#metrics.gauge('ackord.outbox.records', 0, { destination, state })
    }
    this.#shown = shown
  }

  #countByDestination(name: string, records: readonly ClaimedRecord[], labels: MetricLabels): void {
    if (this.#metrics === undefined) return
    const amounts = new Map<string, number>()
    for (const { destination } of records) amounts.set(destination, (amounts.get(destination) ?? 0) + 1)
    for (const [destination, amount] of amounts) this.#metrics.count(name, amount, { destination, ...labels })
  }
}
