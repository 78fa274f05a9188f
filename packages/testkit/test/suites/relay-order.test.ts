import { Relay } from '@ackord/outbox'
import { describe, it } from 'vitest'
import { openOrderedMemoryOutboxWorld } from '../../src/suites/outbox/outbox-world.ts'
import { testRelay } from '../../src/suites/relay/test-relay.ts'

// Without keys there is no order to keep: a relay promises the same on partitions as on leases.
testRelay(
  { describe, it },
  {
    name: 'Relay on MemoryOutboxStore with order per key',
    openStore: openOrderedMemoryOutboxWorld,
    createRelay: (store, setup) => new Relay(store, setup),
  },
)
