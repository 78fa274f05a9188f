import { Message, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore } from '../../src/memory/memory-outbox-store.ts'
import type { RelayOptions } from '../../src/options/relay-options.ts'
import { Relay } from '../../src/relay/relay.ts'
import type { ClaimOptions } from '../../src/store/outbox-store.ts'

const kilobyte = 1024

/** A relay on 100 records of 10 kB, each for a separate destination that takes five seconds to answer. */
async function openSlow(options: Partial<RelayOptions> = {}) {
  const runtime = new VirtualRuntime()
  const store = new MemoryOutboxStore({ runtime })
  const transaction = store.begin()
  await store.append(
    transaction,
    Array.from({ length: 100 }, (_, index) => ({
      destination: `d${index}`,
      message: new Message(new Uint8Array(10 * kilobyte), { id: `e${index}`, type: 'order.placed', source: '/orders', specversion: '1.0' }),
    })),
  )
  await transaction.commit()
  const asked: ClaimOptions[] = []
  const claim = store.claim.bind(store)
  store.claim = async (given) => {
    asked.push(given)
    return await claim(given)
  }
  const bytes = { now: 0, most: 0, published: 0 }
  const relay = new Relay(store, {
    runtime,
    logger: silentLogger,
    ...options,
    publisher: {
      async publish(_, messages) {
        const size = messages.reduce((sum, { data }) => sum + data.byteLength, 0)
        bytes.now += size
        bytes.most = Math.max(bytes.most, bytes.now)
        await new Promise<void>((resolve) => void runtime.setTimeout(resolve, 5000))
        bytes.now -= size
        bytes.published += messages.length
        return messages.map(() => ({ ok: true }))
      },
    },
  })
  return { runtime, relay, asked, bytes }
}

describe('the memory of a relay', () => {
  it('is limited to 16 MB per claim by default', async () => {
    const { relay, runtime, asked } = await openSlow()
    relay.start()
    await runtime.advance(0)
    expect(asked[0]?.maxBytes).toBe(16 * kilobyte * kilobyte)
    const stopping = relay.stop()
    await runtime.advance(60_000)
    await stopping
  })

  it.each([1, 3])('does not exceed 2 × concurrency × maxBatchBytes while destinations are slow, concurrency %i', async (concurrency) => {
    const maxBatchBytes = 50 * kilobyte
    const { relay, runtime, asked, bytes } = await openSlow({ concurrency, maxBatchBytes })
    relay.start()
    await runtime.advance(4900)
    expect(bytes.most).toBeGreaterThan(maxBatchBytes / 2)
    await runtime.advance(600_000)
    expect(bytes.published).toBe(100)
    expect(bytes.most).toBeLessThanOrEqual(2 * concurrency * maxBatchBytes)
    expect(asked.every(({ maxBytes = Infinity }) => maxBytes <= maxBatchBytes)).toBe(true)
    await relay.stop()
  })
})
