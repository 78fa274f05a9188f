import { MemoryOutboxStore, type MemoryTransaction } from '@ackord/outbox'
import { VirtualRuntime } from '../virtual-runtime.ts'
import type { OutboxFeatures, OutboxTransaction, OutboxWorld, OutboxWorldOptions } from './outbox-world.ts'

export const memoryOutboxFeatures: OutboxFeatures = { savepoints: true, delay: true, retain: true }

/** The in-memory store on a clock of its own: the model for other worlds. */
export async function openMemoryOutboxWorld(options: OutboxWorldOptions): Promise<OutboxWorld> {
  return openWorld(options, 'none')
}

/** The same with order per key. */
export async function openOrderedMemoryOutboxWorld(options: OutboxWorldOptions): Promise<OutboxWorld> {
  return openWorld(options, 'perKey')
}

function openWorld({ retain }: OutboxWorldOptions, order: 'none' | 'perKey'): OutboxWorld {
  const runtime = new VirtualRuntime()
  const store = new MemoryOutboxStore({ retain, order, runtime })
  return {
    store,
    another: async () => store.another(),
    async transaction(work) {
      const transaction = store.begin()
      try {
        await work(transactionOf(store, transaction))
      } catch (error) {
        transaction.rollback()
        throw error
      }
      transaction.commit()
    },
    async openTransaction() {
      const transaction = store.begin()
      return {
        ...transactionOf(store, transaction),
        commit: async () => transaction.commit(),
        rollback: async () => transaction.rollback(),
      }
    },
    advance: (duration) => runtime.advance(duration),
    [Symbol.asyncDispose]: async () => {},
  }
}

function transactionOf(store: MemoryOutboxStore, transaction: MemoryTransaction): OutboxTransaction {
  return {
    append: (records) => store.append(transaction, records),
    async savepoint(work) {
      const start = transaction.savepoint()
      try {
        await work()
      } catch (error) {
        transaction.rollbackTo(start)
        throw error
      }
    },
  }
}
