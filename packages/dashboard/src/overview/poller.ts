import { idle, type Runtime, type Timer } from '@ackord/core'
import type { OutboxAdmin } from '@ackord/outbox'
import type { Overview } from '../api/types.ts'
import type { DashboardMetrics } from './dashboard-metrics.ts'
import { type Part, requestInterval, StoreFigures } from './store-figures.ts'

/** Milliseconds after the last request for which a browser counts as looking. */
const attention = 10_000
/** Milliseconds that a round waits for slow stores before it shows what it has. */
const patience = 500
const background = { keepAlive: false }

/**
 * Reads the figures of all stores while at least one browser looks at them. Further browsers add no reads.
 *
 * A round costs each store one call at most. States: idle (no timer), and running (a timer for the next round). A look starts the rounds; a timer that fires while no browser looks ends them.
 */
export class OverviewPoller {
  readonly #stores: ReadonlyMap<string, StoreFigures>
  readonly #metrics: DashboardMetrics | undefined
  readonly #runtime: Runtime
  readonly #closing = new AbortController()
  readonly #viewers = new Set<(overview: Overview) => void>()
  #timer: Timer | undefined
  #round: Promise<void> = Promise.resolve()
  #lookedAt = -Infinity

  constructor(stores: ReadonlyMap<string, OutboxAdmin>, metrics: DashboardMetrics | undefined, runtime: Runtime) {
    this.#metrics = metrics
    this.#stores = new Map(Array.from(stores, ([name, admin]) => [name, new StoreFigures(name, admin, runtime)]))
    this.#runtime = runtime
  }

  /** The figures, at most two seconds older than those that a call would return now, except for slow stores. */
  async look(): Promise<Overview> {
    this.#lookedAt = this.#runtime.monotonic()
    if (this.#timer === undefined && !this.#closing.signal.aborted) this.#startRound()
    await this.#round
    return this.#overview
  }

  /** Calls `show` with the figures of each round, until the returned function is called. */
  watch(show: (overview: Overview) => void): () => void {
    this.#viewers.add(show)
    return () => {
      this.#viewers.delete(show)
    }
  }

  /** Reads this part of the store in the next round: an action has changed it. */
  expire(store: string, part: Part): void {
    this.#stores.get(store)?.expire(part)
  }

  close(): void {
    this.#closing.abort(new Error('The dashboard was closed.'))
    this.#timer?.cancel()
    this.#timer = undefined
    this.#viewers.clear()
  }

  get #overview(): Overview {
    return {
      stores: Array.from(this.#stores.values(), ({ overview }) => overview),
      messages: this.#metrics?.read(),
    }
  }

  #startRound(): void {
    const next = () => {
      this.#timer = undefined
      if (this.#viewers.size > 0 || this.#runtime.monotonic() - this.#lookedAt < attention) this.#startRound()
    }
    this.#timer = this.#runtime.setTimeout(next, requestInterval, background)
    this.#round = this.#runRound()
  }

  async #runRound(): Promise<void> {
    const { signal } = this.#closing
    const read = new AbortController()
    const reading = Promise.all(Array.from(this.#stores.values(), (store) => store.read(signal))).finally(() => read.abort())
    await Promise.race([reading, idle(this.#runtime, patience, read.signal, background)])
    if (signal.aborted || this.#viewers.size === 0) return
    const overview = this.#overview
    for (const show of this.#viewers) show(overview)
  }
}
