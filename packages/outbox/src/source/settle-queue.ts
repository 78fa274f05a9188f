import { AckordError, outside, toError } from '@ackord/core'
import type { StoreCalls } from '../delivery/store-calls.ts'
import type { OutboxStore, Outcome } from '../store/outbox-store.ts'

interface Waiting {
  readonly outcome: Outcome
  readonly until: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/** Settles outcomes that arrive one by one: those of one tick in one call, and those that arrive during a call in the next. */
export class SettleQueue {
  readonly #store: OutboxStore
  readonly #calls: StoreCalls
  #waiting: Waiting[] = []
  #running: Promise<void> | undefined

  constructor(store: OutboxStore, calls: StoreCalls) {
    this.#store = store
    this.#calls = calls
  }

  /**
   * Resolves when the store has applied the outcome. Rejects with `ACKORD_LEASE_LOST` if the store did not apply it, or could not be reached before
   * the end of the lease.
   */
  add(outcome: Outcome, until: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ outcome, until, resolve, reject })
      // Runs outside the async context of the message that happens to be settled first.
      this.#running ??= outside(() => this.#run())
    })
  }

  /** Resolves when every added outcome has its answer. */
  async drained(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    await undefined // collects the rest of the tick
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      await this.#settle(batch)
    }
    this.#running = undefined
  }

  async #settle(batch: readonly Waiting[]): Promise<void> {
    const outcomes = batch.map(({ outcome }) => outcome)
    const until = batch.reduce((earliest, waiting) => Math.min(earliest, waiting.until), Infinity)
    try {
      const answers = await this.#calls.run(() => this.#store.settle(outcomes), { until })
      for (const [index, { resolve, reject, outcome }] of batch.entries()) {
        if (answers[index] === 'applied') resolve()
        else reject(leaseLost(outcome.id))
      }
    } catch (error) {
      for (const { reject, outcome } of batch) reject(leaseLost(outcome.id, toError(error)))
    }
  }
}

export function leaseLost(id: string, cause?: Error): AckordError {
  const text = `The lease on outbox record ${id} was lost before it was settled; it will be delivered again.`
  return new AckordError('ACKORD_LEASE_LOST', text, cause === undefined ? {} : { cause })
}
