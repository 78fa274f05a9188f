import { AckordError, exponentialBackoff, type Runtime, sleep } from '@ackord/core'
import { AbortWatch } from '@ackord/core/internal'
import { isLocked } from '../errors.ts'

interface Waiting {
  readonly signal: AbortSignal | undefined
  enter(): void
  reject(reason: unknown): void
}

/** The current holder, which must be notified of an abort. */
export interface Interruptible {
  readonly signal: AbortSignal
  onAbort(): void
}

/** Lets one in at a time, in order of arrival. */
export class WriterMutex {
  #held = false
  #waiting: Waiting[] = []
  // The holder, and aborted ones that have not ended.
  #watched: readonly Interruptible[] = []
  readonly #aborts = new AbortWatch((signal) => {
    const left = this.#waiting.filter((waiting) => waiting.signal === signal)
    this.#waiting = this.#waiting.filter((waiting) => waiting.signal !== signal)
    for (const waiting of left) waiting.reject(signal.reason)
    // Last, because it lets the next one in.
    for (const watched of this.#watched) if (watched.signal === signal) watched.onAbort()
  })

  /** A function that lets the next one in, if the lock is free. */
  enter(): (() => void) | undefined {
    if (this.#held) return undefined
    this.#held = true
    return this.#releaser()
  }

  /**
   * Resolves to the result of `enter`, which receives a function that lets the next one in; that function is idempotent. An abort ends the wait with
   * the signal's reason.
   */
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

  /** The holder is notified if its signal is aborted. */
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
      // The lock stays held, so that a newcomer cannot overtake.
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

/** The application has begun a transaction on this connection itself. It is waited for like a lock. */
export class BegunManually extends Error {}

const backoff = exponentialBackoff({ initial: 1, max: 50, jitter: 0.5 })

/** Like `whileLocked()`, without a promise if nothing blocks: otherwise one would be created per message, and it is hardly ever needed. */
export function unlessLocked<T>(attempt: () => T, wait: LockWait): T | Promise<T> {
  try {
    return attempt()
  } catch (error) {
    if (!isBlocked(error)) throw error
    return whileLocked(attempt, wait)
  }
}

/**
 * Retries until no other connection blocks. SQLite's own wait (`busy_timeout`) would block the event loop, and with it the commit it waits for, if
 * that is in this process.
 */
export async function whileLocked<T>(attempt: () => T, { runtime, timeout, signal }: LockWait): Promise<T> {
  const start = runtime.monotonic()
  for (let tries = 1; ; tries += 1) {
    try {
      return attempt()
    } catch (error) {
      if (!isBlocked(error)) throw error
      if (timeout > 0 && runtime.monotonic() - start >= timeout) throw busy(timeout, error)
    }
    await sleep(
      runtime,
      backoff(tries, () => runtime.random()),
      { signal },
    )
  }
}

function isBlocked(error: unknown): boolean {
  return isLocked(error) || error instanceof BegunManually
}

function busy(timeout: number, cause: unknown): AckordError {
  const holder =
    cause instanceof BegunManually
      ? 'a transaction that was begun by hand is open on this very connection. End it, or use database.write()'
      : 'another connection keeps it locked. Look for a transaction that stays open there'
  return new AckordError('ACKORD_DATABASE_BUSY', `SQLite could not be written for ${timeout} ms (lockTimeout): ${holder}.`, { cause })
}
