import { describe, expect, it } from 'vitest'
import { memoryObjects } from '../../src/helpers/memory-objects.ts'
import { VirtualRuntime } from '../../src/helpers/virtual-runtime.ts'
import { memoryObjectFeatures, openMemoryObjectWorld } from '../../src/suites/objects/object-world.ts'
import { testObjectStore } from '../../src/suites/objects/test-object-store.ts'

testObjectStore({ describe, it }, { name: 'memoryObjects()', open: openMemoryObjectWorld, features: memoryObjectFeatures })

describe('memoryObjects()', () => {
  it('takes the time of an object from the runtime', async () => {
    const runtime = new VirtualRuntime({ start: Date.parse('2026-11-18T12:00:00Z') })
    const store = memoryObjects({ runtime })
    await store.put('orders/1', new Uint8Array(1), { signal: new AbortController().signal })
    await runtime.advance(1000)
    const listed: unknown[] = []
    for await (const object of store.list({ olderThan: new Date(runtime.now()) })) listed.push(object)
    expect(listed).toEqual([{ key: 'orders/1', storedAt: new Date('2026-11-18T12:00:00Z') }])
  })
})
