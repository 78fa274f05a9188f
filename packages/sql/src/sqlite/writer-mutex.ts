import { AbortWatch } from '../abort-watch.ts'

interface Waiting {
  readonly signal: AbortSignal | undefined
  enter(): void
  reject(reason: unknown): void
}

/** Who is in, and must hear of an abort. */
export interface Interruptible {
  readonly signal: AbortSignal
  onAbort(): void
}

/** Lets one in at a time, in the order they came. */
export class WriterMutex {
  #held = false
  #waiting: Waiting[] = []
  // One, and those that were aborted and have not ended.
  #watched: readonly Interruptible[] = []
  readonly #aborts = new AbortWatch((signal) => {
    const left = this.#waiting.filter((waiting) => waiting.signal === signal)
    this.#waiting = this.#waiting.filter((waiting) => waiting.signal !== signal)
    for (const waiting of left) waiting.reject(signal.reason)
    // Last, because it lets the next one in.
    for (const watched of this.#watched) if (watched.signal === signal) watched.onAbort()
  })

  /** What lets the next one in, if nobody is in. */
  enter(): (() => void) | undefined {
    if (this.#held) return undefined
    this.#held = true
    return this.#releaser()
  }

  /** Resolves to what `enter` makes of what lets the next one in; calling that again does nothing. An abort ends the wait with the signal's reason. */
  acquire<T>(enter: (release: () => void) => T, signal?: AbortSignal | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
      const release = this.enter()
      if (release !== undefined) {
        resolve(enter(release))
        return
      }
      this.#waiting.push({ signal, reject, enter: () => resolve(enter(this.#releaser())) })
      if (signal !== undefined) this.#aborts.add(signal)
    })
  }

  /** Whoever is in is told if its signal is aborted. */
  watch(watched: Interruptible): void {
    this.#watched = [...this.#watched, watched]
    this.#aborts.add(watched.signal)
  }

  unwatch(watched: Interruptible): void {
    this.#watched = this.#watched.filter((other) => other !== watched)
    this.#aborts.remove(watched.signal)
  }

  #releaser(): () => void {
    let released = false
    return () => {
      if (released) return
      released = true
      const next = this.#waiting.shift()
      if (next === undefined) {
        this.#held = false
        return
      }
      if (next.signal !== undefined) this.#aborts.remove(next.signal)
      // It stays held: whoever comes in between must not overtake.
      next.enter()
    }
  }
}
