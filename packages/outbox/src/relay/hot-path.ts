import type { Runtime } from '@ackord/core'
import { inRoot } from '@ackord/core/internal'
import type { BatchSlot, BatchSlots } from '../delivery/batch-slots.ts'
import { leaseMargin } from '../delivery/lease-keeper.ts'
import type { ClaimedRecord, RecordTaker } from '../store/outbox-store.ts'

export interface HotPathOptions {
  readonly lease: number
  readonly batchSize: number
  readonly slots: BatchSlots
  readonly runtime: Runtime
  /** Whether records for this destination are accepted now: it is served by the relay, it is up, and it has not reached its limit of publishes in flight. */
  readonly serves: (destination: string) => boolean
  /** Publishes and settles the records, and ends the slot. Never rejects. */
  readonly carry: (records: readonly ClaimedRecord[], until: number, slot: BatchSlot) => Promise<void>
  /** Releases the records, so that they can be claimed. Never rejects. */
  readonly release: (records: readonly ClaimedRecord[], until: number) => Promise<void>
}

interface Waiting {
  readonly record: ClaimedRecord
  readonly until: number
}

/**
 * Publishes records that this process has just committed, from memory, without claiming them. It does not wait for a batch to fill: while batches are
 * in flight the next one accumulates. When more records are committed than the broker accepts, the rest is left for claims.
 */
export class HotPath implements RecordTaker {
  readonly #options: HotPathOptions
  #waiting: Waiting[] = []
  readonly #running = new Set<Promise<void>>()
  #pumping = false
  #closed = false

  constructor(options: HotPathOptions) {
    this.#options = options
  }

  lease(destinations: readonly string[]): number | undefined {
    const { lease, batchSize, serves } = this.#options
    if (this.#closed || this.#waiting.length >= batchSize) return undefined
    return destinations.every(serves) ? lease : undefined
  }

  take(records: readonly ClaimedRecord[], age: number): void {
    const { runtime, lease } = this.#options
    const until = runtime.monotonic() - age + lease
    for (const record of records) this.#waiting.push({ record, until })
    // Not in the async context of the message that happened to be first.
    inRoot(() => (this.#closed ? this.#releaseAll() : this.#pump()))
  }

  /** Accepts no more records, and releases those that are not being published. Resolves when none is left. */
  async close(): Promise<void> {
    this.#closed = true
    this.#releaseAll()
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  /** Waits for a slot, so that records committed in the same tick are sent together. */
  async #pump(): Promise<void> {
    if (this.#pumping) return
    this.#pumping = true
    const { slots, batchSize } = this.#options
    while (this.#waiting.length > 0) {
      const slot = await slots.acquire()
      await slot.begin()
      this.#track(this.#send(this.#waiting.splice(0, batchSize), slot).finally(() => slot.end()))
    }
    this.#pumping = false
  }

  /** Releases records whose lease is about to expire, or whose destination accepts none now: they are left for claims. */
  async #send(batch: readonly Waiting[], slot: BatchSlot): Promise<void> {
    const { lease, runtime, serves, carry, release } = this.#options
    // A commit can take long, and meanwhile a destination may have become slow: the slot of its batch is free then, while its records are still in
    // flight.
    const latest = runtime.monotonic() + lease * leaseMargin
    const served = new Set([...new Set(batch.map(({ record }) => record.destination))].filter(serves))
    const goes = ({ record, until }: Waiting) => until >= latest && served.has(record.destination)
    const going = batch.filter(goes)
    const left = going.length === batch.length ? [] : batch.filter((waiting) => !goes(waiting))
    await Promise.all([
      left.length === 0 ? undefined : release(left.map(recordOf), earliest(left)),
      going.length === 0 ? undefined : carry(going.map(recordOf), earliest(going), slot),
    ])
  }

  #releaseAll(): void {
    const left = this.#waiting.splice(0)
    if (left.length > 0) this.#track(this.#options.release(left.map(recordOf), earliest(left)))
  }

  #track(work: Promise<void>): void {
    const tracked: Promise<void> = work.finally(() => this.#running.delete(tracked))
    this.#running.add(tracked)
  }
}

function recordOf({ record }: Waiting): ClaimedRecord {
  return record
}

function earliest(batch: readonly Waiting[]): number {
  return batch.reduce((until, waiting) => Math.min(until, waiting.until), Infinity)
}
