import { idle, type Runtime } from '../ports/runtime.ts'
import type { Backoff } from './backoff.ts'

/** Milliseconds, from the second failure in a row on. A back-off of the user's own may return less: a loop that fails at once would then use up a processor. */
const shortestPause = 10

/**
 * The pause that a loop takes after a failure. It grows while failures follow each other, and starts again at the first one after a success. Every loop
 * that reads from a broker takes it, so that none of them tries without a pause.
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

  /** Counts a failure and waits, or until the signal is aborted. */
  async failed(signal: AbortSignal): Promise<void> {
    await idle(this.#runtime, this.next(), signal)
  }
}
