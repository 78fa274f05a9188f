import { type Runtime, toError } from '@ackord/core'
import { abortable, linkedController, messageOf } from '@ackord/core/internal'
import type { OutboxActivity, OutboxAdmin, OutboxStats } from '@ackord/outbox'
import type { BacklogPoint, StoreOverview } from '../api/types.ts'
import { listDestinations } from './destinations.ts'
import { mergeRates } from './rates.ts'

/** What is read of a store, each part with one call. `activity`: pauses, relays and rates. */
export type Part = 'stats' | 'activity'

const second = 1000
const minute = 60 * second
const chartLength = 30 * minute

/** How old each part may get, in milliseconds. Relays report every ten seconds. The first of the list is read first. */
const intervals: readonly (readonly [part: Part, interval: number])[] = [
  ['stats', 2 * second],
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
  readonly #errors = new Map<Part, string>()
  #at: number | undefined
  #stats: OutboxStats = { destinations: [], oldestAge: undefined }
  #activity: OutboxActivity | undefined
  #backlog: readonly ReadPoint[] = []
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

  /** Reads the part that is overdue the most, with one call. Never rejects: the overview contains the error. Does nothing while the previous call is not answered. */
  async read(signal: AbortSignal): Promise<void> {
    const part = this.#duePart()
    if (this.#reading || part === undefined) return
    this.#reading = true
    this.#readAt.set(part, this.#runtime.monotonic())
    using limit = linkedController(signal)
    const late = new Error(`The store did not answer within ${timeLimit / second} seconds.`)
    const timer = this.#runtime.setTimeout(() => limit.abort(late), timeLimit, { keepAlive: false })
    try {
      const keep = await abortable(this.#call(part), limit.signal)
      keep()
      this.#at = this.#runtime.now()
      this.#errors.delete(part)
    } catch (error) {
      this.#errors.set(part, messageOf(toError(error)))
    } finally {
      timer.cancel()
      this.#reading = false
    }
  }

  #duePart(): Part | undefined {
    const now = this.#runtime.monotonic()
    let due: Part | undefined
    let most = 0
    for (const [part, interval] of intervals) {
      const overdue = (now - (this.#readAt.get(part) ?? -Infinity)) / interval
      if (overdue < almostDue || overdue <= most || (part === 'activity' && !hasActivity(this.#admin))) continue
      due = part
      most = overdue
    }
    return due
  }

  /** Resolves to a function that keeps the answer, so that an answer that came too late is not kept. */
  async #call(part: Part): Promise<() => void> {
    if (part === 'stats') {
      const stats = await this.#admin.stats({ limit: countLimit })
      return () => this.#keepStats(stats)
    }
    const { rates, ...others } = await readActivity(this.#admin)
    const activity = { ...others, rates: mergeRates(rates) }
    return () => {
      this.#activity = activity
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

/** With one call, if the store has it: the stores of Ackord do. */
async function readActivity(admin: OutboxAdmin): Promise<OutboxActivity> {
  const maxAge = chartLength
  if (admin.activity !== undefined) return await admin.activity({ maxAge })
  const [pauses = [], relays = [], rates = []] = await Promise.all([admin.pauses?.(), admin.relays?.(), admin.rates?.({ maxAge })])
  return { pauses, relays, rates }
}

function backlogOf({ destinations }: OutboxStats): Pick<BacklogPoint, 'records' | 'unpublished'> {
  const records = destinations.reduce((sum, { ready, waiting }) => sum + ready + waiting, 0)
  const others = destinations.reduce((sum, { leased, parked }) => sum + leased + parked, 0)
  return { records, unpublished: destinations.some(({ capped }) => capped) ? undefined : records + others }
}
