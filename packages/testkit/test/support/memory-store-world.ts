import { randomUUID } from 'node:crypto'
import { AckordError, rootContext } from '@ackord/core'
import { MemoryStore } from '../../src/helpers/memory-store.ts'
import type { TransactionFeatures, TransactionWorld } from '../../src/suites/transaction/transaction-world.ts'

export const memoryStoreFeatures: TransactionFeatures = { savepoints: true, failCommit: true, commitByHand: true }

export async function openMemoryStoreWorld(): Promise<TransactionWorld> {
  return memoryStoreWorld(new MemoryStore())
}

/** The in-memory store with which users test their handlers, for the suites that every store has to pass. */
export function memoryStoreWorld(store: MemoryStore): TransactionWorld {
  const outside = rootContext()
  const transactional = (consumer: string) => store.transactional({ consumer, destination: 'order-events' })
  return {
    // The store has no transaction middleware without an inbox: a new consumer has seen no message yet.
    transaction: () => store.transactionMiddleware(),
    transactional,
    async write(context, key, value) {
      store.executor(context).set(key, value)
    },
    async failWrite() {
      throw new Error('the value is too large')
    },
    async failCommit(context) {
      store.transaction(context)?.get('stock')
      store.executor(outside).set('stock', randomUUID())
    },
    async commitByHand() {
      throw new AckordError('ACKORD_TRANSACTION_REQUIRED', 'The middleware commits: a handler has no way to do it.')
    },
    inbox: store.inbox,
    async read(key) {
      return store.executor(outside).get(key) as string | undefined
    },
    async events() {
      return (await store.outbox.list({}, { limit: 1000 })).records.map(({ message }) => message)
    },
    async [Symbol.asyncDispose]() {},
  }
}
