import { setMaxListeners } from 'node:events'
import { probe, type Timer } from '@ackord/core'
import { linkedController, messageOf } from '@ackord/core/internal'
import { isOrdered } from '../options/key-order.ts'
import type { RelaySettings } from '../options/relay-options.ts'
import type { ClaimedRecord, OutboxStore } from '../store/outbox-store.ts'
import type { BatchSlot } from './batch-slots.ts'
import type { ByteBudget } from './byte-budget.ts'
import type { DeadLetters } from './dead-letters.ts'
import type { DestinationPauses } from './destination-pauses.ts'
import { groupBy } from './group-by.ts'
import { type Lease, LeaseKeeper, leaseMargin } from './lease-keeper.ts'
import { parked, type Verdict } from './outcomes.ts'
import { publishGroup, type Sending, screenRecord } from './publish-group.ts'
import { publishInOrder } from './publish-in-order.ts'
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
  /** Told what is in memory no more. */
  readonly budget: ByteBudget
  /** Called when a slow destination has answered, and what it had is settled. */
  readonly onFreed: () => void
  /** Aborted when the relay stops: what is not on its way yet goes back. */
  readonly stopping: AbortSignal
  /** Aborted when that took too long: what is on its way is given up. */
  readonly forced: AbortSignal
}

/** Records of one destination that are being published. */
interface Part {
  readonly destination: string
  readonly records: readonly ClaimedRecord[]
  readonly published: Promise<readonly Verdict[]>
  /** When they are published. */
  verdicts: readonly Verdict[] | undefined
  /** Whether its batch did not wait for it. */
  slow: boolean
}

interface Batch {
  readonly lease: Lease<ClaimedRecord>
  readonly giveUp: AbortSignal
  readonly slot: BatchSlot | undefined
}

export interface CarryOptions {
  readonly slot?: BatchSlot | undefined
  /** Whether it resolves when all is settled, however long a destination takes. Default: false. */
  readonly whole?: boolean | undefined
}

/** A destination that takes longer than this, in milliseconds, is waited for apart from its batch. */
const slowAfter = 100

/**
 * Takes claimed records, wherever they came from, to their destinations and tells the store what became of them. A batch's way:
 *
 *     claimed ─▶ one publish() per destination, all at once, or in key order wave by wave; the lease is renewed meanwhile
 *             ─▶ one settle() for all that have an outcome, one release() for those that have none
 *             ─▶ what is to be parked: a copy to the dead letter, if there is one, and then a settle() of its own; of the batch nothing waits for that but itself
 *
 * A destination that has not answered after a tenth of a second holds up neither the others of its batch nor the next one: these are settled without it, and it
 * is settled by itself when it answers.
 *
 * A crash anywhere before the settle leaves the records leased; whoever claims them after that publishes them again.
 */
export class BatchCarrier {
  readonly #options: BatchCarrierOptions
  readonly #keeper: LeaseKeeper<ClaimedRecord>
  /** How many publishes are under way to each destination. A slow one counts until it is settled: it has no slot that the next batch would wait for. */
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

