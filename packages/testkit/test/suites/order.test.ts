import { describe, it } from 'vitest'
import { testOrderedOutbox } from '../../src/suites/ordering/test-ordered-outbox.ts'
import { openOrderedMemoryOutboxWorld } from '../../src/suites/outbox/outbox-world.ts'

testOrderedOutbox({ describe, it }, { name: 'MemoryOutboxStore', open: openOrderedMemoryOutboxWorld })
