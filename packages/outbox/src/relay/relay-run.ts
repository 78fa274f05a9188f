import { idle, type Timer } from '@ackord/core'
import { BatchCarrier, type CarryOptions } from '../delivery/batch-carrier.ts'
import { BatchSlots } from '../delivery/batch-slots.ts'
import { ByteBudget, bytesOf } from '../delivery/byte-budget.ts'
import { DeadLetters } from '../delivery/dead-letters.ts'
import { DestinationPauses } from '../delivery/destination-pauses.ts'
import { runsOf } from '../delivery/publish-in-order.ts'
import type { TakeTurn } from '../delivery/publish-turns.ts'
import type { RelayObserver } from '../delivery/relay-observer.ts'
import { Settler } from '../delivery/settler.ts'
import { StoreCalls } from '../delivery/store-calls.ts'
import { behindParked, isOrdered, leaveStore, maxPause } from '../options/key-order.ts'
import type { RelaySettings } from '../options/relay-options.ts'
import type { ClaimedRecord, ClaimOptions, OutboxStore } from '../store/outbox-store.ts'
import { partitionRanges } from '../store/partition-ranges.ts'
import type { DrainGoal, DrainReason } from './drain.ts'
import { HotPath } from './hot-path.ts'
import { OperatorPauses } from './operator-pauses.ts'
import { followWakeUps, PollPause } from './polling.ts'
import { sendReports } from './relay-reports.ts'
import { Shutdown } from './shutdown.ts'

interface ClaimedBatch {
  readonly records: readonly ClaimedRecord[]
  /** When the lease ends unless it is renewed. */
  readonly until: number
}

export interface RelayRunOptions {
  readonly store: OutboxStore
  readonly settings: RelaySettings
  readonly observer: RelayObserver
  /** Background work that runs until the signal is aborted. Must not reject. */
  readonly background: readonly ((signal: AbortSignal) => Promise<void>)[]
  /** Where several relays share a limit of publishes. */
  readonly takeTurn: TakeTurn | undefined
  /** For a run that ends when nothing is left: it does not poll, follows no notifications, and has no hot path. Default: it runs until `stop()`. */
  readonly goal?: DrainGoal | undefined
}

/** Milliseconds that the store gets for outcomes and releases after a stop was forced. */
const lastCalls = 2000

/** Milliseconds for which a drain waits for a store that does not answer. */
const storePatience = 10_000

/** The number of full batches that may be in memory per slot, most of them at slow destinations: up to this many slow destinations do not delay others. */
const maxBatches = 16

/** One run of a relay, from its start to the end of its stop. */
export class RelayRun {
  readonly calls: StoreCalls
  readonly pauses: DestinationPauses
  readonly ended: Promise<void>
  readonly #store: OutboxStore
  readonly #settings: RelaySettings
  readonly #observer: RelayObserver
  readonly #shutdown: Shutdown
  readonly #settler: Settler
  readonly #carrier: BatchCarrier
  readonly #hot: HotPath
  readonly #poll: PollPause
  readonly #slots: BatchSlots
  readonly #operatorPauses: OperatorPauses
  readonly #budget: ByteBudget
  readonly #goal: DrainGoal | undefined
  readonly #batches = new Set<Promise<void>>()
  readonly #trials = new Set<Promise<void>>()
  /** Whether the next batch only claims records that have never failed. */
  #freshOnly = false
  /** The number of further claims that may have been ended by the byte limit, and so are followed by another claim immediately. */
  #mayBeCut = 0
  /** With order per key: whether there are so few keys that a claim during a batch finds little, because all of them wait for that batch. */
  #oneByOne = false
  /** The number of lost records at the last moment when none of them could still be in flight. */
  #lostBefore: number

