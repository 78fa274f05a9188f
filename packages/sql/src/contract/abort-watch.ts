/**
 * Reports when the signals of waiting work are aborted, with one listener per signal: most messages share the signal of their router. Adding and
 * removing a listener per message would cost more than the wait itself, and Node leaves a removed listener linked to those added after it, so one
 * dead listener in the old space keeps all later ones alive, together with their messages.
 */
export class AbortWatch {
  readonly #onAbort: (signal: AbortSignal) => void
  readonly #watched = new Map<AbortSignal, { readonly listener: () => void; count: number }>()

  constructor(onAbort: (signal: AbortSignal) => void) {
    this.#onAbort = onAbort
  }

  /** Watches the signal for one more waiter. The signal must not be aborted yet. */
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

  /** Called when a waiter no longer waits. */
  remove(signal: AbortSignal): void {
    const watched = this.#watched.get(signal)
    if (watched === undefined) return
    watched.count -= 1
    if (watched.count > 0) return
    this.#watched.delete(signal)
    signal.removeEventListener('abort', watched.listener)
  }
}
