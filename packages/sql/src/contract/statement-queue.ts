/** Starts one thing after the other: a connection runs one statement at a time, and not every driver keeps a queue. */
export class Lane {
  #tail: Promise<unknown> | undefined

  /** What the latest failure was. */
  failure: unknown

  /** Whether something runs or waits. */
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

  /** For something that was started while nothing else ran, and that says itself when it has ended: it saves a promise. */
  take(current: Promise<unknown>): void {
    this.#tail = current
  }

  leave(current: Promise<unknown>): void {
    if (this.#tail === current) this.#tail = undefined
  }
}
