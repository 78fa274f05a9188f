import { AckordError, outside, toError } from '@ackord/core'
import { checkFunction } from '@ackord/core/internal'
import { OutboxMeter, type OutboxTotals } from './outbox-meter.ts'
import type { OutboxStore } from './outbox-store.ts'
import { type RelayOptions, type RelaySettings, relaySettings } from './relay-options.ts'
import { RelayRun } from './relay-run.ts'

export interface RelayHealth extends OutboxTotals {
  readonly state: 'idle' | 'running' | 'stopping'
  /** Whether the store answers. */
  readonly store: 'up' | 'down'
  /** Destinations that are left alone for now, because they failed. */
  readonly downDestinations: readonly string[]
  /** Records that are being published or settled. The totals count since the relay was made. */
  readonly inFlight: number
  /** What the store failed with last, in this run. */
  readonly lastStoreError: Error | undefined
}

/**
 * Carries committed records from an outbox to the broker: claims them under a lease, publishes them in batches, settles what was confirmed.
 * At least once: a crash between the publish and the settle makes a duplicate, always with the same message id. Nothing is lost.
 * Any number of relays may work on one store.
 *
 *     idle ─ start() ─▶ running ─ stop() ─▶ stopping ─ what is in flight is settled ─▶ idle
 */
export class Relay {
  readonly #store: OutboxStore
  readonly #settings: RelaySettings
  readonly #meter: OutboxMeter
  #run: RelayRun | undefined

  constructor(store: OutboxStore, options: RelayOptions) {
    checkFunction('store.claim', store?.claim)
    this.#store = store
    this.#settings = relaySettings(options)
    this.#meter = new OutboxMeter(this.#settings.metrics)
  }

  /** Polls at once, and goes on until `stop()`. A relay that runs goes on as it does. */
  start(): this {
    if (this.#run?.stopping === true) {
      throw new AckordError('ACKORD_ALREADY_STARTED', 'The relay is stopping. Await stop() before you start it again.')
    }
    this.#run ??= outside(() => new RelayRun(this.#store, this.#settings, this.#meter))
    return this
  }

  /** Polls at once, because something was committed. A hint: it may come too often, too early, or never. */
  wake(): void {
    this.#run?.wake()
  }

  /**
   * Claims no more, waits for what is being published (each call has its `publishTimeout`), settles it and gives the rest back.
   * Idempotent in every state. Resolves when nothing is in flight.
   */
  async stop(): Promise<void> {
    const run = this.#run
    if (run === undefined) return
    await run.stop()
    if (this.#run === run) this.#run = undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  health(): RelayHealth {
    const run = this.#run
    const error = run?.calls.lastError
    return {
      ...this.#meter.totals,
      state: run === undefined ? 'idle' : run.stopping ? 'stopping' : 'running',
      store: run?.calls.down === true ? 'down' : 'up',
      downDestinations: run?.pauses.destinations ?? [],
      inFlight: run?.inFlight ?? 0,
      lastStoreError: error === undefined ? undefined : toError(error),
    }
  }
}
