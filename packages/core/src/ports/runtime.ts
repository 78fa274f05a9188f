import { randomUUID } from 'node:crypto'

/** Clock, timers and randomness. Passed in everywhere instead of being accessed directly, so that a simulation can control time. */
export interface Runtime {
  /** The wall clock, in milliseconds since the epoch. It may be set back or jump: use it for instants that leave the process, never for durations. */
  now(): number
  /** A clock that never runs backwards, in milliseconds from an arbitrary start. Use it for durations, time limits and back-off. */
  monotonic(): number
  /** Runs the callback once after `delay` milliseconds, unless cancelled. */
  setTimeout(callback: () => void, delay: number, options?: TimerOptions): Timer
  /** A number from 0 up to, not including, 1. */
  random(): number
  uuid(): string
  /** Yields to the event loop, so that timers and I/O run between messages that arrive without a pause. Optional. */
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

// Node turns a longer delay into one millisecond; a timer this long never fires in practice.
const maxDelay = 2 ** 31 - 1

/** The real clock, timers and randomness of the process. */
export const systemRuntime: Runtime = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  uuid: () => randomUUID(),
  yield: () => new Promise((resolve) => setImmediate(resolve)),
  setTimeout(callback, delay, options = {}) {
    const handle = setTimeout(callback, Math.min(delay, maxDelay))
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

/** Waits; an abort ends the wait without an error, because stopping is not a failure. Resolves to `false` then. */
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

/**
 * Starts a stopwatch, which returns the elapsed milliseconds, never too few: the larger value of the two clocks. The monotonic clock may stand still
 * while a machine is suspended, and the wall clock may be set back. For leases, which must not seem longer than they are.
 */
export function startStopwatch(runtime: Runtime): () => number {
  const monotonic = runtime.monotonic()
  const wall = runtime.now()
  // biome-ignore lint/plugin: it only counts if it shows more than the monotonic clock, which makes a lease end early and never late.
  return () => Math.max(runtime.monotonic() - monotonic, runtime.now() - wall)
}
