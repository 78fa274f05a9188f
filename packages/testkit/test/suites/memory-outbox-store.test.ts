import { describe, it } from 'vitest'
import { memoryOutboxFeatures, openMemoryOutboxWorld } from '../../src/suites/outbox/outbox-world.ts'
import { testOutboxStore } from '../../src/suites/outbox/test-outbox-store.ts'

testOutboxStore(
  { describe, it },
  { name: 'MemoryOutboxStore', open: openMemoryOutboxWorld, features: memoryOutboxFeatures, model: { runs: 200 } },
)
