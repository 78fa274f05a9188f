import { deferred } from '@ackord/testkit'

export interface Countdown {
  /** Resolves at the last call of `hit()`. */
  readonly reached: Promise<void>
  hit(): void
}

/** Creates a countdown that is reached when `hit()` has been called `times` times. */
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
