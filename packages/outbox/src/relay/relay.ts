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
  /** Destinations that are paused because they failed. */
  readonly downDestinations: readonly string[]
  /** Records that are being published or settled. The totals count since the relay was created. */
  readonly inFlight: number
  /** The last error of the store in this run. */
  readonly lastStoreError: Error | undefined
  /** The last statistics of the store, if it is an `OutboxAdmin` and was queried: by `statsInterval`, or by `stats()`. */
  readonly backlog: RelayBacklog | undefined
}

/**
 * Publishes committed records from an outbox to the broker: claims them under a lease, publishes them in batches, settles those that were confirmed.
 * Delivery is at least once: a crash between the publish and the settle makes a duplicate, always with the same message id. Nothing is lost. Any
 * number of relays may work on one store.
 *
 *     idle ─ start() ─▶ running ─ stop() ─▶ stopping ─ everything in flight is settled, or shutdownTimeout has passed ─▶ idle
 */
export class Relay {
  readonly #store: OutboxStore
  readonly #settings: RelaySettings
  readonly #observer: RelayObserver
  readonly #watch: BacklogWatch | undefined
  readonly #background: ((signal: AbortSignal) => Promise<void>)[] = []
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
      if (statsInterval !== false) this.#background.push((signal) => watch.run(statsInterval, signal))
    }
    if (cleanup !== undefined) {
      if (!can(store, 'deletePublished')) {
        throw new InvalidOptionError('cleanup', 'requires a store that is an OutboxAdmin too; this store has no deletePublished().')
      }
      this.#background.push((signal) => cleanPublished({ ...cleanup, admin: store, runtime, logger }, signal))
    }
  }

  /** Polls immediately, and runs until `stop()`. Has no effect on a running relay. */
  start(): this {
    if (this.#run?.stopping === true) {
      throw new AckordError('ACKORD_ALREADY_STARTED', 'The relay is stopping. Await stop() before you start it again.')
    }
    this.#run ??= outside(
      () => new RelayRun({ store: this.#store, settings: this.#settings, observer: this.#observer, background: this.#background }),
    )
    return this
  }

  /** Polls immediately, because something was committed. Only a hint: it may be called too often, too early, or never. */
  wake(): void {
    this.#run?.wake()
  }

  /**
   * Stops claiming, waits for publishes in flight (each has its `publishTimeout`), settles them and releases the rest. Publishes that take longer
   * than `shutdownTimeout` are aborted and released, if the store accepts that within two seconds. Idempotent in every state. Resolves when nothing
   * is in flight.
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

  /**
   * Queries the store's statistics: records by destination and state, and the age of the oldest, by its clock. Covers all destinations, not only
   * those of this relay.
   */
  async stats(): Promise<OutboxStats> {
    const watch = this.#watch
    if (watch === undefined)
      throw new InvalidOptionError('store', 'has no stats(): it is not an OutboxAdmin, so it cannot count its records.')
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
