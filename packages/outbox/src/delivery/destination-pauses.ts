import type { Backoff, Logger, Runtime } from '@ackord/core'
import { backoffDelay, delayOf } from './outcomes.ts'

interface Down {
  readonly since: number
  /** Consecutive failures; 0 after a successful trial. */
  failures: number
  /** The earliest time of the next trial. */
  until: number
  /** The number of records in the next trial. */
  limit: number
  trying: boolean
  /** Consecutive trials that found nothing to send. */
  empty: number
  /** Whether the outage has been logged. */
  logged: boolean
}

export interface DestinationPausesOptions {
  readonly backoff: Backoff
  readonly batchSize: number
  readonly runtime: Runtime
  readonly logger: Logger
  readonly onDown?: ((destination: string, error: unknown) => void) | undefined
  readonly onUp?: ((destination: string, downFor: number) => void) | undefined
}

const emptyTrials = 10

/**
 * Milliseconds. A destination that goes down again earlier than this after it was up, such as one with a rate limit per second, is not logged again
 * unless it stays down for as long.
 */
const calmPeriod = 60_000

/** The size of a trial: `claim` records are claimed, and `limit` of them sent, not counting suspects. */
export interface Trial {
  readonly limit: number
  readonly claim: number
}

/** The maximum number of records that a trial with one record chooses from, and of suspects that are claimed with it. */
const maxChoice = 100

/**
 * Tracks which destinations are paused, and when they are tried again. The state is in memory: each relay finds out for itself.
 *
 *     up   ─ a destination failure ─▶ down: not claimed with the others
 *     down ─ the pause is over ─────▶ a trial with half as many records as failed last
 *              ─ fails ─────────────▶ a longer pause, a quarter as many, then an eighth, and so on
 *              ─ succeeds ──────────▶ the next trial immediately, with twice as many, until it is a full batch or no record is left: up
 *              ─ finds nothing ─────▶ the same pause again; after ten of them the destination is not needed: up
 *
 * Without the growing trials, a broker that accepts 100 records in time but not 500 would see the same 500 for ever. Pauses double, so halving the
 * trial each time would delay 500 records for minutes if one of them is at fault. With growing steps, the fourth trial has one record, after 15 seconds.
 *
 * The fault may lie in a record. So a trial with one record picks any of many, not always the oldest. A record that failed while others of its call
 * succeeded, or in a small trial right after a successful one, becomes a suspect: it is sent alone from then on. If it fails while others succeed,
 * the failure is its own, and the destination is up.
 */
export class DestinationPauses {
  readonly #options: DestinationPausesOptions
  readonly #down = new Map<string, Down>()
  /** Recoveries of destinations that had been down recently, the latest at the end. */
  readonly #upAt = new Map<string, number>()
  /** The ids of suspected records, by destination. */
  readonly #suspects = new Map<string, Set<string>>()

  constructor(options: DestinationPausesOptions) {
    this.#options = options
  }

