import { randomUUID } from 'node:crypto'

/** The world outside: clock, timers, randomness. Passed in everywhere instead of being reached for, so that a simulation can own time. */
export interface Runtime {
  /** Milliseconds since the epoch. */
  now(): number
  /** Runs the callback once after `delay` milliseconds, unless cancelled. */
  setTimeout(callback: () => void, delay: number, options?: TimerOptions): Timer
  /** A number from 0 up to, not including, 1. */
  random(): number
  uuid(): string
  /** Lets the event loop turn, so that timers and I/O get in between messages that come without a pause. Default: it is not done. */
  yield?(): Promise<void>
}

export interface TimerOptions {
  /** Whether the timer keeps the process alive. Default: true. */
  readonly keepAlive?: boolean | undefined
}

export interface Timer {
  /** Idempotent. */
  cancel(): void
}

// Node turns a longer delay into one of a millisecond; a timer this long is as good as none.
const longestDelay = 2 ** 31 - 1

/** The real clock, timers and randomness of the process. */
export const systemRuntime: Runtime = {
  now: () => Date.now(),
  random: () => Math.random(),
  uuid: () => randomUUID(),
  yield: () => new Promise((resolve) => setImmediate(resolve)),
  setTimeout(callback, delay, options = {}) {
    const handle = setTimeout(callback, Math.min(delay, longestDelay))
    if (options.keepAlive === false) handle.unref()
    return { cancel: () => clearTimeout(handle) }
  },
}

/** Waits; an abort rejects with the signal's reason. */
export function sleep(
  runtime: Runtime,
  delay: number,
  options: TimerOptions & { readonly signal?: AbortSignal | undefined } = {},
): Promise<void> {
  const { signal, keepAlive } = options
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason)
      return
    }
    const onAbort = () => {
      timer.cancel()
      reject(signal?.reason)
    }
    const timer = runtime.setTimeout(
      () => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      },
      delay,
      { keepAlive },
    )
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/** Waits; an abort ends the wait without an error, because stopping is not a failure. Resolves `false` then. */
export async function idle(
  runtime: Runtime,
  delay: number,
  signal?: AbortSignal | undefined,
  options: TimerOptions = {},
): Promise<boolean> {
  try {
    await sleep(runtime, delay, { ...options, signal })
    return true
  } catch {
    return false
  }
}
