import { abortable } from '@ackord/core/internal'

/**
 * Waits until a batch may be published, or the signal is aborted. Resolves to the function that ends the turn: it is idempotent, and must be called in
 * either case.
 */
export type TakeTurn = (signal: AbortSignal) => Promise<() => void>

/**
 * Limits the batches of several stores that are published concurrently. Stores that wait take turns, one batch each, so that a store with many batches
 * does not starve one with few.
 */
export class PublishTurns {
  /** The batches that wait, by store. The first store is the next one; if it has more batches, it goes to the end after its turn. */
  readonly #waiting = new Map<string, readonly (() => void)[]>()
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  /** The turns of one store. */
  of(store: string): TakeTurn {
    return async (signal) => {
      const granted = this.#grant(store)
      await abortable(granted, signal).catch(() => {})
      let ended = false
      return () => {
        if (ended) return
        ended = true
        // A turn that comes after the abort goes to the next store.
        void granted.then(() => this.#pass())
      }
    }
  }

  #grant(store: string): Promise<void> {
    return new Promise((resolve) => {
      if (this.#free === 0) {
        this.#waiting.set(store, [...(this.#waiting.get(store) ?? []), resolve])
        return
      }
      this.#free -= 1
      resolve()
    })
  }

  #pass(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#free += 1
      return
    }
    const [store, [grant, ...others]] = next
    this.#waiting.delete(store)
    if (others.length > 0) this.#waiting.set(store, others)
    grant?.()
  }
}
