/** Lets one in at a time, in the order they came. */
export class WriterMutex {
  #held = false
  readonly #waiting = new Set<() => void>()

  /** What lets the next one in, if nobody is in. */
  enter(): (() => void) | undefined {
    if (this.#held) return undefined
    this.#held = true
    return this.#releaser()
  }

  /** Resolves to what lets the next one in; calling it again does nothing. An abort ends the wait with the signal's reason. */
  acquire(signal?: AbortSignal | undefined): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
      const enter = () => {
        signal?.removeEventListener('abort', onAbort)
        resolve(this.#releaser())
      }
      const onAbort = () => {
        this.#waiting.delete(enter)
        reject(signal?.reason)
      }
      if (!this.#held) {
        this.#held = true
        enter()
        return
      }
      this.#waiting.add(enter)
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  #releaser(): () => void {
    let released = false
    return () => {
      if (released) return
      released = true
      const [next] = this.#waiting
      if (next === undefined) {
        this.#held = false
        return
      }
      // It stays held: whoever comes in between must not overtake.
      this.#waiting.delete(next)
      next()
    }
  }
}
