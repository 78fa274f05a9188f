import type { RawMessage } from '../../message/message.ts'

/** The source from which an iteration pulls. */
export interface PullSource {
  readonly ended: boolean
  /** Returns a message if one is available immediately. */
  take(): RawMessage | undefined
  wait(pull: WaitingPull): void
  /** Removes and returns the waiting pulls of this iteration. */
  leave(iteration: MemoryIteration): readonly WaitingPull[]
}

/** A call to `next()` that waits for a message. */
export interface WaitingPull {
  readonly iteration: MemoryIteration
  readonly resolve: (result: PullResult) => void
}

type PullResult = IteratorResult<RawMessage, undefined>

const done = { value: undefined, done: true } as const

/** Not a generator: a generator cannot be ended while it waits, and costs several microtasks per message. */
export class MemoryIteration implements AsyncIterableIterator<RawMessage> {
  readonly #source: PullSource
  readonly #signal: AbortSignal
  #ended = false
  #listening = false

  constructor(source: PullSource, signal: AbortSignal) {
    this.#source = source
    this.#signal = signal
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<PullResult> {
    if (this.#signal.aborted || this.#source.ended) this.end()
    if (this.#ended) return Promise.resolve(done)
    const value = this.#source.take()
    if (value !== undefined) return Promise.resolve({ value, done: false })

    if (!this.#listening) {
      this.#listening = true
      this.#signal.addEventListener('abort', this.#onAbort, { once: true })
    }
    return new Promise((resolve) => this.#source.wait({ iteration: this, resolve }))
  }

  return(): Promise<PullResult> {
    this.end()
    return Promise.resolve(done)
  }

  /** Idempotent. */
  end(): void {
    this.#ended = true
    if (this.#listening) this.#signal.removeEventListener('abort', this.#onAbort)
    this.#listening = false
    for (const pull of this.#source.leave(this)) pull.resolve(done)
  }

  readonly #onAbort = (): void => this.end()
}
