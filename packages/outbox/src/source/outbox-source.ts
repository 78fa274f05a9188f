import { type AckCallbacks, Message, outside, type RawMessage } from '@ackord/core'
import { checkFunction } from '@ackord/core/internal'
import { bytesOf } from '../delivery/byte-budget.ts'
import { type Lease, LeaseKeeper } from '../delivery/lease-keeper.ts'
import { exhausted, failed, published } from '../delivery/outcomes.ts'
import { runsOf } from '../delivery/publish-in-order.ts'
import { OutboxMeter } from '../delivery/relay-observer.ts'
import { StoreCalls } from '../delivery/store-calls.ts'
import { isOrdered, leaveStore, maxPause } from '../options/key-order.ts'
import { type ClaimingOptions, type ClaimingSettings, claimingSettings } from '../options/relay-options.ts'
import { followWakeUps, PollPause } from '../relay/polling.ts'
import type { ClaimedRecord, OutboxStore, Outcome } from '../store/outbox-store.ts'
import { leaseLost, SettleQueue } from './settle-queue.ts'

export interface OutboxSourceOptions extends ClaimingOptions {
  /** Ends the iteration, without an error. Default: it runs until the reader leaves the loop. */
  readonly signal?: AbortSignal | undefined
}

export interface OutboxDelivery {
  readonly destination: string
  /**
   * `ack()`: published. `nack()`: failed, to be tried again after its `retryAfter` or the back-off; parked at the last attempt. `reject()`: parked.
   * All reject with `ACKORD_LEASE_LOST` if another reader may own the record by now. `deliveryCount` is the number of attempts.
   */
  readonly message: RawMessage
}

export interface OutboxSource extends AsyncIterable<OutboxDelivery>, AsyncDisposable {
  /** Ends the iteration and releases records that were yielded and not settled. Idempotent. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * Yields the records of an outbox one by one, for applications that publish them in their own way; a `Relay` publishes in batches. Single use.
 * Leaving the loop releases records that were claimed and not yielded. A yielded record stays leased and is renewed until it is settled or the source
 * is disposed. While the store is unavailable the source waits. With order `perKey` it yields the first record of each key and the next when that one
 * is acked; a `Relay` is faster.
 */
export function outboxSource(store: OutboxStore, options: OutboxSourceOptions = {}): OutboxSource {
  checkFunction('store.claim', store?.claim)
  const { signal, ...claiming } = options
  const settings = claimingSettings(claiming, store)
  store.inheritPorts?.(settings.shared)
  return new StoreReader(store, settings, signal)
}

class StoreReader implements OutboxSource {
  readonly #store: OutboxStore
  readonly #settings: ClaimingSettings
  readonly #signal: AbortSignal | undefined
  readonly #ending = new AbortController()
  readonly #calls: StoreCalls
  readonly #keeper: LeaseKeeper<ClaimedRecord>
  readonly #queue: SettleQueue
  readonly #meter: OutboxMeter
  readonly #poll: PollPause
  readonly #deliveries: AsyncGenerator<OutboxDelivery, void, void>

  constructor(store: OutboxStore, settings: ClaimingSettings, signal: AbortSignal | undefined) {
    const { runtime, lease, metrics } = settings
    this.#store = store
    this.#settings = settings
    this.#signal = signal
    this.#calls = new StoreCalls(settings)
    this.#queue = new SettleQueue(store, this.#calls)
    this.#meter = new OutboxMeter(metrics)
    this.#poll = new PollPause(runtime, settings)
    this.#deliveries = this.#read()
    const onLost = (records: readonly ClaimedRecord[]) => this.#meter.count('leasesLost', records)
    this.#keeper = new LeaseKeeper({ store, calls: this.#calls, lease, runtime, onLost })
  }

