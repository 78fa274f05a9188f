import { AckordError, MemoryBroker, type Publisher, silentLogger } from '@ackord/core'
import type { BrokerClaims, BrokerWorld } from './broker-world.ts'

export const memoryBrokerClaims: BrokerClaims = {
  competing: true,
  settlesEach: true,
  order: 'perKey',
  delay: true,
  deliveryCount: true,
  groups: true,
  types: true,
  names: true,
}

/** The in-memory broker, with order per key. */
export async function openMemoryBrokerWorld(): Promise<BrokerWorld> {
  const broker = new MemoryBroker({ logger: silentLogger })
  let topics = 0
  return {
    async topic() {
      topics += 1
      const destination = `topic${topics}`
      return { destination, source: (options) => broker.source(destination, { orderPerKey: true, ...options }) }
    },
    publisher: () => new MemoryPublisher(broker),
    [Symbol.asyncDispose]: () => broker.close(),
  }
}

/** The broker stays open when one of its publishers is disposed. */
class MemoryPublisher implements Publisher, AsyncDisposable {
  readonly #broker: MemoryBroker
  readonly #publishing = new Set<Promise<unknown>>()
  #disposed = false

  constructor(broker: MemoryBroker) {
    this.#broker = broker
  }

  readonly publish: Publisher['publish'] = async (destination, messages, options) => {
    if (this.#disposed) throw new AckordError('ACKORD_SHUTDOWN', 'The publisher is closed.')
    const publishing = this.#broker.publish(destination, messages, options)
    this.#publishing.add(publishing)
    try {
      return await publishing
    } finally {
      this.#publishing.delete(publishing)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true
    await Promise.allSettled(this.#publishing)
  }
}
