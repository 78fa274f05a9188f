import { setMaxListeners } from 'node:events'
import type { Runtime } from '../ports/runtime.ts'

/** Resolves or rejects like the promise, or rejects with the signal's reason if that comes first. A later rejection of the promise is ignored. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    promise.then(
      (value) => {
        signal.removeEventListener('abort', onAbort)
        resolve(value)
      },
      (error: unknown) => {
        signal.removeEventListener('abort', onAbort)
        reject(error)
      },
    )
  })
}

/** A controller that is aborted with its parent signal. Dispose it; otherwise a long-lived parent keeps it in memory for ever. */
export interface LinkedController extends Disposable {
  readonly signal: AbortSignal
  abort(reason: unknown): void
}

export function linkedController(parent: AbortSignal): LinkedController {
  const controller = new AbortController()
  // A whole handler may listen to it. Avoids Node's MaxListenersExceededWarning.
  setMaxListeners(0, controller.signal)
  const onAbort = () => controller.abort(parent.reason)
  if (parent.aborted) onAbort()
  else parent.addEventListener('abort', onAbort, { once: true })
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    [Symbol.dispose]: () => parent.removeEventListener('abort', onAbort),
  }
}

/** Milliseconds that a broker gets to answer when something is closed or released. A connection that is dead and has not noticed must not delay a stop. */
export const answerTimeout = 5000

/** Resolves when the promise has settled, either way, or when the time is over. */
export async function settledWithin(runtime: Runtime, limit: number, promise: Promise<unknown>): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = runtime.setTimeout(resolve, limit)
    const settled = () => {
      timer.cancel()
      resolve()
    }
    promise.then(settled, settled)
  })
}

/** Milliseconds. A timer is late by this much only if the process did not run. */
const stalled = 1000

export interface TimeLimitOptions {
  /** Whether a result that the work returns in response to the abort, in the same tick, still counts. Default: false. */
  readonly useAbortResult?: boolean | undefined
}

/**
 * Resolves or rejects like the work, or rejects with `late()` after `limit` milliseconds. The signal is then aborted; the end of the work is not waited for.
 * If the process did not run when the time was over, the answer may have arrived already: it gets another second.
 */
export async function withTimeLimit<T>(
  runtime: Runtime,
  limit: number,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
  options: TimeLimitOptions = {},
): Promise<T> {
  const controller = new AbortController()
  const over = new AbortController()
  const startedAt = runtime.monotonic()
  const end = () => {
    const error = late()
    controller.abort(error)
    if (options.useAbortResult === true) timer = runtime.setTimeout(() => over.abort(error), 0)
    else over.abort(error)
  }
  let timer = runtime.setTimeout(() => {
    if (runtime.monotonic() - startedAt < limit + stalled) end()
    else timer = runtime.setTimeout(end, Math.min(limit, stalled))
  }, limit)
  try {
    return await abortable(work(controller.signal), over.signal)
  } finally {
    timer.cancel()
  }
}

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
