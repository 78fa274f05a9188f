import { setMaxListeners } from 'node:events'
import { AckordError, exponentialBackoff, idle, type Logger, type Timer } from '@ackord/core'
import { abortable, withTimeLimit } from '@ackord/core/internal'
import type { WatchedRuntime } from '../options/watched-runtime.ts'

export interface StoreCallOptions<T> {
  /** When, by the runtime's clock, an answer becomes useless. Default: never. */
  readonly until?: number | undefined
  /** Ends the wait between two tries, not a call that is in flight. */
  readonly signal?: AbortSignal | undefined
  /** Receives the answer of a call that was abandoned. */
  readonly onLate?: ((answer: T) => void) | undefined
}

export interface StoreCallsOptions {
  readonly runtime: WatchedRuntime
  readonly logger: Logger
  /** Also the time limit of a single call. */
  readonly lease: number
  /** Called when the store begins to fail. */
  readonly onDown?: ((error: unknown) => void) | undefined
  /** Called when the store works again. */
  readonly onUp?: ((downFor: number) => void) | undefined
}

// No jitter of its own: the pause is a random part of it, so that many relays do not retry at the same moment.
const outageBackoff = exponentialBackoff({ initial: 200, max: 10_000, jitter: 0 })

/**
 * Calls a store that may be unavailable. After a failure all calls wait for one shared pause, which grows until a call succeeds; the log has one line
 * at the start and one at the end of an outage, and none in between.
 */
export class StoreCalls {
  readonly #runtime: WatchedRuntime
  readonly #logger: Logger
  readonly #callLimit: number
  readonly #onDown: ((error: unknown) => void) | undefined
  readonly #onUp: ((downFor: number) => void) | undefined
  readonly #closing = new AbortController()
  readonly #givenUp = new AbortController()
  #lastCall: Timer | undefined
  #failures = 0
  #downSince: number | undefined
  #lastError: unknown
  #pause: Promise<void> | undefined

  constructor(options: StoreCallsOptions) {
    this.#runtime = options.runtime
    this.#logger = options.logger
    this.#callLimit = options.lease
    this.#onDown = options.onDown
    this.#onUp = options.onUp
    // Every call listens to it. Avoids Node's MaxListenersExceededWarning.
    setMaxListeners(0, this.#givenUp.signal)
  }

  get down(): boolean {
    return this.#downSince !== undefined
  }

  get lastError(): unknown {
    return this.#lastError
  }

  /**
   * Tries until a call succeeds, and once even if `until` has passed: the store's clock may differ, and the store decides. Rejects when there is no
   * time for another try, with the last failure, or with the signal's reason.
   */
  async run<T>(call: () => Promise<T>, options: StoreCallOptions<T> = {}): Promise<T> {
    const { until = Infinity, signal, onLate } = options
    for (let failure: { readonly error: unknown } | undefined; ; ) {
      if (this.#pause !== undefined) await (signal === undefined ? this.#pause : abortable(this.#pause, signal))
      signal?.throwIfAborted()
      const remaining = until - this.#runtime.monotonic()
      if (remaining <= 0 && failure !== undefined) throw failure.error
      const limit = remaining <= 0 ? this.#callLimit : Math.min(remaining, this.#callLimit)
      const { suspensions } = this.#runtime
      try {
        const answer = await this.#once(call, limit, onLate)
        this.#worked()
        return answer
      } catch (error) {
        failure = { error }
        // A connection that broke while this process was suspended says nothing about the store. The call is repeated immediately.
        if (this.#runtime.suspensions === suspensions) this.#failed(error)
        if (this.#closing.signal.aborted) throw error
      }
    }
  }

  /**
   * From now on nothing is tried twice, and no timer is left. Calls that wait for their next try make it immediately; a call in flight is abandoned.
   * With `within`, it is abandoned after that many milliseconds; until then there is a timer, which the last `close()` cancels.
   */
  close(options: { readonly within?: number | undefined } = {}): void {
    const { within } = options
    this.#closing.abort()
    this.#lastCall?.cancel()
    // A renewal that hangs is useless now, and its time limit would keep the process alive.
    if (within === undefined) this.#givenUp.abort(stopped())
    else this.#lastCall = this.#runtime.setTimeout(() => this.#givenUp.abort(stopped()), within)
  }

  async #once<T>(call: () => Promise<T>, limit: number, onLate: ((answer: T) => void) | undefined): Promise<T> {
    const { signal: givenUp } = this.#givenUp
    return await withTimeLimit(
      this.#runtime,
      limit,
      () => tooLate(limit),
      (signal) => {
        const answer = call()
        if (onLate !== undefined) {
          // The failure of an abandoned call is ignored.
          answer.then(
            (value) => (signal.aborted || givenUp.aborted ? onLate(value) : undefined),
            () => {},
          )
        }
        return abortable(answer, givenUp)
      },
    )
  }

  #worked(): void {
    this.#failures = 0
    if (this.#downSince === undefined) return
    const downFor = this.#runtime.monotonic() - this.#downSince
    this.#downSince = undefined
    this.#onUp?.(downFor)
    this.#logger.info({ downFor }, 'The outbox store answers again.')
  }

  #failed(error: unknown): void {
    this.#lastError = error
    if (this.#downSince === undefined) {
      this.#downSince = this.#runtime.monotonic()
      this.#onDown?.(error)
      this.#logger.error({ err: error }, 'The outbox store failed. Calls are retried with growing pauses until it works.')
    }
    if (this.#pause !== undefined || this.#closing.signal.aborted) return
    this.#failures += 1
    const delay = outageBackoff(this.#failures, this.#runtime.random) * this.#runtime.random()
    this.#pause = idle(this.#runtime, delay, this.#closing.signal).then(() => {
      this.#pause = undefined
    })
  }
}

function tooLate(limit: number): AckordError {
  return new AckordError(
    'ACKORD_LEASE_LOST',
    `The outbox store did not answer within ${Math.round(limit)} ms, which was the rest of the lease.`,
  )
}

function stopped(): AckordError {
  return new AckordError('ACKORD_SHUTDOWN', 'The outbox store did not answer before the stop timed out.')
}
