import { AckordError, type MemoryBroker, type Publisher, type PublishFailure, type PublishResult, type RawMessage } from '@ackord/core'
import { eventLoopTurn } from '../../../src/helpers/virtual-runtime.ts'
import type { BrokerRules } from './broker-rules.ts'

/** The state that all publishers of a decorated broker share. */
export interface DecoratedParts {
  readonly broker: MemoryBroker
  readonly rules: BrokerRules
  readonly declared: ReadonlySet<string>
  /** The identities of the published messages. */
  readonly published: Set<string>
  readonly tooLarge: number
}

/** Publishes to a MemoryBroker by the rules. Destinations have to be declared, repeated messages are dropped, and a call takes a turn of the event loop. */
export class DecoratedPublisher implements Publisher, AsyncDisposable {
  readonly #store: DecoratedParts
  readonly #publishing = new Set<Promise<unknown>>()
  #disposed = false

  constructor(store: DecoratedParts) {
    this.#store = store
  }

  get system(): string | undefined {
    return this.#store.rules.address.system
  }

  get serverAddress(): string | undefined {
    return this.#store.rules.address.serverAddress
  }

  get serverPort(): number | undefined {
    return this.#store.rules.address.serverPort
  }

  async publish(
    destination: string,
    messages: readonly RawMessage[],
    options: { readonly signal: AbortSignal },
  ): Promise<readonly PublishResult[]> {
    if (this.#disposed) throw new AckordError('ACKORD_SHUTDOWN', 'The publisher is closed.')
    if (this.#store.rules.onAbort === 'before and while publishing') options.signal.throwIfAborted()
    const publishing = this.#publish(destination, messages, options.signal)
    this.#publishing.add(publishing)
    try {
      return await publishing
    } finally {
      this.#publishing.delete(publishing)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true
    if (this.#store.rules.publisherWaits) await Promise.allSettled(this.#publishing)
  }

  async #publish(destination: string, messages: readonly RawMessage[], signal: AbortSignal): Promise<readonly PublishResult[]> {
    const { broker, rules, declared, published, tooLarge } = this.#store
    await eventLoopTurn()
    if (signal.aborted && rules.onAbort !== 'while publishing') {
      if (rules.onAbort === 'confirms') return messages.map(() => ({ ok: true }))
      const failure: PublishFailure = { ok: false, error: signal.reason, permanent: rules.onAbort === 'blames messages' }
      return messages.map(() => failure)
    }
    if (rules.refusesMissing && !declared.has(destination)) {
      return messages.map(() => ({ ok: false, error: new Error(`The destination '${destination}' does not exist.`), scope: 'destination' }))
    }
    const results: PublishResult[] = []
    const fresh: RawMessage[] = []
    for (const message of messages) {
      const isBytes = message.data instanceof Uint8Array
      const refused = !isBytes || rules.isTooLarge(message, tooLarge)
      results.push(
        refused ? { ok: false, error: new Error('The message is too large, or its data are not bytes.'), permanent: true } : { ok: true },
      )
      const identity = `${destination} ${rules.identity(message)}`
      if (refused || published.has(identity)) continue
      if (message.id !== undefined) published.add(identity)
      fresh.push(message)
    }
    await broker.publish(rules.destination(destination), rules.store(fresh))
    if (rules.settlesPublished) for (const message of messages) void message.ack()
    return rules.results(results, messages)
  }
}
