import { deferred } from '@ackord/testkit'

export interface Countdown {
  /** Resolves at the last call of `hit()`. */
  readonly reached: Promise<void>
  hit(): void
}

/** The signal that something has happened so many times. */
export function countdown(times: number): Countdown {
  const { promise, resolve } = deferred()
  let left = times
  return {
    reached: promise,
    hit() {
      left -= 1
      if (left === 0) resolve()
    },
  }
}
