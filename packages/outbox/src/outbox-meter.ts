import type { Metrics } from '@ackord/core'
import type { ClaimedRecord } from './outbox-store.ts'

export interface OutboxTotals {
  readonly published: number
  readonly failed: number
  readonly parked: number
  readonly released: number
  /** Records that were settled too late, or not at all: somebody else may have published them too. */
  readonly leasesLost: number
}

const metricNames = {
  published: 'ackord.outbox.published',
  failed: 'ackord.outbox.failed',
  parked: 'ackord.outbox.parked',
  released: 'ackord.outbox.released',
  leasesLost: 'ackord.outbox.lease_lost',
} as const

/** Counts records by what became of them. The port is guarded: one that throws loses a number, never a record. */
export class OutboxMeter {
  readonly #metrics: Metrics | undefined
  readonly #totals = { published: 0, failed: 0, parked: 0, released: 0, leasesLost: 0 }

  constructor(metrics: Metrics | undefined) {
    this.#metrics = metrics
  }

  get totals(): OutboxTotals {
    return { ...this.#totals }
  }

  count(what: keyof OutboxTotals, records: readonly ClaimedRecord[]): void {
    this.#totals[what] += records.length
    if (this.#metrics === undefined) return
    const amounts = new Map<string, number>()
    for (const { destination } of records) amounts.set(destination, (amounts.get(destination) ?? 0) + 1)
    for (const [destination, amount] of amounts) this.#metrics.count(metricNames[what], amount, { destination })
  }

  batch(size: number): void {
    this.#metrics?.observe('ackord.outbox.batch_size', size, {})
  }

  publishDuration(duration: number, destination: string): void {
    this.#metrics?.observe('ackord.outbox.publish_duration', duration, { destination })
  }
}
