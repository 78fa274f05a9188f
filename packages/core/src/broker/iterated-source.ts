import type { RawMessage } from '../message/message.ts'
import type { Source } from './source.ts'

/** One iteration over a source's messages, with what it opened for that. */
export interface SourceIteration {
  readonly messages: AsyncIterableIterator<RawMessage>
  /** Ends it, and gives back what was yielded and is not settled. Idempotent. */
  dispose(): Promise<void>
}

/** What an iteration belongs to. */
export interface IterationOwner {
  readonly disposed: boolean
  /** It holds something from now on. */
  started(iteration: SourceIteration): void
  /** It has ended, and nothing of it is left to be settled. */
  finished(iteration: SourceIteration): void
}

/** A source that does nothing but by its iterations: it disposes those that hold something. */
export class IteratedSource implements Source, AsyncDisposable, IterationOwner {
  readonly #iterate: (signal: AbortSignal, owner: IterationOwner) => SourceIteration
  readonly #iterations = new Set<SourceIteration>()
  #disposing: Promise<void> | undefined

  constructor(iterate: (signal: AbortSignal, owner: IterationOwner) => SourceIteration) {
    this.#iterate = iterate
  }

  get disposed(): boolean {
    return this.#disposing !== undefined
  }

  messages(options: { readonly signal: AbortSignal }): AsyncIterableIterator<RawMessage> {
    return this.#iterate(options.signal, this).messages
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#disposing ??= this.#dispose()
    return this.#disposing
  }

  started(iteration: SourceIteration): void {
    this.#iterations.add(iteration)
  }

  finished(iteration: SourceIteration): void {
    this.#iterations.delete(iteration)
  }

  async #dispose(): Promise<void> {
    await Promise.all([...this.#iterations].map((iteration) => iteration.dispose()))
  }
}
