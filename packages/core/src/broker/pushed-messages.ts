import { outside } from '../message/context.ts'
import type { RawMessage } from '../message/message.ts'

/** Pushes the messages of an iteration, at the pace of the broker. */
export interface Pusher<Item> {
  /** Begins to push; called by the first `next()`, outside of its context. */
  start(): void
  /** The message of an item whose turn has come; `undefined` if it is not available any more. */
  messageOf(item: Item): RawMessage | undefined
  /** Pushes nothing more, and returns items to the broker that were not handed out. */
  leave(): Promise<void>
  /** Whether the source was disposed. */
  isDisposed(): boolean
}

type PullResult = IteratorResult<RawMessage, undefined>

interface WaitingPull {
  readonly resolve: (result: PullResult) => void
  readonly reject: (error: unknown) => void
}

const done = { value: undefined, done: true } as const

/** One iteration over items that a broker pushes. Not a generator: that cannot be left while it waits. Ends with the signal. */
export class PushedMessages<Item> implements AsyncIterableIterator<RawMessage> {
  readonly #pusher: Pusher<Item>
  readonly #signal: AbortSignal
  readonly #ready: Item[] = []
  readonly #pulls: WaitingPull[] = []
  readonly #ending = new AbortController()
  #started = false
  #left: Promise<void> | undefined
  #failure: { readonly error: unknown } | undefined

  constructor(pusher: Pusher<Item>, signal: AbortSignal) {
    this.#pusher = pusher
    this.#signal = signal
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** Aborted when it ends. */
  get ending(): AbortSignal {
    return this.#ending.signal
  }

  next(): Promise<PullResult> {
    if (this.#signal.aborted || this.#pusher.isDisposed()) void this.end()
    if (this.#left !== undefined) return this.#afterEnd(this.#left)
    if (!this.#started) this.#start()
    const value = this.#take()
    if (value !== undefined) return Promise.resolve({ value, done: false })
    return new Promise((resolve, reject) => this.#pulls.push({ resolve, reject }))
  }

  async return(): Promise<PullResult> {
    await this.end()
    return done
  }

  push(...items: readonly Item[]): void {
    // Not `push(...items)`: the arguments of both calls would have to fit on the stack.
    for (const item of items) this.#ready.push(item)
    while (this.#pulls.length > 0) {
      const value = this.#take()
      if (value === undefined) return
      this.#pulls.shift()?.resolve({ value, done: false })
    }
  }

  /** Ends with an error, for the caller that waits or for the next one. */
  fail(error: unknown): void {
    const pull = this.#pulls.shift()
    if (pull === undefined) this.#failure = { error }
    else pull.reject(error)
    void this.end()
  }

  /** Idempotent. */
  end(): Promise<void> {
    this.#left ??= this.#leave()
    return this.#left
  }

  #start(): void {
    this.#started = true
    this.#signal.addEventListener('abort', this.#onAbort, { once: true })
    // The caller of `next()` has a context of its own, which must not be kept here.
    outside(() => this.#pusher.start())
  }

  readonly #onAbort = (): void => void this.end()

  #take(): RawMessage | undefined {
    for (let item = this.#ready.shift(); item !== undefined; item = this.#ready.shift()) {
      const message = this.#pusher.messageOf(item)
      if (message !== undefined) return message
    }
    return undefined
  }

  async #leave(): Promise<void> {
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#ending.abort()
    this.#ready.length = 0
    await this.#pusher.leave()
    for (const pull of this.#pulls.splice(0)) pull.resolve(done)
  }

  /** If no caller was waiting when it failed, the next one gets the error, once. */
  async #afterEnd(left: Promise<void>): Promise<PullResult> {
    await left
    const failure = this.#failure
    this.#failure = undefined
    if (failure !== undefined) throw failure.error
    return done
  }
}
