import { describe, it } from 'vitest'
import { testOrderedOutbox } from '../src/order/test-ordered-outbox.ts'
import { openOrderedMemoryOutboxWorld } from '../src/outbox/memory-outbox-world.ts'

testOrderedOutbox({ describe, it }, { name: 'MemoryOutboxStore', open: openOrderedMemoryOutboxWorld })
