import { setMaxListeners } from 'node:events'
import type { Timer } from '@ackord/core'
import { groupBy, linkedController, messageOf, probe } from '@ackord/core/internal'
import { isOrdered } from '../options/key-order.ts'
import type { RelaySettings } from '../options/relay-options.ts'
import type { ClaimedRecord, OutboxStore } from '../store/outbox-store.ts'
import type { BatchSlot } from './batch-slots.ts'
import type { ByteBudget } from './byte-budget.ts'
import type { DeadLetters } from './dead-letters.ts'
import type { DestinationPauses } from './destination-pauses.ts'
import { type Lease, LeaseKeeper, leaseMargin } from './lease-keeper.ts'
import { parked, type Verdict } from './outcomes.ts'
import { publishGroup, type Sending, screenRecord } from './publish-group.ts'
import { publishInOrder } from './publish-in-order.ts'
import type { TakeTurn } from './publish-turns.ts'
import type { RelayObserver } from './relay-observer.ts'
import type { Settler } from './settler.ts'
import type { StoreCalls } from './store-calls.ts'

export interface BatchCarrierOptions {
  readonly store: OutboxStore
  readonly settings: RelaySettings
  readonly calls: StoreCalls
  readonly pauses: DestinationPauses
  readonly settler: Settler
  readonly deadLetters: DeadLetters | undefined
  readonly observer: RelayObserver
  /** Freed when records leave memory. */
  readonly budget: ByteBudget
  /** Called before a batch is published, where several relays share a limit. Trials of a destination, which may hang, take no turn. */
  readonly takeTurn: TakeTurn | undefined
  /** Called when a slow destination has answered and its records are settled. */
  readonly onFreed: () => void
  /** Aborted when the relay stops: records that are not being published yet are released. */
  readonly stopping: AbortSignal
  /** Aborted when the stop took too long: publishes in flight are abandoned. */
  readonly forced: AbortSignal
}

/** Records of one destination that are being published. */
interface Part {
  readonly destination: string
  readonly records: readonly ClaimedRecord[]
  readonly published: Promise<readonly Verdict[]>
  /** Set once the records are published. */
  verdicts: readonly Verdict[] | undefined
  /** Whether the batch no longer waits for this part. */
  slow: boolean
}

interface Batch {
  readonly lease: Lease<ClaimedRecord>
  /** By the runtime's clock. */
  readonly claimedAt: number
  readonly cancelled: AbortSignal
  readonly slot: BatchSlot | undefined
}

export interface CarryOptions {
  readonly slot?: BatchSlot | undefined
  /** Whether `carry()` resolves only when all records are settled, however slow a destination is. Default: false. */
  readonly waitForAll?: boolean | undefined
}

/** Milliseconds after which a batch stops waiting for a destination that has not answered. */
const slowAfter = 100

/**
 * Publishes claimed records, whether claimed or received on the hot path, and settles them in the store. The steps of a batch:
 *
 *     claimed ─▶ one publish() per destination, concurrently, or with order per key wave by wave; the lease is renewed meanwhile
 *             ─▶ one settle() for all records with an outcome, one release() for those without
 *             ─▶ records to be parked: a copy to the dead letter, if there is one, and then a settle() of their own, which the rest of the batch does not wait for
 *
 * A destination that has not answered after a tenth of a second delays neither the other destinations of its batch nor the next batch: they are
 * settled without it, and its records are settled separately when it answers.
 *
 * A crash anywhere before the settle leaves the records leased; the relay that claims them after the lease expires publishes them again.
 */
export class BatchCarrier {
  readonly #options: BatchCarrierOptions
  readonly #keeper: LeaseKeeper<ClaimedRecord>
  /** The number of publishes in flight per destination. A slow one counts until it is settled: it holds no slot that the next batch would wait for. */
  readonly #sending = new Map<string, number>()
  readonly #slow = new Set<Promise<void>>()
  #inFlight = 0

  constructor(options: BatchCarrierOptions) {
    const { store, calls, settings, observer } = options
    const { lease, runtime } = settings
    this.#options = options
    this.#keeper = new LeaseKeeper({ store, calls, lease, runtime, onLost: (records) => observer.lost(records) })
  }

