import type { Backoff, Runtime } from '@ackord/core'

const fallback = 1000
const longest = 24 * 60 * 60 * 1000

/** A delay that any store can add to its clock. Publishers are written by others: one that is no number, or years, must not make every settle of its batch fail. */
export function delayOf(delay: number): number {
  return delay >= 0 ? Math.min(Math.round(delay), longest) : fallback
}

/** The same for a back-off, which may also throw. */
export function backoffDelay(backoff: Backoff, attempt: number, runtime: Runtime): number {
  try {
    return delayOf(backoff(attempt, runtime.random))
  } catch {
    return fallback
  }
}
