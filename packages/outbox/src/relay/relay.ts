import { AckordError, InvalidOptionError, outside, toError } from '@ackord/core'
import { checkFunction } from '@ackord/core/internal'
import { OutboxMeter, type OutboxTotals, RelayObserver } from '../delivery/relay-observer.ts'
import { checkOrder } from '../options/key-order.ts'
import { guardEvents } from '../options/relay-events.ts'
import { type RelayOptions, type RelaySettings, relaySettings } from '../options/relay-options.ts'
import type { OutboxAdmin, OutboxStats } from '../store/outbox-admin.ts'
import type { OutboxStore } from '../store/outbox-store.ts'
import { BacklogWatch, type RelayBacklog } from './backlog-watch.ts'
import { cleanPublished } from './published-cleanup.ts'
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
  /** What the store said last, if it is an `OutboxAdmin` and was asked: by `statsInterval`, or by `stats()`. */
  readonly backlog: RelayBacklog | undefined
}

/**
 * Carries committed records from an outbox to the broker: claims them under a lease, publishes them in batches, settles what was confirmed.
 * At least once: a crash between the publish and the settle makes a duplicate, always with the same message id. Nothing is lost.
 * Any number of relays may work on one store.
 *
 *     idle ─ start() ─▶ running ─ stop() ─▶ stopping ─ what is in flight is settled, or shutdownTimeout has passed ─▶ idle
 */
export class Relay {
  readonly #store: OutboxStore
  readonly #settings: RelaySettings
  readonly #observer: RelayObserver
  readonly #watch: BacklogWatch | undefined
  readonly #beside: ((signal: AbortSignal) => Promise<void>)[] = []
  #run: RelayRun | undefined

  constructor(store: OutboxStore & Partial<OutboxAdmin>, options: RelayOptions) {
    checkFunction('store.claim', store?.claim)
    const settings = relaySettings(options, store)
    checkOrder(store, settings.onExhausted)
    const { runtime, logger, metrics, onEvent, cleanup, statsInterval } = settings
    const meter = new OutboxMeter(metrics)
    this.#store = store
    this.#settings = settings
    this.#observer = new RelayObserver({ meter, logger, emit: guardEvents(onEvent, logger) })
    if (can(store, 'stats')) {
      const watch = new BacklogWatch({ admin: store, runtime, meter })
      this.#watch = watch
      if (statsInterval !== false) this.#beside.push((signal) => watch.run(statsInterval, signal))
    }
    if (cleanup !== undefined) {
      if (!can(store, 'deletePublished')) {
        throw new InvalidOptionError('cleanup', 'needs a store that is an OutboxAdmin too; this one has no deletePublished().')
      }
      this.#beside.push((signal) => cleanPublished({ ...cleanup, admin: store, runtime, logger }, signal))
    }
  }

  /** Polls at once, and goes on until `stop()`. A relay that runs goes on as it does. */
  start(): this {
    if (this.#run?.stopping === true) {
      throw new AckordError('ACKORD_ALREADY_STARTED', 'The relay is stopping. Await stop() before you start it again.')
    }
    this.#run ??= outside(
      () => new RelayRun({ store: this.#store, settings: this.#settings, observer: this.#observer, beside: this.#beside }),
    )
    return this
  }

  /** Polls at once, because something was committed. A hint: it may come too often, too early, or never. */
  wake(): void {
    this.#run?.wake()
  }

  /**
   * Claims no more, waits for what is being published (each call has its `publishTimeout`), settles it and gives the rest back. What takes longer
   * than `shutdownTimeout` is aborted and given back, if the store takes it within two seconds. Idempotent in every state. Resolves when nothing is in flight.
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

  /** Asks the store for its numbers: records by destination and state, and the age of the oldest, by its clock. All destinations, not only those of this relay. */
  async stats(): Promise<OutboxStats> {
    const watch = this.#watch
    if (watch === undefined) throw new InvalidOptionError('store', 'has no stats(): it is no OutboxAdmin, so it cannot count its records.')
    return await outside(() => watch.ask())
  }

  health(): RelayHealth {
    const run = this.#run
    const error = run?.calls.lastError
    return {
      ...this.#observer.meter.totals,
      state: run === undefined ? 'idle' : run.stopping ? 'stopping' : 'running',
      store: run?.calls.down === true ? 'down' : 'up',
      downDestinations: run?.pauses.destinations ?? [],
      inFlight: run?.inFlight ?? 0,
      lastStoreError: error === undefined ? undefined : toError(error),
      backlog: this.#watch?.latest,
    }
  }
}

function can<Method extends keyof OutboxAdmin>(store: Partial<OutboxAdmin>, method: Method): store is Pick<OutboxAdmin, Method> {
  return typeof store[method] === 'function'
}