  /** How many records are being published and settled. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Destinations that have reached their limit of publishes in flight. */
  get busyDestinations(): readonly string[] {
    const { concurrency } = this.#options.settings
    const busy: string[] = []
    for (const [destination, count] of this.#sending) if (count >= concurrency) busy.push(destination)
    return busy
  }

  /** Resolves when all parts are settled that their batches did not wait for. */
  async drained(): Promise<void> {
    while (this.#slow.size > 0) await Promise.all(this.#slow)
  }

  /**
   * `until` is when the lease ends unless it is renewed. If the batch has a slot, waits for its turn, and ends the slot. Resolves when all records
   * are settled, released or lost, except those of slow destinations. Never rejects.
   */
  async carry(records: readonly ClaimedRecord[], until: number, options: CarryOptions = {}): Promise<void> {
    const { observer, stopping, forced, takeTurn } = this.#options
    const { slot, waitForAll = false } = options
    observer.claimed(records)
    this.#inFlight += records.length
    const lease = this.#keeper.hold(records, until)
    // Not the signal of the whole run: listeners must not outlive the batch.
    const forcing = linkedController(forced)
    const cancelled = AbortSignal.any([forcing.signal, lease.signal])
    // Every destination of the batch listens to it. Avoids Node's MaxListenersExceededWarning.
    setMaxListeners(0, cancelled)
    const batch = { lease, cancelled, slot, claimedAt: until - this.#options.settings.lease }
    let slow: readonly Part[] = []
    let endTurn = () => {}
    const end = () => {
      this.#keeper.end(lease)
      forcing[Symbol.dispose]()
    }
    try {
      await reached('relay.claimed')
      const waitingSince = this.#options.settings.runtime.monotonic()
      await slot?.begin(stopping)
      if (takeTurn !== undefined && !waitForAll) endTurn = await takeTurn(stopping)
      const parts = stopping.aborted || !this.#isInTime(lease, waitingSince) ? [] : this.#send(records, batch)
      slow = await this.#gather(parts, waitForAll)
      // Before the store is called: a store that does not answer must not use the turns of others.
      endTurn()
      if (slow.length > 0) this.#follow(slow, batch, end)
      const left = new Set(slow.flatMap((part) => part.records))
      const settling = left.size === 0 ? records : records.filter((record) => !left.has(record))
      const answered = parts.flatMap((part) => (part.slow || part.verdicts === undefined ? [] : [part.verdicts]))
      // Most batches have one destination.
      const verdicts = answered.length === 1 ? (answered[0] as readonly Verdict[]) : answered.flat()
      if (settling.length > 0) await this.#finish(settling, verdicts, batch)
    } finally {
      if (slow.length === 0) end()
      endTurn()
      slot?.end()
    }
  }

  /** Waits for all parts except slow ones, which it returns. */
  async #gather(parts: readonly Part[], waitForAll: boolean): Promise<readonly Part[]> {
    const { runtime } = this.#options.settings
    const all = Promise.all(parts.map(({ published }) => published))
    if (waitForAll || parts.length === 0) {
      await all
      return []
    }
    let timer: Timer | undefined
    const patience = new Promise<void>((resolve) => {
      timer = runtime.setTimeout(resolve, slowAfter)
    })
    await Promise.race([all, patience])
    timer?.cancel()
    const slow = parts.filter(({ verdicts }) => verdicts === undefined)
    for (const part of slow) part.slow = true
    return slow
  }

  /** Settles each slow part when its destination has answered. */
  #follow(parts: readonly Part[], batch: Batch, end: () => void): void {
    const follow = async (part: Part) => {
      try {
        await this.#finish(part.records, await part.published, { ...batch, slot: undefined })
      } finally {
        this.#count(part.destination, -1)
      }
      this.#options.onFreed()
    }
    const following = Promise.all(parts.map(follow)).then(end, end)
    const tracked: Promise<void> = following.finally(() => this.#slow.delete(tracked))
    this.#slow.add(tracked)
  }

  async #finish(records: readonly ClaimedRecord[], verdicts: readonly Verdict[], batch: Batch): Promise<void> {
    try {
      await reached('relay.beforeSettle')
      await this.#settle(records, verdicts, batch)
      await reached('relay.afterSettle')
    } finally {
      this.#inFlight -= records.length
      this.#options.budget.free(records)
    }
  }

  /** Whether the records may still be sent: after a stall another relay may have claimed them, and sending them now would certainly be a duplicate. */
  #isInTime(lease: Lease<ClaimedRecord>, waitingSince: number): boolean {
    const { runtime, lease: duration } = this.#options.settings
    if (lease.expired) return false
    // Records that waited for long should have been renewed meanwhile. If they were not, the store is unreachable, and would not accept outcomes in
    // the little time left.
    const enough = duration * leaseMargin
    return runtime.monotonic() - waitingSince < enough || lease.until - runtime.monotonic() >= enough
  }

