import { MemoryIdempotencyStore, MemoryOutboxStore } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { memoryIdempotencyFeatures, openMemoryIdempotencyWorld } from '../../src/suites/idempotency/idempotency-world.ts'
import { testIdempotencyStore } from '../../src/suites/idempotency/test-idempotency-store.ts'

testIdempotencyStore(
  { describe, it },
  { name: 'MemoryIdempotencyStore', open: openMemoryIdempotencyWorld, features: memoryIdempotencyFeatures },
)

describe('MemoryIdempotencyStore', () => {
  it('rejects unknown options', () => {
    const create = () => new MemoryIdempotencyStore(new MemoryOutboxStore(), { lease: 1 } as object)
    expect(create).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION' }))
  })
})
