import { type Runtime, toError } from '@ackord/core'
import { abortable, linkedController, messageOf } from '@ackord/core/internal'
import type { OutboxActivity, OutboxAdmin, OutboxStats } from '@ackord/outbox'
import type { BacklogPoint, StoreOverview } from '../api/types.ts'
import { listDestinations } from './destinations.ts'
import { mergeRates } from './rates.ts'

/** A part of the figures of a store, which is read with one call. `activity`: pauses, relays and rates. */
export type Part = 'stats' | 'activity'

const second = 1000
const minute = 60 * second
const chartLength = 30 * minute

/** Milliseconds between two requests to a store, on average: after a call that took several statements or scripts, the store is left alone for as many of these. */
export const requestInterval: number = 2 * second

/** How old each part may get, in milliseconds. Relays report every ten seconds. The first of the list is read first. */
const intervals: readonly (readonly [part: Part, interval: number])[] = [
  ['stats', requestInterval],
  ['activity', 10 * second],
]
/** A timer may fire a little early; the part would then have to wait for another round. */
const almostDue = 0.9
/** Counting stops at this number of records in each state of a destination. */
const countLimit = 10_000
/** Milliseconds that a store has to answer. */
const timeLimit = 5 * second
/** Milliseconds between two points of the backlog's chart. */
const backlogInterval = 10 * second

interface ReadPoint extends BacklogPoint {
  /** By the monotonic clock, to know how old it is. */
  readonly readAt: number
}

/** The figures of one store, as they were read last. */
export class StoreFigures {
  readonly #name: string
  readonly #admin: OutboxAdmin
  readonly #runtime: Runtime
  readonly #readAt = new Map<Part, number>()
  /** How many statements or scripts the last call for this part took. */
  readonly #requests = new Map<Part, number>()
  /** By the monotonic clock: until then nothing is read. */
  #restUntil = -Infinity
  readonly #errors = new Map<Part, string>()
  #at: number | undefined
  #stats: OutboxStats = { destinations: [], oldestAge: undefined }
  #activity: OutboxActivity | undefined
  #backlog: readonly ReadPoint[] = []
  /** Whether a call has not settled yet. */
  #reading = false

  constructor(name: string, admin: OutboxAdmin, runtime: Runtime) {
    this.#name = name
    this.#admin = admin
    this.#runtime = runtime
    this.#activity = hasActivity(admin) ? undefined : { pauses: [], relays: [], rates: [] }
  }

  get overview(): StoreOverview {
    const { oldestAge, destinations } = this.#stats
    const { pauses = [], relays, rates = [] } = this.#activity ?? {}
    const [error = this.#at === undefined ? 'The store has not answered yet.' : undefined] = this.#errors.values()
    return {
      store: this.#name,
      at: this.#at ?? this.#runtime.now(),
      error,
      oldestAge,
      ...listDestinations(destinations, pauses, relays ?? []),
      relays,
      rates,
      backlog: this.#backlog.map(({ at, records, unpublished }) => ({ at, records, unpublished })),
    }
  }

  /** Makes the part the next one that is read: an action has changed it. */
  expire(part: Part): void {
    this.#readAt.delete(part)
  }

  /**
   * Reads the part that is overdue the most, with one call. Never rejects: the overview contains the error. A call that takes too long is an error after five seconds, but
   * nothing more is read before it has settled: it still holds a connection, and a slow store would soon have no others.
   */
  async read(signal: AbortSignal): Promise<void> {
    const part = this.#duePart()
    if (this.#reading || part === undefined) return
    this.#reading = true
    const call = this.#call(part)
    const settled = () => {
      this.#reading = false
    }
    call.then(settled, settled)
    const readAt = this.#runtime.monotonic()
    this.#readAt.set(part, readAt)
    using limit = linkedController(signal)
    const late = new Error(`The store did not answer within ${timeLimit / second} seconds.`)
    const timer = this.#runtime.setTimeout(() => limit.abort(late), timeLimit, { keepAlive: false })
    try {
      const { requests, keep } = await abortable(call, limit.signal)
      this.#requests.set(part, requests)
      keep()
      this.#at = this.#runtime.now()
      this.#errors.delete(part)
    } catch (error) {
      this.#errors.set(part, messageOf(toError(error)))
    } finally {
      timer.cancel()
      this.#restUntil = readAt + (this.#requestsOf(part) - 1 + almostDue) * requestInterval
    }
  }

  #duePart(): Part | undefined {
    const now = this.#runtime.monotonic()
    if (now < this.#restUntil) return undefined
    let due: Part | undefined
    let most = 0
    for (const [part, interval] of intervals) {
      const allowed = Math.max(interval, this.#requestsOf(part) * requestInterval)
      const overdue = (now - (this.#readAt.get(part) ?? -Infinity)) / allowed
      if (overdue < almostDue || overdue <= most || (part === 'activity' && !hasActivity(this.#admin))) continue
      due = part
      most = overdue
    }
    return due
  }

  #requestsOf(part: Part): number {
    return this.#requests.get(part) ?? 1
  }

  /** Resolves to what the call took, and a function that keeps the answer, so that an answer that came too late is not kept. */
  async #call(part: Part): Promise<{ readonly requests: number; readonly keep: () => void }> {
    if (part === 'stats') {
      const stats = await this.#admin.stats({ limit: countLimit })
      return { requests: stats.requests ?? 1, keep: () => this.#keepStats(stats) }
    }
    const { requests, activity } = await readActivity(this.#admin)
    const merged = { ...activity, rates: mergeRates(activity.rates) }
    return {
      requests,
      keep: () => {
        this.#activity = merged
      },
    }
  }

  #keepStats(stats: OutboxStats): void {
    const readAt = this.#runtime.monotonic()
    const at = this.#runtime.now()
    this.#stats = stats
    const young = this.#backlog.filter((point) => readAt - point.readAt <= chartLength)
    const isDue = readAt - (young.at(-1)?.readAt ?? -Infinity) >= backlogInterval
    this.#backlog = isDue ? [...young, { at, ...backlogOf(stats), readAt }] : young
  }
}

/** A store that an application wrote may lack all of it. */
function hasActivity({ activity, pauses, relays, rates }: OutboxAdmin): boolean {
  return [activity, pauses, relays, rates].some((each) => each !== undefined)
}

/** With one statement or script, if the store has `activity()`: the stores of Ackord do. */
async function readActivity(admin: OutboxAdmin): Promise<{ readonly requests: number; readonly activity: OutboxActivity }> {
  const maxAge = chartLength
  if (admin.activity !== undefined) return { requests: 1, activity: await admin.activity({ maxAge }) }
  const calls = [admin.pauses?.(), admin.relays?.(), admin.rates?.({ maxAge })] as const
  const [pauses = [], relays = [], rates = []] = await Promise.all(calls)
  return { requests: calls.filter((call) => call !== undefined).length, activity: { pauses, relays, rates } }
}

function backlogOf({ destinations }: OutboxStats): Pick<BacklogPoint, 'records' | 'unpublished'> {
  const records = destinations.reduce((sum, { ready, waiting }) => sum + ready + waiting, 0)
  const others = destinations.reduce((sum, { leased, parked }) => sum + leased + parked, 0)
  return { records, unpublished: destinations.some(({ capped }) => capped) ? undefined : records + others }
}
