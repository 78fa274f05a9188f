import { idle } from '@ackord/core'
import { BatchCarrier } from './batch-carrier.ts'
import { DestinationPauses } from './destination-pauses.ts'
import { followWakeUps } from './follow-wake-ups.ts'
import type { OutboxMeter } from './outbox-meter.ts'
import type { ClaimedRecord, ClaimOptions, OutboxStore } from './outbox-store.ts'
import { PollPause } from './poll-pause.ts'
import type { RelaySettings } from './relay-options.ts'
import { StoreCalls } from './store-calls.ts'

interface ClaimedBatch {
  readonly records: readonly ClaimedRecord[]
  /** When the lease ends if nobody renews it. */
  readonly until: number
}

/** One run of a relay, from its start to the end of its stop. */
export class RelayRun {
  readonly calls: StoreCalls
  readonly pauses: DestinationPauses
  readonly ended: Promise<void>
  readonly #store: OutboxStore
  readonly #settings: RelaySettings
  readonly #carrier: BatchCarrier
  readonly #poll: PollPause
  readonly #stop = new AbortController()
  readonly #batches = new Set<Promise<void>>()
  readonly #trials = new Set<Promise<void>>()

  constructor(store: OutboxStore, settings: RelaySettings, meter: OutboxMeter) {
    const { runtime, logger, batchSize, destinationBackoff } = settings
    this.#store = store
    this.#settings = settings
    this.calls = new StoreCalls(settings)
    this.pauses = new DestinationPauses({ backoff: destinationBackoff, batchSize, runtime, logger })
    this.#carrier = new BatchCarrier({ store, settings, calls: this.calls, pauses: this.pauses, meter, stopping: () => this.stopping })
    this.#poll = new PollPause(runtime, settings)
    this.ended = this.#run()
  }

  get stopping(): boolean {
    return this.#stop.signal.aborted
  }

  get inFlight(): number {
    return this.#carrier.inFlight
  }

  wake(): void {
    this.#poll.wake()
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    this.#poll.wake()
    await this.ended
  }

  async #run(): Promise<void> {
    const { runtime, logger, pollInterval } = this.#settings
    const { signal } = this.#stop
    const following = followWakeUps(this.#store, () => this.#poll.wake(), { signal, runtime, logger })
    while (!this.stopping) {
      try {
        await this.#round()
      } catch (error) {
        // Only a port that breaks its contract gets here. The relay goes on, or nothing would be published any more.
        logger.error({ err: error }, 'A round of the relay failed in a way that it should not; it goes on.')
        await idle(runtime, pollInterval, signal)
      }
    }
    await Promise.all([...this.#batches, ...this.#trials])
    this.calls.close()
    await following
  }

  async #round(): Promise<void> {
    const { batchSize, concurrency, destinations } = this.#settings
    for (const destination of this.pauses.takeDue()) track(this.#trials, this.#try(destination))
    this.#poll.polling()
    const except = this.pauses.destinations
    const batch = await this.#claim({ limit: batchSize, destinations, except: except.length === 0 ? undefined : except })
    const { length } = batch.records
    if (length > 0) track(this.#batches, this.#carrier.carry(batch.records, batch.until))
    while (this.#batches.size >= concurrency) await Promise.race(this.#batches)
    if (length < batchSize) await this.#poll.wait({ found: length > 0, atMost: this.pauses.nextTrial })
  }

  /** Beside the batches: a destination that hangs must not hold them up. */
  async #try(destination: string): Promise<void> {
    try {
      while (!this.stopping) {
        const limit = this.pauses.trialSize(destination)
        if (limit === undefined) break
        const { records, until } = await this.#claim({ limit, destinations: [destination] })
        if (records.length === 0) this.pauses.worked(destination, 0)
        else await this.#carrier.carry(records, until)
      }
    } finally {
      this.pauses.endTrial(destination)
      // The next trial is planned, or the destination belongs to the others again.
      this.#poll.wake()
    }
  }

  /** What comes when it is too late to use it goes back. Empty after a stop. */
  async #claim(options: Omit<ClaimOptions, 'lease'>): Promise<ClaimedBatch> {
    const { lease, runtime } = this.#settings
    let until = 0
    const call = () => {
      until = runtime.now() + lease
      return this.#store.claim({ ...options, lease })
    }
    try {
      const records = await this.calls.run(call, { signal: this.#stop.signal, onLate: (late) => void this.#carrier.giveBack(late, 0) })
      return { records, until }
    } catch (error) {
      if (this.stopping) return { records: [], until }
      throw error
    }
  }
}

/** Work that is not awaited where it starts. What it throws must not end the process. */
function track(all: Set<Promise<void>>, work: Promise<void>): void {
  const tracked: Promise<void> = work.catch(() => {}).finally(() => all.delete(tracked))
  all.add(tracked)
}
