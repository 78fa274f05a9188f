import { NeedsOwnTransactionError } from '../errors.ts'

/** How a group of messages that share a transaction reacts to the statements of a member. */
export interface GroupHooks {
  /**
   * Sends the statements that must precede a savepoint of the member, in the same turn. Resolves when they are done; `undefined` if they are deferred
   * or done.
   */
  beforeSavepoint(isSecond: boolean): Promise<unknown> | undefined
}

/**
 * Tracks the queries on the handle of a transaction: knows the ones that were started and not awaited, and refuses new ones after the end.
 *
 *     open ─ end(reason) ─▶ ended: every query rejects with the error that `reason` returns
 */
export class QueryTracker {
  readonly #signal: AbortSignal | undefined
  #running = 0
  #onDrained: (() => void) | undefined
  #ended: (() => unknown) | undefined
  // Created on demand: there is a tracker per message.
  #failures: { readonly error: unknown; readonly watched: { readonly seen: boolean } }[] | undefined

  /** Whether the work has returned and only its un-awaited queries are still running. */
  draining = false

  /** The error of the latest failed query: the likely reason when COMMIT turns into ROLLBACK. */
  failure: unknown

  /** Whether the work has used a savepoint of its own: its changes may be undone while the transaction continues. */
  usesSavepoints = false
  readonly #group: GroupHooks | undefined

  /**
   * Once the signal is aborted every query rejects with its reason: the transaction will be rolled back, and a query would only occupy the
   * connection.
   */
  constructor(signal?: AbortSignal | undefined, group?: GroupHooks | undefined) {
    this.#signal = signal
    this.#group = group
  }

  /**
   * Must be called in the same turn before a statement that creates, releases or rolls back to a savepoint is sent. The result must be awaited if
   * that statement does not go through the queue.
   */
  admitSavepoint(): Promise<unknown> | undefined {
    this.checkOpen()
    const steps = this.#group?.beforeSavepoint(this.usesSavepoints)
    this.usesSavepoints = true
    return steps === undefined ? undefined : this.run(() => steps)
  }

  /** Like `admitSavepoint`, for a statement that is already being sent, so that nothing can precede it. */
  admitLateSavepoint(): void {
    this.refuseInGroup()
    this.usesSavepoints = true
  }

  /**
   * Must be called before a statement that may end the transaction is sent. Throws if other messages share the transaction; the work cannot be
   * committed then.
   */
  refuseInGroup(): void {
    if (this.#group === undefined) return
    this.failure = new NeedsOwnTransactionError()
    throw this.failure
  }

  run<T>(start: () => Promise<T>): Promise<T> {
    let query: Promise<T>
    try {
      this.checkOpen()
      query = start()
    } catch (error) {
      return Promise.reject(error)
    }
    this.#running += 1
    // Also handles the rejection: the failure of an un-awaited query is reported by the COMMIT and must not end the process.
    query.then(
      () => this.done(),
      (error: unknown) => this.failed(error),
    )
    return query
  }

  /** For a query that calls `done` or `failed` itself, which saves a promise. Throws if the query may not be started. */
  begin(): void {
    this.checkOpen()
    this.#running += 1
  }

  done(): void {
    this.#running -= 1
    if (this.#running === 0) this.#onDrained?.()
  }

  failed(error: unknown): void {
    this.failure = error
    this.done()
  }

  /** Like `run`, for work that may complete synchronously; it then also fails synchronously. */
  follow<R>(start: () => R): R {
    this.checkOpen()
    let query: R
    try {
      query = start()
    } catch (error) {
      this.failure = error
      throw error
    }
    if (query instanceof Promise) void this.run(() => query)
    return query
  }

  /** Like `run`, for queries whose failure does not fail the transaction by itself: an unhandled failure is returned by `neglected`. */
  watch<T>(start: () => Promise<T>): Promise<T> {
    return this.#watched(this.run(start))
  }

  /** Like `watch`, for work of several steps whose queries report their own failures. */
  watchSteps<T>(start: () => Promise<T>): Promise<T> {
    this.#running += 1
    const steps = start()
    const done = () => this.done()
    steps.then(done, done)
    return this.#watched(steps)
  }

  #watched<T>(work: Promise<T>): Promise<T> {
    const watched = new WatchedPromise<T>((resolve, reject) => {
      work.then(resolve, (error: unknown) => {
        this.#failures ??= []
        this.#failures.push({ error, watched })
        watched.ignore()
        reject(error)
      })
    })
    return watched
  }

  /** The first failure of an un-awaited query, once the work has returned. */
  neglected(): { readonly error: unknown } | undefined {
    return this.#failures?.find(({ watched }) => !watched.seen)
  }

  /** For forms of a query that return no promise. */
  checkOpen(): void {
    if (this.#ended !== undefined) throw this.#ended()
    // Polled, without a listener: there would be one per message.
    if (this.#signal?.aborted === true) throw this.#signal.reason
  }

  get ended(): boolean {
    return this.#ended !== undefined
  }

  get idle(): boolean {
    return this.#running === 0
  }

  /** Resolves when no query is running, including those started meanwhile. */
  async drained(): Promise<void> {
    this.draining = true
    while (this.#running > 0) {
      await new Promise<void>((resolve) => {
        this.#onDrained = resolve
      })
    }
  }

  /** The first reason wins. The error is created on demand: an error per message is expensive. */
  end(reason: () => unknown): void {
    this.#ended ??= reason
  }
}

/** A promise that knows whether it was awaited. */
class WatchedPromise<T> extends Promise<T> {
  seen = false

  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  /** `await` calls this too, as for every thenable that is not a plain promise. */
  // biome-ignore lint/suspicious/noThenProperty: it is a promise.
  override then<R1 = T, R2 = never>(
    onResolved?: ((value: T) => R1 | PromiseLike<R1>) | null,
    onRejected?: ((reason: unknown) => R2 | PromiseLike<R2>) | null,
  ): Promise<R1 | R2> {
    this.seen = true
    return super.then(onResolved, onRejected)
  }

  /** Prevents an unhandled rejection, which would end the process. */
  ignore(): void {
    super.then(undefined, () => {})
  }
}
