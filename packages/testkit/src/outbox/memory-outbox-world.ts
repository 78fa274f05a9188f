import { MemoryOutboxStore, type MemoryTransaction } from '@ackord/outbox'
import { VirtualRuntime } from '../virtual-runtime.ts'
import type { OutboxFeatures, OutboxTransaction, OutboxWorld, OutboxWorldOptions } from './outbox-world.ts'

export const memoryOutboxFeatures: OutboxFeatures = { savepoints: true, delay: true, retain: true }

/** The in-memory store on a clock of its own: the model for other worlds. */
export async function openMemoryOutboxWorld({ retain }: OutboxWorldOptions): Promise<OutboxWorld> {
  const runtime = new VirtualRuntime()
  const store = new MemoryOutboxStore({ retain, runtime })
  return {
    store,
    // One object holds the data; a second one that passes everything on stands for another process.
    another: async () => bound(store),
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

function bound(store: MemoryOutboxStore): OutboxWorld['store'] {
  return {
    capabilities: store.capabilities,
    claim: (options) => store.claim(options),
    renew: (claims, lease) => store.renew(claims, lease),
    release: (claims) => store.release(claims),
    settle: (outcomes) => store.settle(outcomes),
    wakeUps: (options) => store.wakeUps(options),
    list: (filter, page) => store.list(filter, page),
    get: (id) => store.get(id),
    rearm: (which, edit) => store.rearm(which, edit),
    discard: (ids, reason) => store.discard(ids, reason),
    stats: () => store.stats(),
    deletePublished: (options) => store.deletePublished(options),
  }
}
