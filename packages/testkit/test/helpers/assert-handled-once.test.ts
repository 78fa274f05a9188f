import { type Middleware, Router, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { assertHandledOnce } from '../../src/helpers/assert-handled-once.ts'
import { assertPublished } from '../../src/helpers/assertions.ts'
import { insideTransaction, rolledBack } from '../../src/helpers/rolled-back.ts'
import { MemoryStore, orderRouter } from '../support/memory-orders.ts'

const message = { type: 'order.place', data: { orderId: 'o-1' } }

/** A router without the store's middleware. */
function bareRouter(handle: () => Promise<void>, ...use: readonly Middleware[]): Router {
  return new Router({ logger: silentLogger }).use(...use).handle({
    type: 'order.place',
    handle: async () => {
      await handle()
      return []
    },
  })
}

describe('assertHandledOnce', () => {
  it('passes if an inbox surrounds the handler', async () => {
    const store = new MemoryStore()
    const { outbox } = store
    await assertHandledOnce(orderRouter(store), message, { state: () => store.executor().entries(), events: { outbox }, deliveries: 3 })
    expect(store.executor().entries()).toEqual([['o-1', 1]])
    await assertPublished({ outbox }, { type: 'order.placed', data: { orderId: 'o-1' } })
  })

  it('passes inside of a transaction that is rolled back, with its events', async () => {
    const store = new MemoryStore()
    await rolledBack(store, async (transaction) => {
      const router = orderRouter(store, insideTransaction(store, transaction))
      const events = { outbox: store.outbox, transaction: transaction.events }
      await assertHandledOnce(router, message, { state: () => transaction.entries(), events })
      expect(transaction.entries()).toEqual([['o-1', 1]])
      await assertPublished(events, { type: 'order.placed' })
    })
    expect(store.executor().entries()).toEqual([])
    expect((await store.outbox.stats()).destinations).toEqual([])
  })

  it('detects an effect that occurs with every delivery', async () => {
    let orders = 0
    const router = bareRouter(async () => {
      orders += 1
    })
    await expect(assertHandledOnce(router, message, { state: () => orders })).rejects.toThrow('Delivery 2 had an effect of its own.')
  })

  it('detects a handler that runs again, although its effect is the same', async () => {
    const orders = new Set<string>()
    const router = bareRouter(async () => void orders.add('o-1'))
    await expect(assertHandledOnce(router, message, { state: () => [...orders] })).rejects.toThrow('The handler ran again at delivery 2')
  })

  it('passes on the error of a delivery', async () => {
    const store = new MemoryStore()
    const router = orderRouter(store, (next) => async (given, context) => {
      await next(given, context)
      throw new Error('the database is away')
    })
    await expect(assertHandledOnce(router, message, { state: () => store.executor().entries() })).rejects.toThrow(
      'Delivery 1 was answered with nack: Error: the database is away',
    )
  })

  it('detects events that are produced with every delivery', async () => {
    const orders = new Set<string>()
    const events: { destination: string; message: never }[] = []
    const router = bareRouter(async () => {
      orders.add('o-1')
      events.push({
        destination: 'order-events',
        message: { type: 'order.placed', id: `e-${events.length}`, attributes: {}, data: new Uint8Array() } as never,
      })
    })
    await expect(assertHandledOnce(router, message, { state: () => [...orders], events })).rejects.toThrow(
      'Delivery 2 stored events of its own.',
    )
  })

  it('fails when the first delivery changes nothing, or finds no handler', async () => {
    await expect(
      assertHandledOnce(
        bareRouter(async () => {}),
        message,
        { state: () => 0 },
      ),
    ).rejects.toThrow('The first delivery changed nothing.')
    const other = { type: 'order.cancel' }
    await expect(
      assertHandledOnce(
        bareRouter(async () => {}),
        other,
        { state: () => 0 },
      ),
    ).rejects.toThrow('Delivery 1 was answered with')
  })
})

describe('rolledBack', () => {
  it('returns the result of the work, and passes on its error', async () => {
    const store = new MemoryStore()
    expect(
      await rolledBack(store, async (transaction) => {
        transaction.set('a', 1)
        return transaction.get('a')
      }),
    ).toBe(1)
    await expect(rolledBack(store, () => Promise.reject(new Error('broken')))).rejects.toThrow('broken')
    expect(store.executor().entries()).toEqual([])
  })
})
