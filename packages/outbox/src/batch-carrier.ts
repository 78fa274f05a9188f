import { probe } from '@ackord/core'
import type { DestinationPauses } from './destination-pauses.ts'
import { type Lease, LeaseKeeper } from './lease-keeper.ts'
import type { OutboxMeter } from './outbox-meter.ts'
import type { ClaimedRecord, OutboxStore, Outcome } from './outbox-store.ts'
import { exhausted } from './outcomes.ts'
import { publishGroup } from './publish-group.ts'
import type { RelaySettings } from './relay-options.ts'
import type { StoreCalls } from './store-calls.ts'

export interface BatchCarrierOptions {
  readonly store: OutboxStore
  readonly settings: RelaySettings
  readonly calls: StoreCalls
  readonly pauses: DestinationPauses
  readonly meter: OutboxMeter
  /** Whether the relay stops: what is not on its way yet goes back. */
  readonly stopping: () => boolean
}

interface Settling {
  readonly record: ClaimedRecord
  readonly outcome: Outcome
}

/**
 * Takes claimed records to their destinations and tells the store what became of them. A batch's way:
 *
 *     claimed ─▶ one publish() per destination, all at once; the lease is renewed meanwhile
 *             ─▶ one settle() for all that have an outcome, one release() for those that have none
 *
 * A crash anywhere before the settle leaves the records leased; whoever claims them after that publishes them again.
 */
export class BatchCarrier {
  readonly #options: BatchCarrierOptions
  readonly #keeper: LeaseKeeper<ClaimedRecord>
  #inFlight = 0

  constructor(options: BatchCarrierOptions) {
    const { store, calls, settings, meter } = options
    this.#options = options
    this.#keeper = new LeaseKeeper({
      store,
      calls,
      lease: settings.lease,
      runtime: settings.runtime,
      onLost: (records) => meter.count('leasesLost', records),
    })
  }

  /** How many records are being published and settled. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** `until` is when the lease ends if nobody renews it. Resolves when everything is settled, given back or lost. Never rejects. */
  async carry(records: readonly ClaimedRecord[], until: number): Promise<void> {
    const { meter, stopping } = this.#options
    meter.batch(records.length)
    this.#inFlight += records.length
    const lease = this.#keeper.hold(records, until)
    try {
      await reached('relay.claimed')
      // After a stall somebody else may have the records: sending them now would be a duplicate for certain.
      const settling = stopping() || lease.expired ? [] : await this.#publish(records, lease)
      await reached('relay.beforeSettle')
      await this.#settle(lease, settling)
      await reached('relay.afterSettle')
    } finally {
      this.#keeper.end(lease)
      this.#inFlight -= records.length
    }
  }

  async #publish(records: readonly ClaimedRecord[], lease: Lease<ClaimedRecord>): Promise<readonly Settling[]> {
    const { settings, pauses, meter } = this.#options
    const settling: Settling[] = []
    const groups = new Map<string, ClaimedRecord[]>()
    for (const record of records) {
      const outcome = exhausted(record, settings.maxAttempts)
      if (outcome !== undefined) settling.push({ record, outcome })
      else groupOf(groups, record.destination).push(record)
    }
    await Promise.all(
      [...groups].map(async ([destination, group]) => {
        const outcomes = await publishGroup(destination, group, { settings, lease, pauses, meter })
        for (const [index, record] of group.entries()) {
          const outcome = outcomes[index]
          if (outcome !== undefined) settling.push({ record, outcome })
        }
      }),
    )
    return settling
  }

  async #settle(lease: Lease<ClaimedRecord>, settling: readonly Settling[]): Promise<void> {
    // From here on nobody renews: an answer about a record that was just settled would look like a loss.
    this.#keeper.end(lease)
    const held = settling.filter(({ record }) => lease.holds(record))
    for (const { record } of held) lease.drop(record)
    await Promise.all([this.#tell(held, lease.until), this.giveBack(lease.claims, lease.until)])
  }

  async #tell(settling: readonly Settling[], until: number): Promise<void> {
    const { store, calls, settings, meter } = this.#options
    if (settling.length === 0) return
    const outcomes = settling.map(({ outcome }) => outcome)
    try {
      const answers = await calls.run(() => store.settle(outcomes), { until })
      const applied = settling.filter((_, index) => answers[index] === 'applied')
      for (const result of ['published', 'failed', 'parked'] as const) {
        const records = applied.filter(({ outcome }) => outcome.result === result).map(({ record }) => record)
        if (records.length > 0) meter.count(result, records)
      }
      const lost = settling.filter((_, index) => answers[index] !== 'applied')
      if (lost.length > 0)
        meter.count(
          'leasesLost',
          lost.map(({ record }) => record),
        )
      this.#reportParked(applied)
    } catch (error) {
      meter.count(
        'leasesLost',
        settling.map(({ record }) => record),
      )
      const text = 'The store did not take outcomes before the lease was over; the records will be published again.'
      settings.logger.error({ err: error, records: settling.length }, text)
    }
  }

  /** Unclaims records, if the store can be reached while they are ours; otherwise they wait for the end of the lease. Never rejects. */
  async giveBack(records: readonly ClaimedRecord[], until: number): Promise<void> {
    const { store, calls, settings, meter } = this.#options
    if (records.length === 0) return
    // The store does not say which it took; after the end of the lease it may be none.
    const late = until <= settings.runtime.now()
    try {
      await calls.run(() => store.release(records), { until })
      meter.count(late ? 'leasesLost' : 'released', records)
    } catch {
      meter.count('leasesLost', records)
    }
  }

  /** One line for the batch: who parks one record often parks many. */
  #reportParked(applied: readonly Settling[]): void {
    const parked = applied.filter(({ outcome }) => outcome.result === 'parked')
    const first = parked[0]
    if (first?.outcome.result !== 'parked') return
    const { record, outcome } = first
    const fields = {
      parked: parked.length,
      destination: record.destination,
      id: record.id,
      attempts: record.attempts,
      error: outcome.error,
    }
    this.#options.settings.logger.warn(fields, 'Records were parked; they wait to be re-armed or discarded. The first of them is shown.')
  }
}

function groupOf(groups: Map<string, ClaimedRecord[]>, destination: string): ClaimedRecord[] {
  let group = groups.get(destination)
  if (group === undefined) {
    group = []
    groups.set(destination, group)
  }
  return group
}

async function reached(point: string): Promise<void> {
  const paused = probe(point)
  if (paused !== undefined) await paused
}
