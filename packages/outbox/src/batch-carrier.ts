import { setMaxListeners } from 'node:events'
import { probe } from '@ackord/core'
import { linkedController } from '@ackord/core/internal'
import type { BatchSlot } from './batch-slots.ts'
import type { DeadLetters } from './dead-letters.ts'
import type { DestinationPauses } from './destination-pauses.ts'
import { groupBy } from './group-by.ts'
import { type Lease, LeaseKeeper, leaseMargin } from './lease-keeper.ts'
import type { ClaimedRecord, OutboxStore } from './outbox-store.ts'
import { parked } from './outcomes.ts'
import { publishGroup } from './publish-group.ts'
import { publishInOrder } from './publish-in-order.ts'
import type { RelayObserver } from './relay-observer.ts'
import type { RelaySettings } from './relay-options.ts'
import { isOrdered } from './relay-order.ts'
import { type Sending, screenRecord } from './screen-record.ts'
import type { Settler } from './settler.ts'
import type { StoreCalls } from './store-calls.ts'
import type { Verdict } from './verdict.ts'

export interface BatchCarrierOptions {
  readonly store: OutboxStore
  readonly settings: RelaySettings
  readonly calls: StoreCalls
  readonly pauses: DestinationPauses
  readonly settler: Settler
  readonly deadLetters: DeadLetters | undefined
  readonly observer: RelayObserver
  /** Aborted when the relay stops: what is not on its way yet goes back. */
  readonly stopping: AbortSignal
  /** Aborted when that took too long: what is on its way is given up. */
  readonly forced: AbortSignal
}

/**
 * Takes claimed records, wherever they came from, to their destinations and tells the store what became of them. A batch's way:
 *
 *     claimed ─▶ one publish() per destination, all at once, or in key order wave by wave; the lease is renewed meanwhile
 *             ─▶ one settle() for all that have an outcome, one release() for those that have none
 *             ─▶ what is to be parked: a copy to the dead letter, if there is one, and then a settle() of its own; of the batch nothing waits for that but itself
 *
 * A crash anywhere before the settle leaves the records leased; whoever claims them after that publishes them again.
 */
export class BatchCarrier {
  readonly #options: BatchCarrierOptions
  readonly #keeper: LeaseKeeper<ClaimedRecord>
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

  /**
   * `until` is when the lease ends if nobody renews it. Waits for its turn if it has a slot, and ends that. Resolves when everything is settled, given back
   * or lost. Never rejects.
   */
  async carry(records: readonly ClaimedRecord[], until: number, slot?: BatchSlot): Promise<void> {
    const { observer, stopping, forced } = this.#options
    observer.claimed(records)
    this.#inFlight += records.length
    const lease = this.#keeper.hold(records, until)
    // Not the signal of the whole run itself: what listens to it must not outlive the batch.
    using forcing = linkedController(forced)
    const giveUp = AbortSignal.any([forcing.signal, lease.signal])
    // Every destination of the batch listens to it, and Node takes more than ten for a leak.
    setMaxListeners(0, giveUp)
    try {
      await reached('relay.claimed')
      const inTime = await this.#turn(lease, slot)
      const verdicts = stopping.aborted || !inTime ? [] : await this.#send(records, lease, giveUp)
      await reached('relay.beforeSettle')
      await this.#settle(lease, verdicts, giveUp, slot)
      await reached('relay.afterSettle')
    } finally {
      this.#keeper.end(lease)
      this.#inFlight -= records.length
      slot?.end()
    }
  }

  /** Gives whether the records may still be sent: after a stall somebody else may have them, and sending them now would be a duplicate for certain. */
  async #turn(lease: Lease<ClaimedRecord>, slot: BatchSlot | undefined): Promise<boolean> {
    const { stopping, settings } = this.#options
    const { runtime, lease: duration } = settings
    const claimedAt = runtime.now()
    await slot?.begin(stopping)
    if (lease.expired) return false
    // What has waited for long was renewed meanwhile. If it was not, the store is away, and would not take outcomes in the little time that is left.
    const enough = duration * leaseMargin
    return runtime.now() - claimedAt < enough || lease.until - runtime.now() >= enough
  }

  #send(records: readonly ClaimedRecord[], lease: Lease<ClaimedRecord>, giveUp: AbortSignal): Promise<readonly Verdict[]> {
    const { store, settings, stopping } = this.#options
    const publish = (some: readonly ClaimedRecord[]) => this.#publish(some, giveUp)
    return isOrdered(store) ? publishInOrder(records, { ...settings, lease, stopping, publish }) : publish(lease.claims)
  }

  async #publish(records: readonly ClaimedRecord[], giveUp: AbortSignal): Promise<readonly Verdict[]> {
    const { settings, pauses, observer } = this.#options
    const { meter } = observer
    const verdicts: Verdict[] = []
    const sendings: Sending[] = []
    for (const record of records) {
      const screened = screenRecord(record, settings)
      if ('outcome' in screened) verdicts.push(screened)
      else sendings.push(screened)
    }
    const groups = groupBy(sendings, ({ record }) => record.destination)
    const published = await Promise.all(
      groups.map(([destination, group]) => publishGroup(destination, group, { settings, pauses, meter, giveUp })),
    )
    return [...verdicts, ...published.flat()]
  }

  async #settle(
    lease: Lease<ClaimedRecord>,
    verdicts: readonly Verdict[],
    giveUp: AbortSignal,
    slot: BatchSlot | undefined,
  ): Promise<void> {
    const { settler, deadLetters } = this.#options
    // From here on nobody renews them: an answer about a record that was just settled would look like a loss.
    const parking = deadLetters === undefined ? [] : verdicts.filter((verdict) => isParking(verdict) && lease.holds(verdict.record))
    const settling = verdicts.filter((verdict) => (deadLetters === undefined || !isParking(verdict)) && lease.drop(verdict.record))
    const undecided = parking.length === 0 ? lease.claims : without(lease.claims, parking)
    this.#drop(lease, undecided)
    await Promise.all([
      settler.settle(settling, lease.until),
      settler.giveBack(undecided, lease.until),
      this.#park(lease, parking, giveUp, slot),
    ])
  }

  /** The copy first: once the record is parked, nobody would make one. With it the last of the batch is sent. */
  async #park(lease: Lease<ClaimedRecord>, parking: readonly Verdict[], giveUp: AbortSignal, slot: BatchSlot | undefined): Promise<void> {
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
  const text = `${outcome.error.slice(0, 1500)} (No copy is in the dead letter: ${failure.message})`
  return { ...verdict, outcome: parked(record, new Error(text)) }
}

async function reached(point: string): Promise<void> {
  const paused = probe(point)
  if (paused !== undefined) await paused
}
