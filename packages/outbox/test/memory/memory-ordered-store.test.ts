import { Message } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore } from '../../src/memory/memory-outbox-store.ts'

// The testkit's suite covers order per key; these tests cover behaviour of this store only.

async function add(store: MemoryOutboxStore, ...ids: readonly string[]): Promise<void> {
  const transaction = store.begin()
  const message = (id: string) => new Message(new Uint8Array(), { id, type: 'order.placed', source: '/orders', partitionkey: id[0] })
  await store.append(
    transaction,
    ids.map((id) => ({ destination: 'orders', message: message(id) })),
  )
  transaction.commit()
}

const claiming = { limit: 100, lease: 1000 }

describe('MemoryOutboxStore', () => {
  it('has no order by default, and rejects an unknown order', () => {
    expect(new MemoryOutboxStore().capabilities.order).toBe('none')
    expect(new MemoryOutboxStore({ order: 'perKey' }).capabilities.order).toBe('perKey')
    // A JavaScript caller may pass anything.
    expect(() => new MemoryOutboxStore({ order: 'global' as 'none' })).toThrow("order must be 'none' or 'perKey'")
  })

  it.each(['none', 'perKey'] as const)('supports several objects on the same records (%s)', async (order) => {
    const store = new MemoryOutboxStore({ order, runtime: new VirtualRuntime() })
    const other = store.another()
    await add(other, 'a1', 'b1')
    const claimed = await store.claim(claiming)
    expect(claimed).toHaveLength(2)
    expect(await other.claim(claiming)).toEqual([])
    await store.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))
    expect((await other.stats()).destinations).toEqual([])
  })

  it.each(['none', 'perKey'] as const)('filters by ordering key (%s)', async (order) => {
    const store = new MemoryOutboxStore({ order, runtime: new VirtualRuntime() })
    await add(store, 'a1', 'b1', 'a2')
    const listed = async () =>
      (await store.list({ orderingKey: 'a' }, { limit: 10 })).records.map(({ message, state }) => [message.id, state])
    expect(await listed()).toMatchObject([
      ['a1', 'ready'],
      ['a2', 'ready'],
    ])
    const claimed = await store.claim(claiming)
    await store.settle(claimed.map(({ id, token }) => ({ id, token, result: 'parked', error: 'no' })))
    expect(await store.rearm({ filter: { orderingKey: 'a' } })).toBe(2)
    expect(await store.rearm({ filter: { orderingKey: 'c' } })).toBe(0)
    expect(await listed()).toMatchObject([
      ['a1', 'ready'],
      ['a2', 'ready'],
    ])
  })

  it('wakes its other objects when partitions become free', async () => {
    const store = new MemoryOutboxStore({ order: 'perKey', runtime: new VirtualRuntime() })
    const other = store.another()
    await add(store, 'a1')
    await store.claim(claiming)
    const ending = new AbortController()
    const wakeUps = other.wakeUps({ signal: ending.signal })
    const woken = wakeUps.next()
    await store.leave()
    expect(await woken).toMatchObject({ done: false })
    ending.abort()
    expect(await other.claim(claiming)).toMatchObject([{ attempts: 2 }])
  })
})
