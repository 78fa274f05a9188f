import { describe, it } from 'vitest'
import { memoryOutboxFeatures, openMemoryOutboxWorld } from '../src/outbox/memory-outbox-world.ts'
import { testOutboxStore } from '../src/outbox/test-outbox-store.ts'

testOutboxStore(
  { describe, it },
  { name: 'MemoryOutboxStore', open: openMemoryOutboxWorld, features: memoryOutboxFeatures, model: { runs: 200 } },
)
