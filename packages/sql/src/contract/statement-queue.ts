/** Runs one operation after the other: a connection runs one statement at a time, and not every driver has a queue. */
export class StatementQueue {
  #tail: Promise<unknown> | undefined

  /** The latest failure. */
  failure: unknown

  /** Whether an operation is running or waiting. */
  get busy(): boolean {
    return this.#tail !== undefined
  }

  run<T>(start: () => Promise<T>): Promise<T> {
    const before = this.#tail
    const current = before === undefined ? start() : before.then(start, start)
    this.take(current)
    current.then(
      () => this.leave(current),
      (error: unknown) => {
        this.failure = error
        this.leave(current)
      },
    )
    return current
  }

  /** For an operation that was started while the queue was idle and that calls `leave` itself: this saves a promise. */
  take(current: Promise<unknown>): void {
    this.#tail = current
  }

  leave(current: Promise<unknown>): void {
    if (this.#tail === current) this.#tail = undefined
  }
}
