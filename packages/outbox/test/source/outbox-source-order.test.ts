import { Message, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { settlePromises, VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore } from '../../src/memory/memory-outbox-store.ts'
import { type OutboxDelivery, outboxSource } from '../../src/source/outbox-source.ts'

async function open(...ids: readonly string[]) {
  const runtime = new VirtualRuntime()
  const store = new MemoryOutboxStore({ order: 'perKey', runtime })
  const transaction = store.begin()
  const message = (id: string) => new Message(new Uint8Array(), { id, type: 'order.placed', source: '/orders', partitionkey: id[0] })
  await store.append(
    transaction,
    ids.map((id) => ({ destination: 'orders', message: message(id) })),
  )
  transaction.commit()
  const source = outboxSource(store, { runtime, logger: silentLogger, backoff: () => 5000 })
  const deliveries = source[Symbol.asyncIterator]()
  return {
    runtime,
    store,
    source,
    async next(): Promise<OutboxDelivery['message']> {
      const { value } = await deliveries.next()
      if (value === undefined) throw new Error('the source has ended')
      return value.message
    },
  }
}

describe('a source of a store with order per key', () => {
  it('yields the next record of a key when the one before it is acked', async () => {
    const { next, source } = await open('a1', 'a2', 'b1', 'b2')
    const seen: (string | undefined)[] = []
    for (let count = 0; count < 4; count += 1) {
      const message = await next()
      seen.push(message.id)
      await message.ack()
    }
    expect(seen).toEqual(['a1', 'b1', 'a2', 'b2'])
    await source[Symbol.asyncDispose]()
  })

  it('yields nothing of a key while the record before it is not settled, and continues immediately when it is acked', async () => {
    const { next, source } = await open('a1', 'a2')
    const first = await next()
    let second: string | undefined
    const pulled = next().then((message) => {
      second = message.id
    })
    await settlePromises()
    expect(second).toBeUndefined()
    await first.ack()
    await pulled
    expect(second).toBe('a2')
    await source[Symbol.asyncDispose]()
  })

  it('yields the same record again after a nack, before those behind it', async () => {
    const { next, source, runtime } = await open('a1', 'a2')
    await (await next()).nack(new Error('not now'))
    const again = next()
    await runtime.advance(15_000)
    expect(await again).toMatchObject({ id: 'a1', deliveryCount: 2 })
    await source[Symbol.asyncDispose]()
  })

  it('leaves when it is disposed, so that others continue immediately', async () => {
    const { next, source, store } = await open('a1', 'a2')
    await next()
    await source[Symbol.asyncDispose]()
    const others = await store.another().claim({ limit: 10, lease: 1000 })
    expect(others.map(({ message, attempts }) => [message.id, attempts])).toEqual([
      ['a1', 1],
      ['a2', 1],
    ])
  })
})
