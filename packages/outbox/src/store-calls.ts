import { AckordError, exponentialBackoff, idle, type Logger, type Runtime } from '@ackord/core'
import { abortable } from '@ackord/core/internal'
import { withTimeLimit } from './time-limit.ts'

export interface StoreCallOptions<T> {
  /** When, by the runtime's clock, an answer is of no use any more. Default: never. */
  readonly until?: number | undefined
  /** Ends the waiting between two tries, not a call that is under way. */
  readonly signal?: AbortSignal | undefined
  /** Takes the answer of a call that was given up. */
  readonly onLate?: ((answer: T) => void) | undefined
}

// Without jitter of its own: the pause is a random part of it, so that many relays do not come back at one moment.
const outageBackoff = exponentialBackoff({ initial: 200, max: 10_000, jitter: 0 })

/**
 * Calls a store that may be away. After a failure all calls wait for one and the same pause, which grows until something works again;
 * the log has a line for each end of an outage and none in between.
 */
export class StoreCalls {
  readonly #runtime: Runtime
  readonly #logger: Logger
  readonly #callLimit: number
  readonly #closing = new AbortController()
  #failures = 0
  #downSince: number | undefined
  #lastError: unknown
  #pause: Promise<void> | undefined

  /** `lease` is also the longest that a single call may take. */
  constructor(options: { readonly runtime: Runtime; readonly logger: Logger; readonly lease: number }) {
    this.#runtime = options.runtime
    this.#logger = options.logger
    this.#callLimit = options.lease
  }

  get down(): boolean {
    return this.#downSince !== undefined
  }

  get lastError(): unknown {
    return this.#lastError
  }

  /**
   * Tries until it works, and once even if `until` has passed: the store may see it differently, and its word counts.
   * Rejects when there is no time for another try, with the last failure, and with the signal's reason.
   */
  async run<T>(call: () => Promise<T>, options: StoreCallOptions<T> = {}): Promise<T> {
    const { until = Infinity, signal, onLate } = options
    for (let failure: { readonly error: unknown } | undefined; ; ) {
      if (this.#pause !== undefined) await (signal === undefined ? this.#pause : abortable(this.#pause, signal))
      signal?.throwIfAborted()
      const remaining = until - this.#runtime.now()
      if (remaining <= 0 && failure !== undefined) throw failure.error
      const limit = remaining <= 0 ? this.#callLimit : Math.min(remaining, this.#callLimit)
      try {
        const answer = await this.#once(call, limit, onLate)
        this.#worked()
        return answer
      } catch (error) {
        failure = { error }
        this.#failed(error)
      }
    }
  }

  /** Ends the pause, so that no timer is left. Calls that still wait then try once more. */
  close(): void {
    this.#closing.abort()
  }

  async #once<T>(call: () => Promise<T>, limit: number, onLate: ((answer: T) => void) | undefined): Promise<T> {
    return await withTimeLimit(
      this.#runtime,
      limit,
      () => tooLate(limit),
      (signal) => {
        const answer = call()
        if (onLate !== undefined) {
          // The failure of a call that was given up concerns nobody.
          answer.then(
            (value) => (signal.aborted ? onLate(value) : undefined),
            () => {},
          )
        }
        return answer
      },
    )
  }

  #worked(): void {
    this.#failures = 0
    if (this.#downSince === undefined) return
    const downFor = this.#runtime.now() - this.#downSince
    this.#downSince = undefined
    this.#logger.info({ downFor }, 'The outbox store answers again.')
  }

  #failed(error: unknown): void {
    this.#lastError = error
    if (this.#downSince === undefined) {
      this.#downSince = this.#runtime.now()
      this.#logger.error({ err: error }, 'The outbox store failed. It is tried again, less and less often, until it works.')
    }
    if (this.#pause !== undefined) return
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
    `The outbox store did not answer within ${Math.round(limit)} ms, which is what was left of the lease.`,
  )
}
