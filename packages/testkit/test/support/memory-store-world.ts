import { randomUUID } from 'node:crypto'
import { rootContext } from '@ackord/core'
import { MemoryStore } from '../../src/helpers/memory-store.ts'
import type { TransactionWorld } from '../../src/suites/transaction/transaction-world.ts'

/** What users test their handlers on, for the suites that the stores have to pass. */
export async function openMemoryStoreWorld(): Promise<TransactionWorld> {
  const store = new MemoryStore()
  const outside = rootContext()
  const transactional = (consumer: string) => store.transactional({ consumer, destination: 'order-events' })
  return {
    // It has none without an inbox: a consumer of its own has seen no message yet.
    transaction: () => transactional(randomUUID()),
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
    async read(key) {
      return store.executor(outside).get(key) as string | undefined
    },
    async events() {
      return (await store.outbox.list({}, { limit: 1000 })).records.map(({ message }) => message)
    },
    async [Symbol.asyncDispose]() {},
  }
}
