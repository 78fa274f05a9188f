import { AckordError, InvalidOptionError, idle, type Logger, outside, type Runtime, toError } from '@ackord/core'
import {
  abortable,
  announce,
  checkFunction,
  inRoot,
  type LinkedController,
  linkedController,
  relayChannel,
  withTimeLimit,
} from '@ackord/core/internal'
import type { TakeTurn } from '../delivery/publish-turns.ts'
import { OutboxMeter, type OutboxTotals, RelayObserver } from '../delivery/relay-observer.ts'
import { checkOrder } from '../options/key-order.ts'
import { guardEvents, type RelayEvent } from '../options/relay-events.ts'
import { type CleanupSettings, type RelayOptions, type RelaySettings, relaySettings } from '../options/relay-options.ts'
import type { OutboxAdmin, OutboxStats } from '../store/outbox-admin.ts'
import type { OutboxStore } from '../store/outbox-store.ts'
import { BacklogWatch, type RelayBacklog } from './backlog-watch.ts'
import {
  backlogOf,
  countLimit,
  type DrainedBacklog,
  DrainGoal,
  type DrainLimits,
  type DrainOptions,
  type DrainResult,
  drainingError,
  drainLimits,
  notDrained,
  runningError,
  storeError,
} from './drain.ts'
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

/** Limits that several relays share. */
interface SharedLimits {
  readonly takeTurn: TakeTurn
  /** The maximum number of bytes per claim, in addition to `maxBatchBytes`. It may change. */
  readonly maxBatchBytes: () => number
}

/** @internal Makes a relay share limits with others. It takes effect at the next start. */
export let shareLimits: (relay: Relay, limits: SharedLimits) => void

/**
 * Publishes committed records from an outbox to the broker: claims them under a lease, publishes them in batches, settles those that were confirmed.
 * Delivery is at least once: a crash between the publish and the settle makes a duplicate, always with the same message id. Nothing is lost. Any
 * number of relays may work on one store.
 *
 *     idle ─ start() ─▶ running ─ stop() ─▶ stopping ─ everything in flight is settled, or shutdownTimeout has passed ─▶ idle
 *          ─ drain() ─▶ running ─ nothing is left, or its limits are reached ─▶ stopping ─▶ idle
 */
export class Relay {
  readonly #store: OutboxStore
  readonly #settings: RelaySettings
  readonly #observer: RelayObserver
  readonly #watch: BacklogWatch | undefined
  readonly #background: ((signal: AbortSignal) => Promise<void>)[] = []
  #shared: SharedLimits | undefined
  #run: RelayRun | undefined
  readonly #drains = new Set<LinkedController>()
  #lastDrain: Promise<unknown> = Promise.resolve()

  static {
    shareLimits = (relay, limits) => {
      relay.#shared = limits
    }
  }

