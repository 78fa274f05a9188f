import { NeedsOwnTransactionError } from '../errors.ts'

/** What a group of messages that share a transaction has to know of a member's statements. */
export interface GroupHooks {
  /** Sends what must come before a savepoint of the member, in the same turn. Resolves when that is done; `undefined` where it only waits, or is done. */
  beforeSavepoint(isSecond: boolean): Promise<unknown> | undefined
}

/**
 * Follows the queries on a transaction's handle: it knows those that were started and not awaited, and refuses new ones after the end.
 *
 *     open ─ end(reason) ─▶ ended: every query rejects with what `reason` gives
 */
export class QueryTracker {
  readonly #signal: AbortSignal | undefined
  #running = 0
  #onDrained: (() => void) | undefined
  #ended: (() => unknown) | undefined
  // Made when it is needed: there is a tracker per message.
  #failures: { readonly error: unknown; readonly watched: { readonly seen: boolean } }[] | undefined

  /** Whether the work has returned, and what it started is only waited for. */
  draining = false

  /** What the latest failed query failed with: the likely reason when COMMIT turns into ROLLBACK. */
  failure: unknown

  /** Whether the work has used a savepoint by hand: what it does may be undone while the transaction goes on. */
  usesSavepoints = false
  readonly #group: GroupHooks | undefined

  /** Once the signal is aborted every query rejects with its reason: in a transaction that will be rolled back it only keeps the connection from others. */
  constructor(signal?: AbortSignal | undefined, group?: GroupHooks | undefined) {
    this.#signal = signal
    this.#group = group
  }

  /** To be called before a statement that makes, releases or rolls back to a savepoint is sent, in the same turn. What it gives is to be awaited where that one does not wait for its turn. */
  admitSavepoint(): Promise<unknown> | undefined {
    this.checkOpen()
    const steps = this.#group?.beforeSavepoint(this.usesSavepoints)
    this.usesSavepoints = true
    return steps === undefined ? undefined : this.run(() => steps)
  }

  /** As `admitSavepoint`, where it is that statement's turn already, so that nothing can come before it. */
  admitLateSavepoint(): void {
    this.refuseInGroup()
    this.usesSavepoints = true
  }

  /** To be called before a statement that may end the transaction is sent. Throws if others share the transaction; the work cannot be committed then. */
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
    // It also handles the rejection: one that nobody awaits is reported by the COMMIT, not by the end of the process.
    query.then(
      () => this.done(),
      (error: unknown) => this.failed(error),
    )
    return query
  }

  /** For a query that says itself how it ended: it saves a promise. Throws if it may not be started. */
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

  /** As `run`, for what may be done at once; it then also fails at once. */
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

  /** As `run`, where a failed query does not fail the transaction by itself: one whose failure nobody saw is `neglected`. */
  watch<T>(start: () => Promise<T>): Promise<T> {
    return this.#watched(this.run(start))
  }

  /** As `watch`, for something of several steps, whose queries tell themselves that they failed. */
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

  /** The first failure of a query that nobody awaited, once the work has returned. */
  neglected(): { readonly error: unknown } | undefined {
    return this.#failures?.find(({ watched }) => !watched.seen)
  }

  /** For forms of a query that give no promise back. */
  checkOpen(): void {
    if (this.#ended !== undefined) throw this.#ended()
    // Asked, not listened to: that would be a listener per message.
    if (this.#signal?.aborted === true) throw this.#signal.reason
  }

  get ended(): boolean {
    return this.#ended !== undefined
  }

  get idle(): boolean {
    return this.#running === 0
  }

  /** Resolves when nothing runs, also what was started meanwhile. */
  async drained(): Promise<void> {
    this.draining = true
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
}

/** Knows whether anybody waits for it. */
class WatchedPromise<T> extends Promise<T> {
  seen = false

  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  /** `await` comes here too, as it does for everything that is not a plain promise. */
  // biome-ignore lint/suspicious/noThenProperty: it is a promise.
  override then<R1 = T, R2 = never>(
    onResolved?: ((value: T) => R1 | PromiseLike<R1>) | null,
    onRejected?: ((reason: unknown) => R2 | PromiseLike<R2>) | null,
  ): Promise<R1 | R2> {
    this.seen = true
    return super.then(onResolved, onRejected)
  }

  /** A rejection that nobody handles is not to end the process. */
  ignore(): void {
    super.then(undefined, () => {})
  }
}
