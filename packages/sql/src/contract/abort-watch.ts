/**
 * Tells when the signals of things that wait are aborted, with one listener per signal: most messages share that of their router. To add and
 * remove one for each of them would cost more than their wait, and Node leaves what it removes linked to what comes after it, so that one dead
 * listener in the old space keeps all later ones, with their messages.
 */
export class AbortWatch {
  readonly #onAbort: (signal: AbortSignal) => void
  readonly #watched = new Map<AbortSignal, { readonly listener: () => void; count: number }>()

  constructor(onAbort: (signal: AbortSignal) => void) {
    this.#onAbort = onAbort
  }

  /** For one thing more. The signal is not aborted yet. */
  add(signal: AbortSignal): void {
    const watched = this.#watched.get(signal)
    if (watched !== undefined) {
      watched.count += 1
      return
    }
    const listener = () => {
      this.#watched.delete(signal)
      this.#onAbort(signal)
    }
    this.#watched.set(signal, { listener, count: 1 })
    signal.addEventListener('abort', listener, { once: true })
  }

  /** For one that does not wait any longer. */
  remove(signal: AbortSignal): void {
    const watched = this.#watched.get(signal)
    if (watched === undefined) return
    watched.count -= 1
    if (watched.count > 0) return
    this.#watched.delete(signal)
    signal.removeEventListener('abort', watched.listener)
  }
}