  #send(records: readonly ClaimedRecord[], batch: Batch): readonly Part[] {
    return groupBy(records, ({ destination }) => destination).map(([destination, some]) => {
      this.#count(destination, 1)
      const published = this.#sendTo(destination, some, batch)
      const part: Part = { destination, records: some, published, verdicts: undefined, slow: false }
      const sent = () => {
        if (!part.slow) this.#count(destination, -1)
      }
      void published.then((verdicts) => {
        part.verdicts = verdicts
        sent()
      }, sent)
      return part
    })
  }

  async #sendTo(
    destination: string,
    records: readonly ClaimedRecord[],
    { lease, cancelled, claimedAt }: Batch,
  ): Promise<readonly Verdict[]> {
    const { store, settings, stopping } = this.#options
    const publish = (some: readonly ClaimedRecord[]) => this.#publish(destination, some, { cancelled, claimedAt })
    if (isOrdered(store)) return await publishInOrder(records, { ...settings, lease, stopping, publish })
    return await publish(records.filter((record) => lease.holds(record)))
  }

  async #publish(
    destination: string,
    records: readonly ClaimedRecord[],
    batch: Pick<Batch, 'cancelled' | 'claimedAt'>,
  ): Promise<readonly Verdict[]> {
    const { settings, pauses, observer } = this.#options
    const { meter } = observer
    const verdicts: Verdict[] = []
    const sendings: Sending[] = []
    for (const record of records) {
      const screened = screenRecord(record, settings)
      if ('outcome' in screened) verdicts.push(screened)
      else sendings.push(screened)
    }
    if (sendings.length === 0) return verdicts
    const published = await publishGroup(destination, sendings, { settings, pauses, meter, ...batch })
    return verdicts.length === 0 ? published : [...verdicts, ...published]
  }

  #count(destination: string, change: number): void {
    const count = (this.#sending.get(destination) ?? 0) + change
    if (count === 0) this.#sending.delete(destination)
    else this.#sending.set(destination, count)
  }

  async #settle(records: readonly ClaimedRecord[], verdicts: readonly Verdict[], batch: Batch): Promise<void> {
    const { settler, deadLetters } = this.#options
    const { lease } = batch
    // From here on they are not renewed: an answer about a record that was just settled would look like a lost lease.
    const parking = deadLetters === undefined ? [] : verdicts.filter((verdict) => isParking(verdict) && lease.holds(verdict.record))
    const settling = verdicts.filter((verdict) => (deadLetters === undefined || !isParking(verdict)) && lease.drop(verdict.record))
    const held = records.filter((record) => lease.holds(record))
    const undecided = parking.length === 0 ? held : without(held, parking)
    this.#keeper.drop(lease, undecided)
    await Promise.all([settler.settle(settling, lease.until), settler.release(undecided, lease.until), this.#park(parking, batch)])
  }

  /** Sends the copies first: once a record is parked, no relay would send one. The dead letters are the last messages that the batch publishes. */
  async #park(parking: readonly Verdict[], { lease, cancelled, slot }: Batch): Promise<void> {
    const { settler, deadLetters } = this.#options
    if (deadLetters === undefined || parking.length === 0) {
      slot?.sent()
      return
    }
    let copied: readonly Verdict[] | undefined
    try {
      // After a stall another relay may own the records, and sends the copies.
      if (!lease.expired) {
        const missing = await deadLetters.send(parking, cancelled)
        copied = parking.map((verdict, index) => withoutCopy(verdict, missing[index]))
      }
    } catch {
      // Cancelled by a forced stop or a lost lease: the records are not parked either, so that the next relay sends the copies.
    }
    slot?.sent()
    const held = (copied ?? parking).filter(({ record }) => lease.holds(record))
    const records = held.map(({ record }) => record)
    this.#keeper.drop(lease, records)
    await (copied === undefined ? settler.release(records, lease.until) : settler.settle(held, lease.until))
  }
}

function isParking({ outcome }: Verdict): boolean {
  return outcome.result === 'parked'
}

function without(records: readonly ClaimedRecord[], verdicts: readonly Verdict[]): readonly ClaimedRecord[] {
  const left = new Set(records)
  for (const { record } of verdicts) left.delete(record)
  return [...left]
}

/** Lets an operator see which parked records have no copy in the dead letter. */
function withoutCopy(verdict: Verdict, failure: Error | undefined): Verdict {
  const { record, outcome } = verdict
  if (failure === undefined || outcome.result !== 'parked') return verdict
  const text = `${outcome.error.slice(0, 1500)} (No copy is in the dead letter: ${messageOf(failure)})`
  return { ...verdict, outcome: parked(record, new Error(text)) }
}

async function reached(point: string): Promise<void> {
  const paused = probe(point)
  if (paused !== undefined) await paused
}
