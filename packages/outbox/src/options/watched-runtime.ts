import type { Runtime } from '@ackord/core'

/** A runtime that notices when its process did not run for a while. */
export interface WatchedRuntime extends Runtime {
  /** How often that has happened. What failed while it rose says nothing about those who were asked. */
  readonly suspensions: number
}

/** Milliseconds by which a timer must be late, or the wall clock ahead, to count. A busy event loop is late too, but not by this much. */
const noticeable = 1000

/**
 * Watches for suspensions: SIGSTOP, a closed lid, a VM that is migrated, an event loop that was blocked. `onSuspended` is called once for each, with its length in
 * milliseconds, before any timer that came due meanwhile.
 *
 * Its `monotonic()` counts the time of a suspension also where the system's clock stood still, so that a lease never seems to be longer than the store has
 * it. For that it takes the wall clock's word when that jumps ahead; a wall clock that is set back changes nothing.
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
    // Small differences are the clocks' own.
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
          // What was due before the last one was noticed is late because of that one.
          if (late >= noticeable && due > noticedAt) notice(late)
          callback()
        },
        delay,
        options,
      )
    },
  }
}
