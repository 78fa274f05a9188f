import type { Runtime } from '@ackord/core'

/** A runtime that detects when its process did not run for a while. */
export interface WatchedRuntime extends Runtime {
  /** The number of suspensions so far. A call that failed while it increased says nothing about the called service. */
  readonly suspensions: number
  /** Called when work begins after a time without any: a suspension meanwhile did not affect anything, and is not reported. */
  resume(): void
}

/** Milliseconds by which a timer must be late, or the wall clock ahead, to count as a suspension. A busy event loop is late too, but not by this much. */
const noticeable = 1000

/**
 * Watches for suspensions: SIGSTOP, a closed lid, a VM that is migrated, a blocked event loop. `onSuspended` is called once for each, with its length
 * in milliseconds, before any timer that became due meanwhile.
 *
 * Its `monotonic()` counts the time of a suspension even where the system's monotonic clock stood still, so that a lease never seems longer than it
 * is in the store. For that it trusts the wall clock when that jumps ahead; a wall clock that is set back changes nothing.
 */
export function watchSuspensions(runtime: Runtime, onSuspended: (duration: number) => void): WatchedRuntime {
  let suspensions = 0
  let skipped = 0
  // biome-ignore lint/plugin: the two clocks are compared, to notice when one jumps.
  let offset = runtime.now() - runtime.monotonic()
  let noticedAt = -Infinity

  function notice(duration: number): void {
    suspensions += 1
    noticedAt = runtime.monotonic() + skipped
    onSuspended(Math.round(duration))
  }

  function monotonic(): number {
    const elapsed = runtime.monotonic()
    // biome-ignore lint/plugin: the two clocks are compared, to notice when one jumps.
    const ahead = runtime.now() - elapsed - offset
    // Small differences come from the clocks themselves.
    offset += ahead
    if (ahead >= noticeable) {
      skipped += ahead
      notice(ahead)
    }
    return elapsed + skipped
  }

  return {
    get suspensions() {
      return suspensions
    },
    resume() {
      // biome-ignore lint/plugin: the two clocks are compared, to notice when one jumps.
      const ahead = runtime.now() - runtime.monotonic() - offset
      offset += ahead
      if (ahead >= noticeable) skipped += ahead
    },
    now: () => runtime.now(),
    monotonic,
    random: () => runtime.random(),
    uuid: () => runtime.uuid(),
    ...(runtime.yield === undefined ? {} : { yield: () => runtime.yield?.() ?? Promise.resolve() }),
    setTimeout(callback, delay, options) {
      const due = monotonic() + delay
      return runtime.setTimeout(
        () => {
          const late = monotonic() - due
          // A timer that was due before the last suspension was noticed is late because of that suspension.
          if (late >= noticeable && due > noticedAt) notice(late)
          callback()
        },
        delay,
        options,
      )
    },
  }
}
