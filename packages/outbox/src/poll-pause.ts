import type { Runtime } from '@ackord/core'

const jitter = 0.2

/** The time between two polls. It doubles while they find nothing. A wake-up ends it; one that comes while nobody waits ends the next. */
export class PollPause {
  readonly #runtime: Runtime
  readonly #shortest: number
  readonly #longest: number
  #interval: number
  #woken = false
  #end: (() => void) | undefined

  constructor(runtime: Runtime, options: { readonly pollInterval: number; readonly maxPollInterval: number }) {
    this.#runtime = runtime
    this.#shortest = options.pollInterval
    this.#longest = options.maxPollInterval
    this.#interval = options.pollInterval
  }

  wake(): void {
    this.#woken = true
    this.#end?.()
  }

  /** Called right before a poll, which finds whatever was announced until now. */
  polling(): void {
    this.#woken = false
  }

  /** `atMost` milliseconds, where something else is due earlier. */
  async wait(options: { readonly found: boolean; readonly atMost?: number }): Promise<void> {
    const { found, atMost = Infinity } = options
    if (found) this.#interval = this.#shortest
    if (!this.#woken) {
      // Only ever shorter, so that the longest interval is one.
      const delay = this.#interval * (1 - jitter * this.#runtime.random())
      await this.#pause(Math.min(delay, atMost))
    }
    this.#interval = this.#woken ? this.#shortest : Math.min(this.#interval * 2, this.#longest)
  }

  #pause(delay: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        timer.cancel()
        this.#end = undefined
        resolve()
      }
      const timer = this.#runtime.setTimeout(end, delay)
      this.#end = end
    })
  }
}
