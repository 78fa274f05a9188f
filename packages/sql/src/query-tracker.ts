/**
 * Follows the queries on a transaction's handle: it knows those that were started and not awaited, and refuses new ones after the end.
 *
 *     open ─ end(reason) ─▶ ended: every query rejects with what `reason` gives
 */
export class QueryTracker {
  #running = 0
  #onDrained: (() => void) | undefined
  #ended: (() => unknown) | undefined

  /** What the latest failed query failed with: the likely reason when COMMIT turns into ROLLBACK. */
  failure: unknown

  run<T>(start: () => Promise<T>): Promise<T> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended())
    let query: Promise<T>
    try {
      query = start()
    } catch (error) {
      return Promise.reject(error)
    }
    this.#running += 1
    // It also handles the rejection: one that nobody awaits is reported by the COMMIT, not by the end of the process.
    query.then(this.#done, this.#failed)
    return query
  }

  /** For forms of a query that give no promise back. */
  checkOpen(): void {
    if (this.#ended !== undefined) throw this.#ended()
  }

  /** Resolves when nothing runs, also what was started meanwhile. */
  async drained(): Promise<void> {
    while (this.#running > 0) {
      await new Promise<void>((resolve) => {
        this.#onDrained = resolve
      })
    }
  }

  /** The first reason stays. It is made when it is needed: an error for every message would be dear. */
  end(reason: () => unknown): void {
    this.#ended ??= reason
  }

  readonly #done = (): void => {
    this.#running -= 1
    if (this.#running === 0) this.#onDrained?.()
  }

  readonly #failed = (error: unknown): void => {
    this.failure = error
    this.#done()
  }
}
