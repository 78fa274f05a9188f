import { type Logger, MemoryBroker } from '@ackord/core'
import type { Broker } from './broker.ts'

/** In this process: for the demo. */
export function openMemory(logger: Logger): Broker {
  const broker = new MemoryBroker({ logger })
  return {
    address: 'memory:',
    publisher: broker,
    source: (topic) => broker.source(topic),
    // A topic comes to be when it is first named, and goes with the broker.
    createTopic: () => Promise.resolve(),
    removeTopic: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => broker.close(),
  }
}
