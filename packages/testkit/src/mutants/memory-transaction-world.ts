import { compose } from '@ackord/core'
import type { OpenTransactionWorld, TransactionFeatures } from '../suites/transaction/transaction-world.ts'
import { MemoryDatabase } from './memory-database.ts'
import { memoryInbox, memoryOutbox, memoryTransaction, sessionKey, sessionOf } from './memory-middleware.ts'
import { type MemoryRules, memoryRules } from './memory-rules.ts'

export const memoryTransactionFeatures: TransactionFeatures = { savepoints: true, failCommit: true, commitByHand: true }

/** Opens worlds on a database in memory that breaks these rules; with none it is the reference. */
export function memoryTransactionWorld(broken: Partial<MemoryRules> = {}): OpenTransactionWorld {
  return async () => {
    const database = new MemoryDatabase({ ...memoryRules, ...broken })
    return {
      transaction: () => memoryTransaction(database),
      transactional: (consumer) => compose(memoryTransaction(database), memoryInbox(database, consumer), memoryOutbox(database)),
      async write(context, key, value) {
        const session = context.get(sessionKey)
        // Outside of a transaction a repository writes by itself, as through a pool.
        if (session === undefined) database.rows.set(key, value)
        else await session.write(key, value)
      },
      failWrite: (context) => sessionOf(context, 'failWrite()').failWrite(),
      failCommit: async (context) => sessionOf(context, 'failCommit()').failCommit(),
      commitByHand: (context) => sessionOf(context, 'commitByHand()').commitByHand(),
      read: async (key) => database.rows.get(key),
      events: async () => [...database.events],
      [Symbol.asyncDispose]: async () => {},
    }
  }
}
