import { type Logger, MemoryBroker } from '@ackord/core'
import { expect, it } from 'vitest'
import { MemoryOutboxStore } from '../src/memory-outbox-store.ts'
import { outboxSource } from '../src/outbox-source.ts'
import { Relay } from '../src/relay.ts'

const store = new MemoryOutboxStore()
const publisher = new MemoryBroker()

it('refuses options that it does not know, and ports that lack methods', () => {
  // What a JavaScript caller may pass.
  expect(() => new Relay(store, { publisher, batchsize: 5 } as { publisher: MemoryBroker })).toThrow("has no option 'batchsize'")
  expect(() => outboxSource(store, { publisher } as object)).toThrow("has no option 'publisher'")
  expect(() => new Relay(store, { publisher, logger: {} as Logger })).toThrow('logger must have the methods')
})