  [Symbol.asyncIterator](): AsyncGenerator<OutboxDelivery, void, void> {
    return this.#deliveries
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end()
    await this.#deliveries.return()
    await this.#queue.drained()
    for (const lease of this.#keeper.leases) await this.#releaseAll(lease, lease.claims)
    this.#calls.close()
    await leaveStore(this.#store, this.#settings)
  }

  async *#read(): AsyncGenerator<OutboxDelivery, void, void> {
    const { batchSize, maxBatchBytes, lease, runtime, logger } = this.#settings
    const { signal } = this.#ending
    const onAbort = () => this.#end()
    if (this.#signal?.aborted === true) onAbort()
    this.#signal?.addEventListener('abort', onAbort, { once: true })
    // The pulling code has an async context of its own, which must not leak into the work between two pulls.
    const following = outside(() => followWakeUps(this.#store, () => this.#poll.wake(), { signal, runtime, logger }))
    try {
      while (!signal.aborted) {
        this.#poll.polling()
        const claimed = await outside(() => this.#claim())
        const isFull = claimed.size >= batchSize || bytesOf(claimed.claims) >= maxBatchBytes / 2
        const found = claimed.size > 0
        yield* this.#yieldAll(claimed)
        if (!isFull && !signal.aborted) await this.#poll.wait({ found, atMost: maxPause(this.#store, lease) })
      }
    } finally {
      this.#signal?.removeEventListener('abort', onAbort)
      this.#end()
      await following
    }
  }

  #end(): void {
    this.#ending.abort()
    this.#poll.wake()
  }

  async #claim(): Promise<Lease<ClaimedRecord>> {
    const { batchSize: limit, maxBatchBytes: maxBytes, lease, runtime, destinations } = this.#settings
    let until = 0
    const call = () => {
      until = runtime.monotonic() + lease
      return this.#store.claim({ limit, maxBytes, lease, destinations })
    }
    const onLate = (late: readonly ClaimedRecord[]) => void this.#release(late, 0)
    let records: readonly ClaimedRecord[] = []
    try {
      records = await this.#calls.run(call, { signal: this.#ending.signal, onLate })
    } catch (error) {
      if (!this.#ending.signal.aborted) throw error
    }
    this.#meter.batch(records.length)
    if (!isOrdered(this.#store)) return this.#keeper.hold(records, until)
    const first = runsOf(records).map(([one]) => one)
    const held = this.#keeper.hold(first, until)
    await this.#release(
      records.filter((record) => !first.includes(record)),
      until,
    )
    return held
  }

  async *#yieldAll(lease: Lease<ClaimedRecord>): AsyncGenerator<OutboxDelivery, void, void> {
    const records = lease.claims
    let next = 0
    try {
      for (const record of records) {
        // After a stall another reader may own the rest.
        if (this.#ending.signal.aborted || lease.expired) return
        next += 1
        if (!lease.holds(record)) continue
        const parked = exhausted(record, this.#settings.maxAttempts)
        if (parked === undefined) yield this.#deliver(lease, record)
        else this.#settle(lease, record, parked).catch(() => {})
      }
    } finally {
      await this.#releaseAll(lease, records.slice(next))
    }
  }

  #deliver(lease: Lease<ClaimedRecord>, record: ClaimedRecord): OutboxDelivery {
    const settings = this.#settings
    const acking: AckCallbacks = {
      ack: () => this.#settle(lease, record, published(record)),
      nack: (error, { retryAfter }) => {
        const backoff = retryAfter === undefined ? settings.backoff : () => retryAfter
        return this.#settle(lease, record, failed(record, { error }, { ...settings, backoff }))
      },
      reject: (error) => this.#settle(lease, record, failed(record, { error, permanent: true }, settings)),
    }
    const { data, attributes } = record.message
    return { destination: record.destination, message: new Message(data, attributes, { acking, deliveryCount: record.attempts }) }
  }

  async #settle(lease: Lease<ClaimedRecord>, record: ClaimedRecord, outcome: Outcome): Promise<void> {
    if (!lease.holds(record)) throw leaseLost(record.id)
    this.#keeper.drop(lease, [record])
    try {
      await this.#queue.add(outcome, lease.until)
      this.#meter.count(outcome.result, [record])
      // The next record of its key can be claimed now, and no notification announces that.
      if (isOrdered(this.#store)) this.#poll.wake()
    } catch (error) {
      this.#meter.count('leasesLost', [record])
      throw error
    }
  }

  async #releaseAll(lease: Lease<ClaimedRecord>, records: readonly ClaimedRecord[]): Promise<void> {
    const held = records.filter((record) => lease.holds(record))
    this.#keeper.drop(lease, held)
    await this.#release(held, lease.until)
  }

  async #release(records: readonly ClaimedRecord[], until: number): Promise<void> {
    if (records.length === 0) return
    const late = until <= this.#settings.runtime.monotonic()
    try {
      await outside(() => this.#calls.run(() => this.#store.release(records), { until }))
      this.#meter.count(late ? 'leasesLost' : 'released', records)
    } catch {
      // The records wait for the lease to expire.
      this.#meter.count('leasesLost', records)
    }
  }
}
