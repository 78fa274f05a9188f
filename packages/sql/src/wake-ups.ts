import { hints } from '@ackord/core/internal'

/** Tells whoever waits in this process that there may be something to relay. A hint: nothing is kept for those who do not wait, except one. */
export class WakeUps {
  readonly #listeners = new Set<() => void>()

  wake(): void {
    for (const listener of [...this.#listeners]) listener()
  }

  /** Yields once for every number of wake-ups since the last. Ends when the signal is aborted. */
  listen(signal: AbortSignal): AsyncGenerator<void, void, void> {
    const follow = (wake: () => void) => {
      this.#listeners.add(wake)
      return () => void this.#listeners.delete(wake)
    }
    return hints(follow, signal)
  }
}
