import { afterCommit, isAckordError, rootContext } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { MemoryStore } from '../../src/helpers/memory-store.ts'
import { deferred, sourceOf, trackedMessage } from '../../src/helpers/tracked-message.ts'
import { orderRouter } from '../support/memory-orders.ts'

describe('MemoryStore', () => {
  it('commits the writes, the inbox and the events of a message together, and acks it', async () => {
    const store = new MemoryStore()
    const order = trackedMessage('m-1', { data: { orderId: 'o-1' } })
    await orderRouter(store).run(sourceOf(order))
    expect(order.verdicts).toEqual(['ack'])
    expect(store.executor().entries()).toEqual([['o-1', 1]])
    expect((await store.outbox.list({}, { limit: 10 })).records).toMatchObject([
      { message: { type: 'order.placed' }, destination: 'order-events' },
    ])
  })

  it('keeps nothing of a message that fails', async () => {
    const store = new MemoryStore()
    const order = trackedMessage('m-1', { data: { orderId: 'o-1' } })
    const failing = orderRouter(store, (next) => async (message, context) => {
      return await store.write(async (_, inside) => {
        await next(message, inside)
        throw new Error(`broken ${String(context.signal.aborted)}`)
      })
    })
    await failing.run(sourceOf(order))
    expect(order.verdicts).toEqual(['nack'])
    expect([store.executor().entries(), (await store.outbox.stats()).destinations]).toEqual([[], []])
  })

  it('rolls back a nested part alone', async () => {
    const store = new MemoryStore()
    await store.write(async (transaction) => {
      transaction.set('a', 1)
      await store
        .write(async (inner) => {
          inner.set('a', 2)
          inner.delete('b')
          throw new Error('only this part')
        })
        .catch(() => {})
      expect(transaction.get('a')).toBe(1)
    })
    expect(store.executor().entries()).toEqual([['a', 1]])
  })

  it('refuses to commit if a value that was read has changed since', async () => {
    const store = new MemoryStore()
    const read = deferred()
    const changed = deferred()
    const slow = store.write(async (transaction) => {
      const before = Number(transaction.get('n') ?? 0)
      read.resolve()
      await changed.promise
      transaction.set('n', before + 1)
    })
    await read.promise
    await store.write(async (transaction) => transaction.set('n', 10))
    changed.resolve()
    const error = await slow.catch((reason: unknown) => reason)
    expect(isAckordError(error, 'ACKORD_TRANSACTION_CONFLICT')).toBe(true)
    expect(store.executor().get('n')).toBe(10)
  })

  it('commits one of two concurrent deliveries of a message', async () => {
    const store = new MemoryStore()
    const both = [1, 2].map(() => trackedMessage('m-1', { data: { orderId: 'o-1' } }))
    await Promise.all(both.map((order) => orderRouter(store).run(sourceOf(order))))
    expect(store.executor().entries()).toEqual([['o-1', 1]])
    expect(both.flatMap(({ verdicts }) => verdicts).toSorted()).toEqual(['ack', 'nack'])
  })

  it('ends with its transaction', async () => {
    const store = new MemoryStore()
    const callbacks: string[] = []
    const transaction = await store.write(async (handle, context) => {
      afterCommit(context, () => void callbacks.push('committed'))
      handle.set('a', 1)
      return handle
    })
    expect(callbacks).toEqual(['committed'])
    expect(() => transaction.set('a', 2)).toThrow('The transaction has ended.')
    expect(() => store.withTransaction(rootContext(), { ...transaction })).toThrow('requires a transaction of write() of this store')
  })
})
