import { setMaxListeners } from 'node:events'
import { AckordError, type Runtime, type Timer } from '@ackord/core'

/**
 * The phases of a stop.
 *
 *     running ─ begin() ─▶ stopping: no new work starts ─ the time is over ─▶ forced: work in flight is abandoned
 */
export class Shutdown {
  readonly #runtime: Runtime
  readonly #timeout: number
  readonly #stopping = new AbortController()
  readonly #forced = new AbortController()
  #timer: Timer | undefined

  /** `timeout` milliseconds; 0 forces the stop immediately, `Infinity` never. */
  constructor(runtime: Runtime, timeout: number) {
    this.#runtime = runtime
    this.#timeout = timeout
    // Every batch listens to them. Avoids Node's MaxListenersExceededWarning.
    setMaxListeners(0, this.stopping, this.forced)
  }

  get stopping(): AbortSignal {
    return this.#stopping.signal
  }

  get forced(): AbortSignal {
    return this.#forced.signal
  }

  begin(): void {
    if (this.stopping.aborted) return
    this.#stopping.abort(new AckordError('ACKORD_SHUTDOWN', 'The relay was stopped.'))
    if (this.#timeout === 0) this.#force()
    else if (this.#timeout !== Infinity) this.#timer = this.#runtime.setTimeout(() => this.#force(), this.#timeout)
  }

  /** All work has ended. */
  end(): void {
    this.#timer?.cancel()
  }

  #force(): void {
    const text = `The relay was stopped and its shutdownTimeout of ${this.#timeout} ms has passed.`
    this.#forced.abort(new AckordError('ACKORD_SHUTDOWN', text))
  }
}
