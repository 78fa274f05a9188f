/** Starts one thing after the other: a connection runs one statement at a time, and not every driver keeps a queue. */
export class Lane {
  #tail: Promise<unknown> | undefined

  /** What the latest failure was. */
  failure: unknown

  run<T>(start: () => Promise<T>): Promise<T> {
    const before = this.#tail
    const current = before === undefined ? start() : before.then(start, start)
    this.#tail = current
    const clear = () => {
      if (this.#tail === current) this.#tail = undefined
    }
    current.then(clear, (error: unknown) => {
      this.failure = error
      clear()
    })
    return current
  }
}