  constructor(store: OutboxStore & Partial<OutboxAdmin>, options: RelayOptions) {
    checkFunction('store.claim', store?.claim)
    const settings = relaySettings(options, store)
    checkOrder(store, settings.onExhausted)
    const { runtime, logger, metrics, onEvent, cleanup, statsInterval } = settings
    for (const part of [store, ...settings.routes.publishers, settings.deadLetter?.publisher]) part?.inheritPorts?.(settings.shared)
    const meter = new OutboxMeter(metrics)
    this.#store = store
    this.#settings = settings
    const toListener = guardEvents(onEvent, logger)
    const emit = (event: RelayEvent) => {
      toListener(event)
      announce(relayChannel(event.type), () => ({ ...event, store }))
    }
    this.#observer = new RelayObserver({ meter, logger, emit })
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
    if (this.#drains.size > 0) throw drainingError()
    this.#run ??= this.#begin(undefined)
    return this
  }

  /**
   * Publishes what can be claimed now, and ends: for a scheduled job, or the end of a serverless invocation. It does not poll, nor receive notifications, and it deletes no old
   * records. Before the deadline no batch begins that could not end in time; then batches in flight are settled, the rest is released, and with order per key the partitions are
   * handed over.
   *
   * A destination that fails is tried again with growing pauses, as far as the time allows. Rejects if the relay was started, and for invalid options, never because of a store
   * or a broker. Concurrent calls run one after the other, each within its own deadline.
   */
  async drain(options: DrainOptions = {}): Promise<DrainResult> {
    const { runtime } = this.#settings
    if (this.#drains.size === 0) {
      if (this.#run !== undefined) throw runningError()
      runtime.resume()
    }
    const limits = drainLimits(options, runtime)
    using controller = linkedController(limits.signal ?? new AbortController().signal)
    this.#drains.add(controller)
    const before = this.#lastDrain
    const drained = this.#drainAfter(before, { ...limits, signal: controller.signal })
    this.#lastDrain = Promise.all([before, drained]).then(() => {})
    try {
      return await drained
    } finally {
      this.#drains.delete(controller)
    }
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
    if (this.#drains.size > 0) {
      for (const controller of this.#drains) controller.abort(new AckordError('ACKORD_SHUTDOWN', 'The relay was stopped.'))
      await this.#lastDrain
      return
    }
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

  #begin(goal: DrainGoal | undefined): RelayRun {
    const { runtime } = this.#settings
    if (goal === undefined) runtime.resume()
    const own = goal === undefined ? this.#settings : { ...this.#settings, publishTimeout: goal.publishTimeout }
    const settings = limited(own, this.#shared)
    const parts = { store: this.#store, settings, observer: this.#observer, background: this.#background, takeTurn: this.#shared?.takeTurn }
    // The relay belongs to no request or trace, even if it is started inside of one.
    return inRoot(() => new RelayRun({ ...parts, goal }))
  }

  /** Drains when the drains before it have ended, unless its time is over then. Never rejects. */
  async #drainAfter(before: Promise<unknown>, limits: DrainLimits & { readonly signal: AbortSignal }): Promise<DrainResult> {
    const { runtime } = this.#settings
    const { signal, until } = limits
    const inTime = async () => await abortable(before, signal)
    try {
      if (until === Infinity) await inTime()
      else await withTimeLimit(runtime, Math.max(0, until - runtime.monotonic()), () => new Error('The deadline has passed.'), inTime)
    } catch {
      return notDrained(signal.aborted ? 'aborted' : 'deadline')
    }
    if (signal.aborted) return notDrained('aborted')
    return await this.#drainNow(limits)
  }

  async #drainNow(limits: DrainLimits & { readonly signal: AbortSignal }): Promise<DrainResult> {
    const { signal } = limits
    const { meter } = this.#observer
    const before = meter.totals
    const goal = new DrainGoal({ settings: this.#settings, meter, limits })
    const run = this.#begin(goal)
    this.#run = run
    const onAbort = () => void run.stop()
    signal.addEventListener('abort', onAbort, { once: true })
    await run.ended
    signal.removeEventListener('abort', onAbort)
    this.#run = undefined
    const { published, failed, parked } = meter.totals
    const { reason = 'aborted' } = goal
    return {
      published: published - before.published,
      failed: failed - before.failed,
      parked: parked - before.parked,
      reason,
      skipped: run.skipped,
      left: limits.count && reason !== 'aborted' ? await this.#backlogWithin(Math.min(countLimit, goal.untilDeadline)) : undefined,
      error: run.calls.down ? storeError(run.calls.lastError) : undefined,
    }
  }

  /** What is left at the destinations of this relay, if the store answers in time. */
  async #backlogWithin(limit: number): Promise<DrainedBacklog | undefined> {
    const { runtime, destinations } = this.#settings
    const watch = this.#watch
    if (watch === undefined || limit <= 0) return undefined
    try {
      const stats = await withTimeLimit(
        runtime,
        limit,
        () => new Error('The store did not count in time.'),
        () => outside(() => watch.ask()),
      )
      return backlogOf(stats, destinations)
    } catch {
      return undefined
    }
  }
}

function limited(settings: RelaySettings, shared: SharedLimits | undefined): RelaySettings {
  if (shared === undefined) return settings
  return {
    ...settings,
    get maxBatchBytes() {
      return Math.min(settings.maxBatchBytes, shared.maxBatchBytes())
    },
  }
}

function can<Method extends keyof OutboxAdmin>(store: Partial<OutboxAdmin>, method: Method): store is Pick<OutboxAdmin, Method> {
  return typeof store[method] === 'function'
}

interface PublishedCleanupOptions extends CleanupSettings {
  readonly admin: Pick<OutboxAdmin, 'deletePublished'>
  readonly runtime: Runtime
  readonly logger: Logger
}

const batchesPerRound = 100
/** Pause between two batches, so that other statements get access to the table. */
const batchPause = 20
const background = { keepAlive: false }

/** Deletes old published records, batch after batch, until the signal is aborted. Never rejects, and never keeps the process alive. */
async function cleanPublished(options: PublishedCleanupOptions, signal: AbortSignal): Promise<void> {
  const { interval, runtime, logger } = options
  let failing = false
  // Spreads the cleanups of relays that start together.
  for (let wait = interval * runtime.random(); await idle(runtime, wait, signal, background); ) {
    try {
      await round(options, signal)
      if (failing) logger.info({}, 'Deleting published records works again.')
      failing = false
    } catch (error) {
      if (signal.aborted) return
      if (!failing) logger.warn({ err: error }, 'Deleting published records failed; it will be retried.')
      failing = true
    }
    wait = interval * (0.9 + 0.2 * runtime.random())
  }
}

async function round({ admin, keepPublished, batchSize, runtime }: PublishedCleanupOptions, signal: AbortSignal): Promise<void> {
  for (let batch = 0; batch < batchesPerRound; batch += 1) {
    // A stop does not wait for a delete that hangs; the delete may still complete.
    const deleted = await abortable(admin.deletePublished({ olderThan: keepPublished, limit: batchSize }), signal)
    if (deleted < batchSize) return
    if (!(await idle(runtime, batchPause, signal, background))) return
  }
}
