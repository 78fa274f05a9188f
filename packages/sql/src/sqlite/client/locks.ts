import { AckordError, exponentialBackoff, type Runtime, sleep } from '@ackord/core'
import { AbortWatch } from '../../contract/abort-watch.ts'
import { isLocked } from '../errors.ts'

interface Waiting {
  readonly signal: AbortSignal | undefined
  enter(): void
  reject(reason: unknown): void
}

/** Who is in, and must hear of an abort. */
export interface Interruptible {
  readonly signal: AbortSignal
  onAbort(): void
}

/** Lets one in at a time, in the order they came. */
export class WriterMutex {
  #held = false
  #waiting: Waiting[] = []
  // One, and those that were aborted and have not ended.
  #watched: readonly Interruptible[] = []
  readonly #aborts = new AbortWatch((signal) => {
    const left = this.#waiting.filter((waiting) => waiting.signal === signal)
    this.#waiting = this.#waiting.filter((waiting) => waiting.signal !== signal)
    for (const waiting of left) waiting.reject(signal.reason)
    // Last, because it lets the next one in.
    for (const watched of this.#watched) if (watched.signal === signal) watched.onAbort()
  })

  /** What lets the next one in, if nobody is in. */
  enter(): (() => void) | undefined {
    if (this.#held) return undefined
    this.#held = true
    return this.#releaser()
  }

  /** Resolves to what `enter` makes of what lets the next one in; calling that again does nothing. An abort ends the wait with the signal's reason. */
  acquire<T>(enter: (release: () => void) => T, signal?: AbortSignal | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
      const release = this.enter()
      if (release !== undefined) {
        resolve(enter(release))
        return
      }
      this.#waiting.push({ signal, reject, enter: () => resolve(enter(this.#releaser())) })
      if (signal !== undefined) this.#aborts.add(signal)
    })
  }

  /** Whoever is in is told if its signal is aborted. */
  watch(watched: Interruptible): void {
    this.#watched = [...this.#watched, watched]
    this.#aborts.add(watched.signal)
  }

  unwatch(watched: Interruptible): void {
    this.#watched = this.#watched.filter((other) => other !== watched)
    this.#aborts.remove(watched.signal)
  }

  #releaser(): () => void {
    let released = false
    return () => {
      if (released) return
      released = true
      const next = this.#waiting.shift()
      if (next === undefined) {
        this.#held = false
        return
      }
      if (next.signal !== undefined) this.#aborts.remove(next.signal)
      // It stays held: whoever comes in between must not overtake.
      next.enter()
    }
  }
}

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
  const start = runtime.monotonic()
  for (let tries = 1; ; tries += 1) {
    try {
      return attempt()
    } catch (error) {
      if (!isInTheWay(error)) throw error
      if (timeout > 0 && runtime.monotonic() - start >= timeout) throw busy(timeout, error)
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
