import { idle, type Logger, type Runtime } from '@ackord/core'
import { abortable } from '@ackord/core/internal'
import type { OutboxStore } from '../store/outbox-store.ts'

const jitter = 0.2

/** The pause between two polls. It doubles while polls find nothing. A wake-up ends it; a wake-up outside of a pause skips the next one. */
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

  /** Called right before a poll, which finds everything that was announced so far. */
  polling(): void {
    this.#woken = false
  }

  /** Waits at most `atMost` milliseconds, where something else is due earlier. */
  async wait(options: { readonly found: boolean; readonly atMost?: number }): Promise<void> {
    const { found, atMost = Infinity } = options
    if (found) this.#interval = this.#shortest
    if (!this.#woken) {
      // Jitter only shortens the pause, so that the longest interval is a true upper limit.
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

const retryAfter = 10_000

/**
 * Calls `wake` for each of the store's notifications until the signal is aborted. Never rejects. When the notifications fail, the relay depends on
 * polling until they work again.
 */
export async function followWakeUps(
  store: OutboxStore,
  wake: () => void,
  options: { readonly signal: AbortSignal; readonly runtime: Runtime; readonly logger: Logger },
): Promise<void> {
  const { signal, runtime, logger } = options
  if (store.wakeUps === undefined) return
  let failing = false
  while (!signal.aborted) {
    try {
      await follow(store.wakeUps({ signal }), signal, () => {
        failing = false
        wake()
      })
    } catch (error) {
      if (signal.aborted) return
      if (!failing) logger.warn({ err: error }, "The store's wake-ups failed; until they work again, records wait for the next poll.")
      failing = true
    }
    await idle(runtime, retryAfter, signal)
  }
}

async function follow(wakeUps: AsyncIterable<void>, signal: AbortSignal, wake: () => void): Promise<void> {
  const iterator = wakeUps[Symbol.asyncIterator]()
  try {
    for (;;) {
      // Not `for await`: a store that ignores the signal must not delay a stop.
      const { done } = await abortable(iterator.next(), signal)
      if (done === true) return
      wake()
    }
  } finally {
    void leave(iterator)
  }
}

async function leave(iterator: AsyncIterator<void>): Promise<void> {
  try {
    await iterator.return?.()
  } catch {
    // The iterator is abandoned: its errors are ignored.
  }
}
