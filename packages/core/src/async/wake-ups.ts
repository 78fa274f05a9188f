import type { Runtime } from '../ports/runtime.ts'

/**
 * Yields once for any number of calls of `hint` since the last time. `listen` receives `hint`, and returns a function that ends the listening. Ends
 * when the signal is aborted.
 */
export async function* eachWakeUp(listen: (hint: () => void) => () => void, signal: AbortSignal): AsyncGenerator<void, void, void> {
  let hinted = false
  let resume: (() => void) | undefined
  const hint = () => {
    hinted = true
    resume?.()
  }
  const unlisten = listen(hint)
  signal.addEventListener('abort', hint, { once: true })
  try {
    while (!signal.aborted) {
      if (!hinted) {
        await new Promise<void>((resolve) => {
          resume = resolve
        })
      }
      hinted = false
      if (!signal.aborted) yield
    }
  } finally {
    unlisten()
    signal.removeEventListener('abort', hint)
  }
}

/** Lets a loop sleep until a notification or a time-out. A notification that arrives while the loop does not wait is kept for the next wait. */
export class WakeSignal {
  readonly #runtime: Runtime
  #notified = false
  #wake: (() => void) | undefined

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  notify(): void {
    if (this.#wake === undefined) this.#notified = true
    else this.#wake()
  }

  /** Resolves at a notification, an abort, or after this many milliseconds. One wait at a time. */
  wait(delay: number, signal: AbortSignal): Promise<void> {
    if (this.#notified || signal.aborted || delay <= 0) {
      this.#notified = false
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
