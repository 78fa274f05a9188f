import { AckordError, exponentialBackoff, type Runtime, sleep } from '@ackord/core'
import { isLocked } from './sqlite-code.ts'

export interface LockWait {
  readonly runtime: Runtime
  /** Milliseconds. 0: no limit. */
  readonly timeout: number
  readonly signal?: AbortSignal | undefined
}

/** Somebody began a transaction on our connection by hand. It ends like a lock, and is waited for like one. */
export class BegunByHand extends Error {}

const backoff = exponentialBackoff({ initial: 1, max: 50, jitter: 0.5 })

/** As `whileLocked()`, without a promise where nothing is in the way: one is made per message otherwise, and it hardly ever is. */
export function unlessLocked<T>(attempt: () => T, wait: LockWait): T | Promise<T> {
  try {
    return attempt()
  } catch (error) {
    if (!isInTheWay(error)) throw error
    return whileLocked(attempt, wait)
  }
}

/**
 * Tries again until no other connection is in the way. SQLite's own wait (`busy_timeout`) would stop the event loop, and with it the
 * commit that it waits for, if that is one of this process.
 */
export async function whileLocked<T>(attempt: () => T, { runtime, timeout, signal }: LockWait): Promise<T> {
  const start = runtime.now()
  for (let tries = 1; ; tries += 1) {
    try {
      return attempt()
    } catch (error) {
      if (!isInTheWay(error)) throw error
      if (timeout > 0 && runtime.now() - start >= timeout) throw busy(timeout, error)
    }
    await sleep(
      runtime,
      backoff(tries, () => runtime.random()),
      { signal },
    )
  }
}

function isInTheWay(error: unknown): boolean {
  return isLocked(error) || error instanceof BegunByHand
}

function busy(timeout: number, cause: unknown): AckordError {
  const holder =
    cause instanceof BegunByHand
      ? 'a transaction that was begun by hand is open on this very connection. End it, or use database.write()'
      : 'another connection keeps it locked. Look for a transaction that stays open there'
  return new AckordError('ACKORD_DATABASE_BUSY', `SQLite could not be written for ${timeout} ms (lockTimeout): ${holder}.`, { cause })
}
