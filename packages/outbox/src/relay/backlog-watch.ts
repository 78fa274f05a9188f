import { idle, type Runtime } from '@ackord/core'
import { abortable } from '@ackord/core/internal'
import type { OutboxMeter } from '../delivery/relay-observer.ts'
import type { OutboxAdmin, OutboxStats } from '../store/outbox-admin.ts'

/** The last statistics of the store, summed over all destinations. */
export interface RelayBacklog {
  readonly ready: number
  readonly waiting: number
  readonly leased: number
  readonly parked: number
  /** Age in milliseconds of the oldest record that is neither published nor parked, by the store's clock: the lag. `undefined` if there is none. */
  readonly oldestAge: number | undefined
  /** When the store was queried, by the runtime's clock. */
  readonly at: number
}

export interface BacklogWatchOptions {
  readonly admin: Pick<OutboxAdmin, 'stats'>
  readonly runtime: Runtime
  readonly meter: OutboxMeter
}

/** Counting reads the whole table on most stores: it may use at most this share of the time. */
const share = 1 / 20
const background = { keepAlive: false }

/** Queries the store's statistics at intervals, and keeps the latest. */
export class BacklogWatch {
  readonly #options: BacklogWatchOptions
  #latest: RelayBacklog | undefined

  constructor(options: BacklogWatchOptions) {
    this.#options = options
  }

  get latest(): RelayBacklog | undefined {
    return this.#latest
  }

  async ask(): Promise<OutboxStats> {
    const { admin, runtime, meter } = this.#options
    const stats = await admin.stats()
    this.#latest = summed(stats, runtime.now())
    meter.backlog(stats)
    return stats
  }

  /** Runs until the signal is aborted. Never rejects: other calls report whether the store works. */
  async run(interval: number, signal: AbortSignal): Promise<void> {
    const { runtime } = this.#options
    // Spreads the queries of relays that start together.
    let wait = interval * runtime.random()
    while (await idle(runtime, wait, signal, background)) {
      const startedAt = runtime.monotonic()
      try {
        await abortable(this.ask(), signal)
      } catch {
        // The latest statistics stay, with their time.
      }
      wait = Math.max(interval, (runtime.monotonic() - startedAt) / share) * (0.9 + 0.2 * runtime.random())
    }
  }
}

function summed({ destinations, oldestAge }: OutboxStats, at: number): RelayBacklog {
  const sums = { ready: 0, waiting: 0, leased: 0, parked: 0 }
  for (const one of destinations) {
    for (const state of ['ready', 'waiting', 'leased', 'parked'] as const) sums[state] += one[state]
  }
  return { ...sums, oldestAge, at }
}