  constructor({ store, settings, observer, background, takeTurn, goal }: RelayRunOptions) {
    const { runtime, logger, lease, batchSize, concurrency, destinationBackoff, shutdownTimeout } = settings
    this.#goal = goal
    this.#store = store
    this.#settings = settings
    this.#observer = observer
    this.#lostBefore = observer.meter.totals.leasesLost
    this.#slots = new BatchSlots(concurrency)
    this.#operatorPauses = new OperatorPauses(store.notes, runtime)
    // In each slot, one batch is sent or settled while the next is claimed.
    const records = maxBatches * concurrency * batchSize
    this.#budget = new ByteBudget({
      // In a group they change with the number of stores.
      get bytes() {
        return 2 * concurrency * settings.maxBatchBytes
      },
      get claim() {
        return settings.maxBatchBytes
      },
      records,
    })
    this.#shutdown = new Shutdown(runtime, goal === undefined ? shutdownTimeout : goal.shutdownTimeout)
    this.calls = new StoreCalls({
      runtime,
      logger,
      lease,
      onDown: (error) => observer.storeDown(error),
      onUp: (downFor) => observer.storeUp(downFor),
    })
    this.pauses = new DestinationPauses({
      backoff: destinationBackoff,
      batchSize,
      runtime,
      logger,
      onDown: (destination, error) => observer.destinationDown(destination, error),
      onUp: (destination, downFor) => observer.destinationUp(destination, downFor),
    })
    this.#settler = new Settler({ store, calls: this.calls, observer, runtime, lease, logger })
    this.#carrier = this.#createCarrier(takeTurn)
    this.#hot = this.#createHotPath()
    this.#poll = new PollPause(runtime, settings)
    this.ended = this.#run(background)
  }

  get stopping(): boolean {
    return this.#shutdown.stopping.aborted
  }

  get inFlight(): number {
    return this.#carrier.inFlight
  }

  /** Destinations whose records are not claimed: they are down, or an operator has paused them. */
  get skipped(): readonly string[] {
    return [...new Set([...this.pauses.destinations, ...this.#operatorPauses.destinations])]
  }

  wake(): void {
    this.#poll.wake()
  }

  async stop(): Promise<void> {
    this.#stopBecause('aborted')
    await this.ended
  }

  /** The reason is that of a drain. */
  #stopBecause(reason: DrainReason): void {
    this.#goal?.end(reason)
    this.#shutdown.begin()
    this.#poll.wake()
  }

  #createCarrier(takeTurn: TakeTurn | undefined): BatchCarrier {
    const settings = this.#settings
    const { deadLetter, publishTimeout: timeout, destinationBackoff: backoff, runtime, logger } = settings
    const observer = this.#observer
    const { stopping, forced } = this.#shutdown
    return new BatchCarrier({
      store: this.#store,
      settings,
      calls: this.calls,
      pauses: this.pauses,
      settler: this.#settler,
      deadLetters: deadLetter && new DeadLetters({ deadLetter, timeout, backoff, runtime, logger, observer }),
      observer,
      budget: this.#budget,
      takeTurn,
      onFreed: () => this.#poll.wake(),
      stopping,
      forced,
    })
  }

  #createHotPath(): HotPath {
    const { lease, batchSize, runtime, destinations } = this.#settings
    return new HotPath({
      lease,
      batchSize,
      slots: this.#slots,
      runtime,
      serves: (destination) =>
        !this.#budget.isFull && destinations?.includes(destination) !== false && !this.#avoided.includes(destination),
      carry: (records, until, slot) => {
        this.#budget.add(records)
        return this.#carrier.carry(records, until, { slot })
      },
      release: (records, until) => this.#settler.release(records, until),
    })
  }

  async #run(background: RelayRunOptions['background']): Promise<void> {
    const { runtime, logger, pollInterval } = this.#settings
    const { stopping: signal, forced } = this.#shutdown
    const goal = this.#goal
    const within = Math.min(lastCalls, goal?.reserve ?? lastCalls)
    forced.addEventListener('abort', () => this.calls.close({ within }), { once: true })
    const others = goal === undefined ? this.#accompany(background) : []
    const detach = goal === undefined ? this.#store.attach?.(this.#hot) : undefined
    const deadline = goal === undefined || goal.remaining === Infinity ? undefined : this.#endAt(goal.remaining)
    while (!this.stopping && goal?.reason === undefined) {
      if (goal?.remaining === 0) {
        goal.end('deadline')
        break
      }
      try {
        await this.#round()
      } catch (error) {
        if (goal !== undefined) {
          logger.error({ err: error }, 'The drain of the outbox ended: its records could not be claimed.')
          goal.end('down')
          break
        }
        // Only a port that violates its contract gets here. The relay continues; otherwise nothing would be published any more.
        logger.error({ err: error }, 'A round of the relay failed unexpectedly; the relay continues.')
        await idle(runtime, pollInterval, signal)
      }
    }
    deadline?.cancel()
    this.#shutdown.begin()
    detach?.()
    await Promise.all([this.#hot.close(), ...this.#batches, ...this.#trials])
    await this.#carrier.drained()
    this.#shutdown.end()
    this.calls.close()
    await Promise.all(others)
    await leaveStore(this.#store, { runtime, logger, limit: goal?.untilDeadline })
    this.#observer.ended(this.pauses.destinations)
  }

  /** What runs beside the claims of a relay that was started. */
  #accompany(background: RelayRunOptions['background']): readonly Promise<void>[] {
    const { runtime, logger } = this.#settings
    const { stopping: signal } = this.#shutdown
    const following = followWakeUps(this.#store, () => this.#poll.wake(), { signal, runtime, logger })
    return [following, ...background.map((work) => work(signal)), this.#report(signal)]
  }

  #endAt(remaining: number): Timer {
    return this.#settings.runtime.setTimeout(() => this.#stopBecause('deadline'), remaining)
  }

  async #report(signal: AbortSignal): Promise<void> {
    const { notes } = this.#store
    if (notes === undefined) return
    const { runtime, destinations } = this.#settings
    const state = () => {
      const owned = this.#store.ownedPartitions?.()
      const ownedPartitions = owned === undefined || owned.length === 0 ? undefined : partitionRanges(owned)
      return { inFlight: this.inFlight, down: this.pauses.downFor, partitions: owned?.length, ownedPartitions }
    }
    await sendReports({ notes, runtime, meter: this.#observer.meter, destinations, state }, signal)
  }

  async #round(): Promise<void> {
    const { batchSize, maxBatchBytes } = this.#settings
    if (this.#oneByOne) await this.#room()
    await this.#leaveIfLost()
    for (const destination of this.pauses.takeDue()) track(this.#trials, this.#try(destination))
    const retried = this.#freshOnly ? 'never' : undefined
    const records = await this.#next(retried)
    this.#countDown(records, maxBatchBytes)
    const full = records.length >= batchSize || this.#mayBeCut > 0
    // Excluded destinations were not searched: only a claim for all destinations shows that there is nothing more.
    if (!full && retried === undefined) {
      if (this.#goal === undefined) {
        await this.#room()
        await this.#poll.wait({ found: records.length > 0, atMost: this.#maxPause })
      } else await this.#awaitMore(this.#goal, records.length > 0)
    }
    this.#freshOnly = full && retried === undefined && this.#isWaveOfRetries(records)
  }

  /**
   * A drain has claimed what there was. It ends if nothing is in flight that could free other records, such as the next ones of a key, and if no destination is about to be
   * tried again.
   */
  async #awaitMore(goal: DrainGoal, found: boolean): Promise<void> {
    const { runtime, lease } = this.#settings
    const inFlight = this.#batches.size > 0 || this.#trials.size > 0 || this.#carrier.inFlight > 0
    await Promise.all([...this.#batches, ...this.#trials])
    await this.#carrier.drained()
    if (goal.isReached) goal.end('limit')
    if (found || inFlight || this.#hasLost || goal.reason !== undefined) return
    const { failing, nextTrial } = this.pauses.outlook(goal.maxFailures)
    if (nextTrial < goal.remaining) await idle(runtime, Math.min(nextTrial, maxPause(this.#store, lease)), this.#shutdown.stopping)
    else goal.end(failing ? 'down' : 'empty')
  }

  /**
   * The store does not report whether the byte limit ended a claim; if it may have, the next claim finds out. After a large record another one may
   * follow soon, and end a claim that has hardly any bytes.
   */
  #countDown(records: readonly ClaimedRecord[], maxBatchBytes: number): void {
    if (bytesOf(records) >= maxBatchBytes / 2) this.#mayBeCut = claimsAfterLarge
    else this.#mayBeCut = records.length === 0 ? 0 : Math.max(0, this.#mayBeCut - 1)
  }

  async #room(): Promise<void> {
    while (this.#isBusy) await Promise.race(this.#batches)
  }

  get #isBusy(): boolean {
    return this.#batches.size >= this.#settings.concurrency
  }

  /**
   * Claims a batch when there is a slot for it, and carries it in the background. Does not claim while others are being sent: a claimed batch then
   * waits for the store only.
   */
  async #next(retried: ClaimOptions['retried']): Promise<readonly ClaimedRecord[]> {
    const { batchSize, destinations } = this.#settings
    const slot = await this.#slots.acquire()
    const limit = this.#goal === undefined ? batchSize : this.#goal.beginClaim(batchSize, this.inFlight)
    let carrying: Promise<void> | undefined
    try {
      // A drain has claimed as many records as it may.
      if (limit === 0) return []
      // The wake-up of a concurrent stop would be mistaken for one that this poll answers. A relay that has lost records leaves first.
      if (this.stopping || this.#hasLost) return []
      this.#poll.polling()
      await this.#operatorPauses.refresh()
      const avoided = this.#avoided
      const except = avoided.length === 0 ? undefined : avoided
      const background = this.#isBusy
      const batch = await this.#claim({ limit, destinations, except, retried })
      if (batch.records.length < limit) this.#oneByOne = background && isOrdered(this.#store)
      if (batch.records.length > 0) carrying = this.#carry(batch, { slot })
      return batch.records
    } finally {
      this.#goal?.endClaim(limit)
      if (carrying === undefined) slot.end()
      else track(this.#batches, carrying)
    }
  }

  /** Destinations that are down, those that operators have paused, and those that have reached their limit of publishes in flight. */
  get #avoided(): readonly string[] {
    const { busyDestinations } = this.#carrier
    const { destinations } = this.pauses
    const { destinations: paused } = this.#operatorPauses
    if (busyDestinations.length === 0 && paused.length === 0) return destinations
    return [...new Set([...destinations, ...paused, ...busyDestinations])]
  }

  get #hasLost(): boolean {
    return isOrdered(this.#store) && this.#observer.meter.totals.leasesLost > this.#lostBefore
  }

  /**
   * With order per key, records that the relay could neither settle nor release remain in flight in the store for as long as the relay claims: their
   * keys would be stuck. By leaving while nothing else is in flight the relay starts anew, and the records are taken over as from a crashed relay.
   */
  async #leaveIfLost(): Promise<void> {
    if (!this.#hasLost) return
    await Promise.all([...this.#batches, ...this.#trials])
    await this.#carrier.drained()
    const { runtime, lease } = this.#settings
    this.#lostBefore = this.#observer.meter.totals.leasesLost
    try {
      await this.calls.run(async () => await this.#store.leave?.(), { until: runtime.monotonic() + lease, signal: this.#shutdown.stopping })
    } catch {
      // The relay is stopping, or has claimed nothing for the duration of a lease, which has the same effect.
    }
  }

  get #maxPause(): number {
    return Math.min(this.pauses.nextTrial, maxPause(this.#store, this.#settings.lease))
  }

  /**
   * With order per key it is followed by another poll immediately: records that waited behind this batch can be claimed now, and no notification
   * announces that.
   */
  async #carry({ records, until }: ClaimedBatch, options: CarryOptions): Promise<void> {
    await this.#carrier.carry(records, until, options)
    if (isOrdered(this.#store)) this.#poll.wake()
  }

  /** After a full batch of retries the next batch is for fresh records, whatever fairness the store has itself. With order per key there is no choice. */
  #isWaveOfRetries(records: readonly ClaimedRecord[]): boolean {
    return this.#store.capabilities.order === 'none' && records.every(({ attempts }) => attempts > 1)
  }

  /** Trials run beside the batches: a destination that hangs must not delay them. */
  async #try(destination: string): Promise<void> {
    try {
      while (!this.stopping && !this.#hasLost) {
        const trial = this.pauses.trial(destination)
        if (trial === undefined || this.#operatorPauses.destinations.includes(destination)) break
        const limit = this.#goal === undefined ? trial.claim : this.#goal.beginClaim(trial.claim, this.inFlight)
        if (limit === 0) break
        try {
          const batch = await this.#claim({ limit, destinations: [destination] })
          if (batch.records.length === 0) {
            this.pauses.worked(destination, 0)
            continue
          }
          const chosen = trial.limit > 1 ? batch.records : this.#choose(destination, batch.records)
          const others = batch.records.filter((record) => !chosen.includes(record))
          this.#budget.free(others)
          await Promise.all([this.#settler.release(others, batch.until), this.#carry({ ...batch, records: chosen }, { waitForAll: true })])
        } finally {
          this.#goal?.endClaim(limit)
        }
      }
    } finally {
      this.pauses.endTrial(destination)
      // The next trial is scheduled, or the destination is up and claimed with the others again.
      this.#poll.wake()
    }
  }

  /**
   * Chooses one record at random that is no suspect: the oldest may be what fails. Suspects are added, because the chosen record shows whether the
   * destination is up.
   */
  #choose(destination: string, records: readonly ClaimedRecord[]): readonly ClaimedRecord[] {
    const first = runsOf(records).map(([one]) => one)
    const suspects = first.filter(({ id }) => this.pauses.isSuspect(destination, id))
    const others = first.filter((record) => !suspects.includes(record))
    const one = others[Math.floor(this.#settings.runtime.random() * others.length)]
    return one === undefined ? suspects : records.filter((record) => record === one || suspects.includes(record))
  }

  /** Records that arrive too late to be used are released. Empty after a stop. */
  async #claim(options: Omit<ClaimOptions, 'lease'>): Promise<ClaimedBatch> {
    const { lease, maxAttempts, runtime, onExhausted } = this.#settings
    let maxBytes = 0
    let askedAt = 0
    const call = () => {
      askedAt = runtime.monotonic()
      return this.#store.claim({ ...options, maxBytes, maxAttempts, lease, behindParked: behindParked[onExhausted] })
    }
    const onLate = (late: readonly ClaimedRecord[]) => void this.#settler.release(late, 0)
    const { stopping: signal } = this.#shutdown
    let records: readonly ClaimedRecord[] = []
    try {
      maxBytes = await this.#budget.reserve(signal)
    } catch {
      return { records, until: 0 }
    }
    // A started relay waits for its store as long as it takes.
    const until = this.#goal === undefined ? undefined : runtime.monotonic() + storePatience
    try {
      records = await this.calls.run(call, { signal, onLate, until })
      this.#observer.meter.duration('claim', runtime.monotonic() - askedAt)
    } catch (error) {
      if (!this.stopping) throw error
    } finally {
      // A store that violates its contract must not use the budget of others.
      this.#budget.claimed(records ?? [], maxBytes)
    }
    return { records, until: askedAt + lease }
  }
}

/** The number of non-empty claims after a large record that are followed by another claim immediately. */
const claimsAfterLarge = 20

/** Tracks work that is not awaited where it starts. A rejection must not end the process. */
function track(all: Set<Promise<void>>, work: Promise<void>): void {
  const tracked: Promise<void> = work.catch(() => {}).finally(() => all.delete(tracked))
  all.add(tracked)
}