  /** The destinations that are down. */
  get destinations(): readonly string[] {
    return [...this.#down.keys()]
  }

  /** For how many milliseconds each of them has been down. */
  get downFor(): readonly { readonly destination: string; readonly downFor: number }[] {
    const now = this.#options.runtime.monotonic()
    return [...this.#down].map(([destination, { since }]) => ({ destination, downFor: Math.round(now - since) }))
  }

  /** Milliseconds before the next trial is due. */
  get nextTrial(): number {
    const now = this.#options.runtime.monotonic()
    let next = Infinity
    for (const { until, trying } of this.#down.values()) if (!trying) next = Math.min(next, until - now)
    return Math.max(0, next)
  }

  /**
   * For a drain, which does not wait for ever. `failing`: whether a destination is down whose last trial has not shown that it has no records. `nextTrial`: milliseconds before
   * the next trial of such a destination that has failed fewer than `maxFailures` times in a row; `Infinity` if there is none.
   */
  outlook(maxFailures: number): { readonly failing: boolean; readonly nextTrial: number } {
    const now = this.#options.runtime.monotonic()
    let failing = false
    let nextTrial = Infinity
    for (const { until, failures, empty } of this.#down.values()) {
      if (empty > 0) continue
      failing = true
      if (failures < maxFailures) nextTrial = Math.min(nextTrial, Math.max(0, until - now))
    }
    return { failing, nextTrial }
  }

  /** The destinations whose pause is over. The caller must try each of them and call `endTrial()`. */
  takeDue(): readonly string[] {
    const due: string[] = []
    for (const [destination, down] of this.#down) {
      if (down.trying || !this.#isOver(down)) continue
      down.trying = true
      due.push(destination)
    }
    return due
  }

  /** The size of a trial now; `undefined` if it must wait, or is not needed. */
  trial(destination: string): Trial | undefined {
    const down = this.#down.get(destination)
    if (down === undefined || !this.#isOver(down)) return undefined
    const { limit, failures } = down
    const suspected = Math.min(this.#suspects.get(destination)?.size ?? 0, maxChoice)
    const choice = limit === 1 ? Math.min(4 ** failures, maxChoice) : limit
    return { limit, claim: Math.min(choice + suspected, this.#options.batchSize) }
  }

  /** Whether the last trial of a destination succeeded, and it is not up yet. */
  isRecovering(destination: string): boolean {
    return this.#down.get(destination)?.failures === 0
  }

  hasSuspects(destination: string): boolean {
    return this.#suspects.has(destination)
  }

  isSuspect(destination: string, id: string): boolean {
    return this.#suspects.get(destination)?.has(id) === true
  }

  suspect(destination: string, ids: readonly string[]): void {
    let suspects = this.#suspects.get(destination)
    if (suspects === undefined) {
      suspects = new Set()
      this.#suspects.set(destination, suspects)
    }
    for (const id of ids) suspects.add(id)
    // The oldest suspects are forgotten: if they fail again they become suspects again.
    for (const id of suspects) {
      if (suspects.size <= this.#options.batchSize) break
      suspects.delete(id)
    }
  }

  /** Clears the suspicion of these records; without ids, of all records of the destination. */
  clear(destination: string, ids?: readonly string[]): void {
    const suspects = this.#suspects.get(destination)
    if (suspects === undefined) return
    for (const id of ids ?? suspects) suspects.delete(id)
    if (suspects.size === 0) this.#suspects.delete(destination)
  }

  endTrial(destination: string): void {
    const down = this.#down.get(destination)
    if (down !== undefined) down.trying = false
  }

  /** The destination accepted `sent` records, or reported what is wrong with each. `sent` is 0 if a trial found nothing to send. */
  worked(destination: string, sent: number): void {
    const down = this.#down.get(destination)
    if (down === undefined || !this.#isOver(down)) return
    if (sent === 0 && down.failures > 0 && down.empty < emptyTrials) {
      // Another relay may have claimed the waiting records: an empty trial says nothing about the destination.
      down.empty += 1
      this.#pause(down, 0)
      return
    }
    down.failures = 0
    down.empty = 0
    if (sent >= down.limit && down.limit < this.#options.batchSize) {
      down.limit = Math.min(down.limit * 2, this.#options.batchSize)
      return
    }
    this.#down.delete(destination)
    const { runtime, logger, onUp } = this.#options
    const now = runtime.monotonic()
    const downFor = now - down.since
    this.#upAt.delete(destination)
    this.#upAt.set(destination, now)
    onUp?.(destination, downFor)
    if (down.logged) logger.info({ destination, downFor }, 'A destination is up again.')
  }

  /** `passed`: whether the destination accepted some of the records. Then it is tried again soon. */
  failed(
    destination: string,
    sent: number,
    failure: { readonly error: unknown; readonly retryAfter?: number | undefined; readonly passed?: boolean | undefined },
  ): void {
    const { runtime, logger, onDown } = this.#options
    const now = runtime.monotonic()
    let down = this.#down.get(destination)
    if (down === undefined) {
      down = { since: now, failures: 0, until: -Infinity, limit: 1, trying: false, empty: 0, logged: false }
      this.#down.set(destination, down)
      onDown?.(destination, failure.error)
    } else if (!this.#isOver(down)) {
      // The answer to a publish that was sent before the pause began.
      return
    }
    if (!down.logged && (now - down.since >= calmPeriod || !this.#wasUp(destination, now))) {
      down.logged = true
      logger.warn(
        { destination, err: failure.error },
        'A destination is down. Its records wait, without losing attempts, until it is up again.',
      )
    }
    down.failures = failure.passed === true ? 1 : down.failures + 1
    down.empty = 0
    down.limit = Math.max(1, Math.floor(sent / 2 ** down.failures))
    this.#pause(down, failure.retryAfter)
  }

  #pause(down: Down, atLeast: number | undefined): void {
    const { backoff, runtime } = this.#options
    down.until = runtime.monotonic() + Math.max(backoffDelay(backoff, down.failures, runtime), delayOf(atLeast ?? 0))
  }

  /** Whether it recovered shortly before it went down. */
  #wasUp(destination: string, now: number): boolean {
    for (const [each, at] of this.#upAt) {
      if (now - at < calmPeriod) break
      this.#upAt.delete(each)
    }
    return this.#upAt.has(destination)
  }

  #isOver({ until }: Down): boolean {
    return until <= this.#options.runtime.monotonic()
  }
}
