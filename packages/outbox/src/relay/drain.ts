import { AckordError, type Runtime, toError } from '@ackord/core'
import { checkCount, checkDuration, rejectUnknownOptions } from '@ackord/core/internal'
import type { OutboxMeter } from '../delivery/relay-observer.ts'
import type { RelaySettings } from '../options/relay-options.ts'
import type { OutboxStats } from '../store/outbox-admin.ts'

export interface DrainOptions {
  /**
   * Milliseconds from now after which the drain has ended. Nothing is claimed that could not be published and settled before: a publish gets at most half of the time, or the
   * relay's `publishTimeout` if that is shorter. Default: none; the drain ends when nothing is left to claim.
   */
  readonly deadline?: number | undefined
  /** The maximum number of records that are published, failed or parked. Default: Infinity. */
  readonly limit?: number | undefined
  /** Ends the drain as a deadline does: records in flight are settled, the rest is released. */
  readonly signal?: AbortSignal | undefined
  /** Whether the store counts in the end how many records are left, if it is an `OutboxAdmin` and there is time. On a large table that takes long. Default: true. */
  readonly count?: boolean | undefined
}

/**
 * Why a drain ended. `empty`: nothing was left to claim. `deadline` and `limit`: the options. `down`: the store, or all destinations that still have records, failed
 * repeatedly. `aborted`: by the signal, or by `stop()`.
 */
export type DrainReason = 'empty' | 'deadline' | 'limit' | 'down' | 'aborted'

/** The records that a drain has left at its destinations, by the store's statistics: also those of other relays. */
export interface DrainedBacklog {
  /** Records that could be claimed: committed meanwhile, at destinations that are down or paused, or, with order per key, of partitions that another relay owns. */
  readonly ready: number
  /** Records that other relays are publishing, and those of relays that died. */
  readonly leased: number
  /** Records that wait for their time: delayed, or backing off after a failure. */
  readonly waiting: number
}

/** The numbers are those of this drain alone. */
export interface DrainResult {
  readonly published: number
  /** Attempts that failed: the records wait for their next one. */
  readonly failed: number
  readonly parked: number
  readonly reason: DrainReason
  /** Destinations whose records were left, because they are down, or an operator has paused them. */
  readonly skipped: readonly string[]
  /** `undefined`: the store was not asked, or could not answer in time. */
  readonly left: DrainedBacklog | undefined
  /** The error of the store, if it is down. */
  readonly error: Error | undefined
}

/** Applied options. Times are by the runtime's monotonic clock. */
export interface DrainLimits {
  readonly until: number
  readonly limit: number
  readonly signal: AbortSignal | undefined
  readonly count: boolean
}

/** Milliseconds that settling and handing over get before the deadline; less if the deadline is short. */
const reserve = 1000
/** The number of consecutive failures after which a destination is left for the next drain. The fourth trial has one record: one bad record does not block its destination. */
const maxFailures = 5
/** Milliseconds that the statistics may take. */
export const countLimit = 5000

export function drainLimits(options: DrainOptions, runtime: Runtime): DrainLimits {
  const { deadline = Infinity, limit = Infinity, signal, count = true, ...unknown } = options
  rejectUnknownOptions('drain()', unknown)
  checkDuration('deadline', deadline, { infinite: true })
  checkCount('limit', limit, { infinite: true })
  return { until: runtime.monotonic() + deadline, limit, signal, count }
}

export interface DrainGoalOptions {
  readonly settings: RelaySettings
  readonly meter: OutboxMeter
  readonly limits: DrainLimits
}

/**
 * What a run may still do when it drains instead of polling, and why it ends.
 *
 *     now ─ batches begin ─▶ until − turn − reserve: no batch begins ─▶ until − reserve: publishes in flight are aborted ─▶ until: over
 */
export class DrainGoal {
  /** Milliseconds that a publish may take. */
  readonly publishTimeout: number
  /** Milliseconds between the moment when no batch begins any more and the abort of those in flight. */
  readonly shutdownTimeout: number
  /** Milliseconds that the last calls of the store get. */
  readonly reserve: number
  readonly maxFailures: number = maxFailures
  readonly #runtime: Runtime
  readonly #limits: DrainLimits
  readonly #meter: OutboxMeter
  readonly #beginUntil: number
  readonly #before: number
  /** The sum of the limits of claims in flight. */
  #reserved = 0
  #reason: DrainReason | undefined

  constructor({ settings, meter, limits }: DrainGoalOptions) {
    const { runtime, publishTimeout, deadLetter, shutdownTimeout } = settings
    const time = Math.max(0, limits.until - runtime.monotonic())
    this.#runtime = runtime
    this.#limits = limits
    this.#meter = meter
    this.#before = this.#done
    // A dead letter is published after the batch, with a time limit of its own.
    const calls = deadLetter === undefined ? 1 : 2
    this.reserve = Math.min(reserve, time / 10)
    this.publishTimeout = Math.max(1, Math.min(publishTimeout, Math.floor(time / (2 * calls))))
    const turn = this.publishTimeout * calls
    this.shutdownTimeout = time === Infinity ? shutdownTimeout : turn
    this.#beginUntil = limits.until - turn - this.reserve
  }

  get reason(): DrainReason | undefined {
    return this.#reason
  }

  /** Milliseconds in which batches may still begin. */
  get remaining(): number {
    return Math.max(0, this.#beginUntil - this.#runtime.monotonic())
  }

  /** Milliseconds before the deadline. */
  get untilDeadline(): number {
    return Math.max(0, this.#limits.until - this.#runtime.monotonic())
  }

  /** Whether as many records have an outcome as were asked for. */
  get isReached(): boolean {
    return this.#done - this.#before >= this.#limits.limit
  }

  /** The first reason counts. */
  end(reason: DrainReason): void {
    this.#reason ??= reason
  }

  /** The number of records that a claim may return, of those wanted; `inFlight` are already claimed. The claim must be ended. */
  beginClaim(wanted: number, inFlight: number): number {
    const claimed = this.#done - this.#before + inFlight + this.#reserved
    const granted = Math.max(0, Math.min(wanted, this.#limits.limit - claimed))
    this.#reserved += granted
    return granted
  }

  /** The records of a claim are in flight, or there are none. */
  endClaim(granted: number): void {
    this.#reserved -= granted
  }

  get #done(): number {
    const { published, failed, parked } = this.#meter.totals
    return published + failed + parked
  }
}

/** The backlog of these destinations; `undefined`: of all. */
export function backlogOf(stats: OutboxStats, destinations: readonly string[] | undefined): DrainedBacklog {
  const left = { ready: 0, leased: 0, waiting: 0 }
  for (const one of stats.destinations) {
    if (destinations?.includes(one.destination) === false) continue
    for (const state of ['ready', 'leased', 'waiting'] as const) left[state] += one[state]
  }
  return left
}

/** The result of a drain whose time was over, or that was aborted, before its turn came. */
export function notDrained(reason: DrainReason): DrainResult {
  return { published: 0, failed: 0, parked: 0, reason, skipped: [], left: undefined, error: undefined }
}

export function storeError(error: unknown): Error | undefined {
  return error === undefined ? undefined : toError(error)
}

export function drainingError(): AckordError {
  return new AckordError('ACKORD_ALREADY_STARTED', 'The relay is draining. Await drain(), or stop() it, before you start the relay.')
}

export function runningError(): AckordError {
  const text = 'The relay runs, and publishes everything anyway: it cannot drain. Stop it first, or use another relay.'
  return new AckordError('ACKORD_ALREADY_STARTED', text)
}
