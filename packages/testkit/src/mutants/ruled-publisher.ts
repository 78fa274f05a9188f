import { AckordError, type MemoryBroker, type Publisher, type PublishFailure, type PublishResult, type RawMessage } from '@ackord/core'
import { eventLoopTurn } from '../helpers/virtual-runtime.ts'
import type { BrokerRules } from './broker-rules.ts'

/** What all publishers of a ruled broker share. */
export interface RuledStore {
  readonly broker: MemoryBroker
  readonly rules: BrokerRules
  readonly declared: ReadonlySet<string>
  /** The identities of what was published. */
  readonly published: Set<string>
  readonly tooLarge: number
}

/** Publishes to a memory broker by the rules: destinations have to be declared, repeats are dropped, and it takes a turn of the event loop. */
export class RuledPublisher implements Publisher, AsyncDisposable {
  readonly #store: RuledStore
  readonly #publishing = new Set<Promise<unknown>>()
  #disposed = false

  constructor(store: RuledStore) {
    this.#store = store
  }

  async publish(
    destination: string,
    messages: readonly RawMessage[],
    options: { readonly signal: AbortSignal },
  ): Promise<readonly PublishResult[]> {
    if (this.#disposed) throw new AckordError('ACKORD_SHUTDOWN', 'The publisher is closed.')
    if (this.#store.rules.heedsAbort === 'before and on the way') options.signal.throwIfAborted()
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
    if (signal.aborted && rules.heedsAbort !== 'on the way') {
      if (rules.heedsAbort === 'confirms') return messages.map(() => ({ ok: true }))
      const failure: PublishFailure = { ok: false, error: signal.reason, permanent: rules.heedsAbort === 'blames messages' }
      return messages.map(() => failure)
    }
    if (rules.refusesMissing && !declared.has(destination)) {
      return messages.map(() => ({ ok: false, error: new Error(`There is no '${destination}'.`), scope: 'destination' }))
    }
    const results: PublishResult[] = []
    const fresh: RawMessage[] = []
    for (const message of messages) {
      const isBytes = message.data instanceof Uint8Array
      const refused = !isBytes || rules.isTooLarge(message, tooLarge)
      results.push(refused ? { ok: false, error: new Error('It is too large, or no bytes.'), permanent: true } : { ok: true })
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
