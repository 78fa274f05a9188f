import type { RawMessage } from '../message/message.ts'
import type { Closable, Source } from './source.ts'

/** One iteration over a source's messages, with its connections. */
export interface SourceIteration {
  readonly messages: AsyncIterableIterator<RawMessage>
  /** Ends it, and returns unsettled messages to the broker. Idempotent. */
  dispose(): Promise<void>
}

/** The source of an iteration. */
export interface IterationOwner {
  readonly disposed: boolean
  /** The iteration has begun, and must be disposed with the source. */
  started(iteration: SourceIteration): void
  /** The iteration has ended, and all of its messages are settled. */
  finished(iteration: SourceIteration): void
}

/** A source that consists of its iterations. Disposing it disposes those that have begun and not finished. */
export class IteratedSource implements Source, Closable, IterationOwner {
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

  close(): Promise<void> {
    this.#disposing ??= this.#dispose()
    return this.#disposing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
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
