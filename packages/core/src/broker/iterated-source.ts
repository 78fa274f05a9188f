import type { RawMessage } from '../message/message.ts'
import type { Part, SharedPorts } from '../ports/part-ports.ts'
import type { BrokerAddress, Closable, Source } from './source.ts'

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
  readonly #part: Part
  readonly #address: BrokerAddress
  readonly #iterations = new Set<SourceIteration>()
  #disposing: Promise<void> | undefined

  /** `part`: the receiver of the source, or its `PartPorts`, whose logger it uses. `address` is read whenever the source is asked for it. */
  constructor(iterate: (signal: AbortSignal, owner: IterationOwner) => SourceIteration, part: Part, address: BrokerAddress = {}) {
    this.#iterate = iterate
    this.#part = part
    this.#address = address
  }

  get system(): string | undefined {
    return this.#address.system
  }

  get serverAddress(): string | undefined {
    return this.#address.serverAddress
  }

  get serverPort(): number | undefined {
    return this.#address.serverPort
  }

  get disposed(): boolean {
    return this.#disposing !== undefined
  }

  messages(options: { readonly signal: AbortSignal }): AsyncIterableIterator<RawMessage> {
    return this.#iterate(options.signal, this).messages
  }

  inheritPorts(ports: SharedPorts): void {
    this.#part.inheritPorts?.(ports)
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