  /** Destinations that have as many publishes under way as they may have. */
  get busyDestinations(): readonly string[] {
    const { concurrency } = this.#options.settings
    const busy: string[] = []
    for (const [destination, count] of this.#sending) if (count >= concurrency) busy.push(destination)
    return busy
  }

  /** Resolves when nothing is under way any more that its batch did not wait for. */
  async drained(): Promise<void> {
    while (this.#slow.size > 0) await Promise.all(this.#slow)
  }

  /**
   * `until` is when the lease ends if nobody renews it. Waits for its turn if it has a slot, and ends that. Resolves when everything is settled, given back
   * or lost, except for what slow destinations have. Never rejects.
   */
  async carry(records: readonly ClaimedRecord[], until: number, options: CarryOptions = {}): Promise<void> {
    const { observer, stopping, forced } = this.#options
    const { slot, whole = false } = options
    observer.claimed(records)
    this.#inFlight += records.length
    const lease = this.#keeper.hold(records, until)
    // Not the signal of the whole run itself: what listens to it must not outlive the batch.
    const forcing = linkedController(forced)
    const giveUp = AbortSignal.any([forcing.signal, lease.signal])
    // Every destination of the batch listens to it, and Node takes more than ten for a leak.
    setMaxListeners(0, giveUp)
    const batch = { lease, giveUp, slot }
    let slow: readonly Part[] = []
    const end = () => {
      this.#keeper.end(lease)
      forcing[Symbol.dispose]()
    }
    try {
      await reached('relay.claimed')
      const inTime = await this.#turn(lease, slot)
      const parts = stopping.aborted || !inTime ? [] : this.#send(records, batch)
      slow = await this.#gather(parts, whole)
      if (slow.length > 0) this.#follow(slow, batch, end)
      const left = new Set(slow.flatMap((part) => part.records))
      const settling = left.size === 0 ? records : records.filter((record) => !left.has(record))
      const verdicts = parts.flatMap((part) => (part.slow ? [] : (part.verdicts ?? [])))
      if (settling.length > 0) await this.#finish(settling, verdicts, batch)
    } finally {
      if (slow.length === 0) end()
      slot?.end()
    }
  }

  /** Waits for the parts, but not for slow ones, which it gives. */
  async #gather(parts: readonly Part[], whole: boolean): Promise<readonly Part[]> {
    const { runtime } = this.#options.settings
    const all = Promise.all(parts.map(({ published }) => published))
    if (whole || parts.length === 0) {
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

  /** Settles each of them when its destination has answered. */
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

  /** Gives whether the records may still be sent: after a stall somebody else may have them, and sending them now would be a duplicate for certain. */
  async #turn(lease: Lease<ClaimedRecord>, slot: BatchSlot | undefined): Promise<boolean> {
    const { stopping, settings } = this.#options
    const { runtime, lease: duration } = settings
    const claimedAt = runtime.monotonic()
    await slot?.begin(stopping)
    if (lease.expired) return false
    // What has waited for long was renewed meanwhile. If it was not, the store is away, and would not take outcomes in the little time that is left.
    const enough = duration * leaseMargin
    return runtime.monotonic() - claimedAt < enough || lease.until - runtime.monotonic() >= enough
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

  async #sendTo(destination: string, records: readonly ClaimedRecord[], { lease, giveUp }: Batch): Promise<readonly Verdict[]> {
    const { store, settings, stopping } = this.#options
    const publish = (some: readonly ClaimedRecord[]) => this.#publish(destination, some, giveUp)
    if (isOrdered(store)) return await publishInOrder(records, { ...settings, lease, stopping, publish })
    return await publish(records.filter((record) => lease.holds(record)))
  }

  async #publish(destination: string, records: readonly ClaimedRecord[], giveUp: AbortSignal): Promise<readonly Verdict[]> {
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
    return [...verdicts, ...(await publishGroup(destination, sendings, { settings, pauses, meter, giveUp }))]
  }

  #count(destination: string, change: number): void {
    const count = (this.#sending.get(destination) ?? 0) + change
    if (count === 0) this.#sending.delete(destination)
    else this.#sending.set(destination, count)
  }

  async #settle(records: readonly ClaimedRecord[], verdicts: readonly Verdict[], batch: Batch): Promise<void> {
    const { settler, deadLetters } = this.#options
    const { lease } = batch
    // From here on nobody renews them: an answer about a record that was just settled would look like a loss.
    const parking = deadLetters === undefined ? [] : verdicts.filter((verdict) => isParking(verdict) && lease.holds(verdict.record))
    const settling = verdicts.filter((verdict) => (deadLetters === undefined || !isParking(verdict)) && lease.drop(verdict.record))
    const held = records.filter((record) => lease.holds(record))
    const undecided = parking.length === 0 ? held : without(held, parking)
    this.#drop(lease, undecided)
    await Promise.all([settler.settle(settling, lease.until), settler.giveBack(undecided, lease.until), this.#park(parking, batch)])
  }

  /** The copy first: once the record is parked, nobody would make one. With it the last of the batch is sent. */
  async #park(parking: readonly Verdict[], { lease, giveUp, slot }: Batch): Promise<void> {
    const { settler, deadLetters } = this.#options
    if (deadLetters === undefined || parking.length === 0) {
      slot?.sent()
      return
    }
    let copied: readonly Verdict[] | undefined
    try {
      // After a stall they may be somebody else's, who sends copies too.
      if (!lease.expired) {
        const missing = await deadLetters.send(parking, giveUp)
        copied = parking.map((verdict, index) => withoutCopy(verdict, missing[index]))
      }
    } catch {
      // Given up: they are not parked either, so that whoever comes next sends the copy.
    }
    slot?.sent()
    const held = (copied ?? parking).filter(({ record }) => lease.holds(record))
    const records = held.map(({ record }) => record)
    this.#drop(lease, records)
    await (copied === undefined ? settler.giveBack(records, lease.until) : settler.settle(held, lease.until))
  }

  #drop(lease: Lease<ClaimedRecord>, records: readonly ClaimedRecord[]): void {
    for (const record of records) lease.drop(record)
    if (lease.size === 0) this.#keeper.end(lease)
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

/** So that an operator can tell which parked records the dead letter does not have. */
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
