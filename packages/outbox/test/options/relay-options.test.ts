import { type Logger, MemoryBroker } from '@ackord/core'
import { expect, it } from 'vitest'
import { MemoryOutboxStore } from '../../src/memory/memory-outbox-store.ts'
import { Relay } from '../../src/relay/relay.ts'
import { outboxSource } from '../../src/source/outbox-source.ts'

const store = new MemoryOutboxStore()
const publisher = new MemoryBroker()

it('rejects unknown options, and ports that lack methods', () => {
  // A JavaScript caller may pass anything.
  expect(() => new Relay(store, { publisher, batchsize: 5 } as { publisher: MemoryBroker })).toThrow("has no option 'batchsize'")
  expect(() => outboxSource(store, { publisher } as object)).toThrow("has no option 'publisher'")
  expect(() => new Relay(store, { publisher, logger: {} as Logger })).toThrow('logger must have the methods')
})
