import { Relay } from '@ackord/outbox'
import { describe, it } from 'vitest'
import { openMemoryOutboxWorld } from '../../src/suites/outbox/outbox-world.ts'
import { testRelay } from '../../src/suites/relay/test-relay.ts'

testRelay(
  { describe, it },
  {
    name: 'Relay on MemoryOutboxStore',
    openStore: openMemoryOutboxWorld,
    createRelay: (store, setup) => new Relay(store, setup),
    insight: true,
  },
)
