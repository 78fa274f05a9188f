import { idle, type Runtime } from '../ports/runtime.ts'
import type { Backoff } from './backoff.ts'

/** Milliseconds, from the second consecutive failure on. A user's back-off may return less: a loop that fails immediately would then use up a processor. */
const shortestPause = 10

/**
 * The pause of a loop after a failure. It grows with consecutive failures, and starts again after a success. Every loop that reads from a broker uses
 * it, so that none of them retries without a pause.
 */
export class FailurePause {
  readonly #backoff: Backoff
  readonly #runtime: Runtime
  #failures = 0

  constructor({ backoff, runtime }: { readonly backoff: Backoff; readonly runtime: Runtime }) {
    this.#backoff = backoff
    this.#runtime = runtime
  }

  /** Whether the last try failed. */
  get isFailing(): boolean {
    return this.#failures > 0
  }

  succeeded(): void {
    this.#failures = 0
  }

  /** Counts a failure and returns the milliseconds to wait. */
  next(): number {
    this.#failures += 1
    return Math.max(this.#failures === 1 ? 0 : shortestPause, this.#backoff(this.#failures, this.#runtime.random))
  }

  /** Counts a failure and waits, at most until the signal is aborted. */
  async failed(signal: AbortSignal): Promise<void> {
    await idle(this.#runtime, this.next(), signal)
  }
}
