/** Tells whoever waits in this process that there may be something to relay. A hint: nothing is kept for those who do not wait, except one. */
export class WakeUps {
  readonly #listeners = new Set<() => void>()

  wake(): void {
    for (const listener of [...this.#listeners]) listener()
  }

  /** Yields once for every number of wake-ups since the last. Ends when the signal is aborted. */
  async *listen(signal: AbortSignal): AsyncGenerator<void, void, void> {
    let woken = false
    let resume: (() => void) | undefined
    const wake = () => {
      woken = true
      resume?.()
    }
    this.#listeners.add(wake)
    signal.addEventListener('abort', wake, { once: true })
    try {
      while (!signal.aborted) {
        if (!woken) {
          await new Promise<void>((resolve) => {
            resume = resolve
          })
        }
        woken = false
        if (!signal.aborted) yield
      }
    } finally {
      this.#listeners.delete(wake)
      signal.removeEventListener('abort', wake)
    }
  }
}
