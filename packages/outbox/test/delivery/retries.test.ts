import type { PublishResult } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { ids, openWorld } from '../support/relay-world.ts'

const ok: PublishResult = { ok: true }

describe('a wave of retries', () => {
  async function openWithRetries(count: number) {
    let failing = true
    const world = openWorld({
      batchSize: 10,
      backoff: () => 1000,
      maxAttempts: 1000,
      answer: async ({ messages }) => {
        // A slow broker: records committed meanwhile wait behind the wave, or do not.
        await new Promise<void>((resolve) => void world.runtime.setTimeout(resolve, 10))
        return messages.map(({ id }) => (failing && id?.startsWith('r') ? { ok: false, error: 'not yet' } : ok))
      },
    })
    await world.add('orders', ...ids(count, 'r'))
    world.relay.start()
    await world.runtime.advance(count + 500)
    const heal = () => {
      failing = false
    }
    return { world, heal }
  }

  it('does not delay fresh records by more than a batch', async () => {
    const { world, heal } = await openWithRetries(1000)
    const before = world.publisher.calls.length
    await world.add('orders', ...ids(30))
    await world.runtime.advance(100)
    const since = world.publisher.calls.slice(before)
    const fresh = since.findIndex(({ messages }) => messages.some(({ id }) => id?.startsWith('e')))
    expect(fresh).toBeGreaterThanOrEqual(0)
    expect(fresh).toBeLessThanOrEqual(2)
    expect(new Set(world.sent().filter((id) => id.startsWith('e'))).size).toBe(30)
    heal()
    const stopped = world.relay.stop()
    await world.runtime.advance(100)
    await stopped
  })

  it('is not delayed by fresh records either', async () => {
    const { world, heal } = await openWithRetries(100)
    heal()
    let next = 0
    // Always more fresh records than the relay can publish.
    for (let turn = 0; turn < 300; turn += 1) {
      next += 10
      await world.add('orders', ...ids(10, `e${next}-`))
      await world.runtime.advance(10)
    }
    const left = (await world.memory.list({}, { limit: 10_000 })).records.filter(({ message }) => message.id?.startsWith('r'))
    expect(left).toEqual([])
    const stopped = world.relay.stop()
    await world.runtime.advance(100)
    await stopped
  })

  it('costs at most one more claim per batch, and ends with a pause', async () => {
    const { world, heal } = await openWithRetries(100)
    heal()
    const before = { claims: world.store.count('claim'), calls: world.publisher.calls.length }
    await world.runtime.advance(2000)
    expect(await world.states()).toEqual({})
    const calls = world.publisher.calls.length - before.calls
    expect(world.store.count('claim') - before.claims).toBeLessThanOrEqual(2 * calls + 5)
    await world.relay.stop()
  })
})
