import type { Backoff, Logger, Runtime } from '@ackord/core'
import { backoffDelay, delayOf } from './delay.ts'

interface Down {
  readonly since: number
  /** In a row; 0 once a trial went well. */
  failures: number
  /** No trial before this. */
  until: number
  /** How many records the next trial takes. */
  limit: number
  trying: boolean
  /** Trials in a row that found nothing to send. */
  empty: number
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
 * Which destinations are left alone, and when they are tried again. It lives in memory: each relay finds out for itself.
 *
 *     up   ─ a destination failure ─▶ down: not claimed with the others
 *     down ─ the pause is over ─────▶ a trial with half as many records as failed last
 *              ─ fails ─────────────▶ a longer pause, half as many
 *              ─ goes well ─────────▶ the next trial at once, with twice as many, until it is a full batch or nothing is left: up
 *              ─ finds nothing ─────▶ the same pause again; after ten of them nobody needs the destination: up
 *
 * Growing like this keeps a broker that takes 100 records but not 500 in time from seeing the same 500 for ever.
 */
export class DestinationPauses {
  readonly #options: DestinationPausesOptions
  readonly #down = new Map<string, Down>()

  constructor(options: DestinationPausesOptions) {
    this.#options = options
  }

  /** Those that are down. */
  get destinations(): readonly string[] {
    return [...this.#down.keys()]
  }

  /** Milliseconds before the next trial is due. */
  get nextTrial(): number {
    const now = this.#options.runtime.now()
    let next = Infinity
    for (const { until, trying } of this.#down.values()) if (!trying) next = Math.min(next, until - now)
    return Math.max(0, next)
  }

  /** Those whose pause is over. Each is the caller's to try, until `endTrial()`. */
  takeDue(): readonly string[] {
    const due: string[] = []
    for (const [destination, down] of this.#down) {
      if (down.trying || !this.#isOver(down)) continue
      down.trying = true
      due.push(destination)
    }
    return due
  }

  /** How many records a trial may take now; `undefined` if it must wait, or need not be. */
  trialSize(destination: string): number | undefined {
    const down = this.#down.get(destination)
    return down !== undefined && this.#isOver(down) ? down.limit : undefined
  }

  endTrial(destination: string): void {
    const down = this.#down.get(destination)
    if (down !== undefined) down.trying = false
  }

  /** The destination took `sent` records, or said of each what is wrong with it. 0 if a trial found nothing to send. */
  worked(destination: string, sent: number): void {
    const down = this.#down.get(destination)
    if (down === undefined || !this.#isOver(down)) return
    if (sent === 0 && down.failures > 0 && down.empty < emptyTrials) {
      // Somebody else may have what waits for it: that says nothing of the destination.
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
    const downFor = runtime.now() - down.since
    onUp?.(destination, downFor)
    logger.info({ destination, downFor }, 'A destination is up again.')
  }

  failed(destination: string, sent: number, failure: { readonly error: unknown; readonly retryAfter?: number | undefined }): void {
    const { runtime, logger, onDown } = this.#options
    let down = this.#down.get(destination)
    if (down === undefined) {
      down = { since: runtime.now(), failures: 0, until: 0, limit: 1, trying: false, empty: 0 }
      this.#down.set(destination, down)
      onDown?.(destination, failure.error)
      logger.warn(
        { destination, err: failure.error },
        'A destination is down. Its records wait, without losing attempts, until it works again.',
      )
    } else if (!this.#isOver(down)) {
      // An answer to something sent before the pause began.
      return
    }
    down.failures += 1
    down.empty = 0
    down.limit = Math.max(1, Math.floor(sent / 2))
    this.#pause(down, failure.retryAfter)
  }

  #pause(down: Down, atLeast: number | undefined): void {
    const { backoff, runtime } = this.#options
    down.until = runtime.now() + Math.max(backoffDelay(backoff, down.failures, runtime), delayOf(atLeast ?? 0))
  }

  #isOver({ until }: Down): boolean {
    return until <= this.#options.runtime.now()
  }
}
