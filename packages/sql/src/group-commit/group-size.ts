import type { Runtime } from '@ackord/core'

/** Milliseconds without a conflict before groups grow again: at first, and at most. */
const firstPause = 10_000
const longestPause = 60_000

/**
 * How many messages share a transaction. A transaction that holds the locks of many messages meets others' more often, and may end in a deadlock, which costs all of
 * its messages and, on PostgreSQL, a second. So groups shrink to a quarter with each conflict, down to single messages, and grow by one per full group after a pause. The pause
 * doubles with every conflict that follows one.
 */
export class GroupSize {
  readonly #most: number
  readonly #runtime: Runtime
  #limit: number
  #pause = firstPause
  #quietUntil = 0

  constructor(most: number, runtime: Runtime) {
    this.#most = most
    this.#runtime = runtime
    this.#limit = most
  }

  /** At most that many; 1 means that each message is handled alone. */
  get limit(): number {
    if (this.#limit === 1 && this.#mayGrow()) this.#limit = 2
    return this.#limit
  }

  /** A group met another one's locks. */
  shrink(): void {
    this.#fall(Math.max(1, Math.floor(this.#limit / 4)))
  }

  /** A group cannot be: its messages need transactions of their own. */
  dissolve(): void {
    this.#fall(1)
  }

  /** A group of that many was committed. */
  succeeded(count: number): void {
    if (this.#limit >= this.#most || count < this.#limit || !this.#mayGrow()) return
    this.#limit += 1
    if (this.#limit === this.#most) this.#pause = firstPause
  }

  #mayGrow(): boolean {
    return this.#runtime.monotonic() >= this.#quietUntil
  }

  #fall(limit: number): void {
    const now = this.#runtime.monotonic()
    // Groups that run at the same time meet each other together; that is one conflict.
    if (this.#limit < this.#most && now >= this.#quietUntil) this.#pause = Math.min(longestPause, this.#pause * 2)
    this.#limit = limit
    this.#quietUntil = now + this.#pause
  }
}
