import type { Runtime } from '@ackord/core'

/** Lets a loop sleep until something happens or the time is over. A ring that nobody waits for is kept for the next one who does. */
export class Bell {
  readonly #runtime: Runtime
  #rung = false
  #wake: (() => void) | undefined

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  ring(): void {
    if (this.#wake === undefined) this.#rung = true
    else this.#wake()
  }

  /** Resolves at a ring, an abort, or after so many milliseconds. One at a time. */
  wait(delay: number, signal: AbortSignal): Promise<void> {
    if (this.#rung || signal.aborted || delay <= 0) {
      this.#rung = false
      return Promise.resolve()
    }
    return new Promise((resolve) => {
      const wake = () => {
        timer?.cancel()
        signal.removeEventListener('abort', wake)
        this.#wake = undefined
        resolve()
      }
      const timer = delay === Infinity ? undefined : this.#runtime.setTimeout(wake, delay)
      signal.addEventListener('abort', wake, { once: true })
      this.#wake = wake
    })
  }
}
