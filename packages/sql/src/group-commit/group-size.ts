import type { Runtime } from '@ackord/core'
import { causesOf } from '@ackord/core/internal'
import type { Dialect } from '../contract/dialect.ts'
import { NeedsOwnTransactionError } from '../errors.ts'

/** Milliseconds without a conflict before groups grow again: the initial and the maximum value. */
const firstPause = 10_000
const maxPause = 60_000

/**
 * Adapts the number of messages that share a transaction. A transaction that holds the locks of many messages conflicts more often, and may end in a
 * deadlock, which costs all of its messages and, on PostgreSQL, a second. So groups shrink to a quarter with each conflict, down to single messages,
 * and grow by one per full group after a pause. The pause doubles with every conflict that follows another.
 */
export class GroupSize {
  readonly #max: number
  readonly #runtime: Runtime
  #limit: number
  #pause = firstPause
  #quietUntil = 0

  constructor(max: number, runtime: Runtime) {
    this.#max = max
    this.#runtime = runtime
    this.#limit = max
  }

  /** The current maximum; 1 means that each message is handled alone. */
  get limit(): number {
    if (this.#limit === 1 && this.#mayGrow()) this.#limit = 2
    return this.#limit
  }

  /** A group conflicted with the locks of another one. */
  shrink(): void {
    this.#fall(Math.max(1, Math.floor(this.#limit / 4)))
  }

  /** Groups are impossible: the messages need transactions of their own. */
  dissolve(): void {
    this.#fall(1)
  }

  /** A group of this size was committed. */
  succeeded(count: number): void {
    if (this.#limit >= this.#max || count < this.#limit || !this.#mayGrow()) return
    this.#limit += 1
    if (this.#limit === this.#max) this.#pause = firstPause
  }

  #mayGrow(): boolean {
    return this.#runtime.monotonic() >= this.#quietUntil
  }

  #fall(limit: number): void {
    const now = this.#runtime.monotonic()
    // Concurrent groups that conflict with each other count as one conflict.
    if (this.#limit < this.#max && now >= this.#quietUntil) this.#pause = Math.min(maxPause, this.#pause * 2)
    this.#limit = limit
    this.#quietUntil = now + this.#pause
  }
}

/** Makes the next groups smaller if the size of this one may be the reason for the error. */
export function shrinkAfter(error: unknown, dialect: Pick<Dialect, 'isConflict' | 'isLockTimeout'>, size: GroupSize): void {
  if (needsOwnTransaction(error)) size.dissolve()
  else if (dialect.isConflict(error) || dialect.isLockTimeout?.(error) === true) size.shrink()
}

/** Also finds the error where an ORM or a handler has wrapped it. */
export function needsOwnTransaction(error: unknown): boolean {
  for (const cause of causesOf(error)) {
    if (cause instanceof NeedsOwnTransactionError) return true
  }
  return false
}
