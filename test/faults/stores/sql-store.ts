import { silentLogger } from '@ackord/core'
import { type Database, sqlOutbox, transactional } from '@ackord/sql'
import { consumer, eventsName } from '../names.ts'
import { type Exhaustion, outboxStates, type Store } from './store.ts'

interface Looking<Handle> {
  /** A separate connection to the same tables, which bypasses every fault. */
  readonly database: Database<Handle>
  idsIn(table: 'orders' | 'ackord_inbox'): Promise<readonly string[]>
}

/** The part shared by all SQL databases: how the service uses the store, and how the test observes it. */
export function sqlStore<Handle>(database: Database<Handle>, looking: Looking<Handle>): Pick<Store, 'middleware' | 'outbox' | 'observe'> {
  const admin = sqlOutbox(looking.database, { logger: silentLogger })
  return {
    middleware: transactional(database, {
      inbox: { consumer },
      outbox: { destination: eventsName },
      transaction: { logger: silentLogger },
    }),
    outbox: sqlOutbox(database, { logger: silentLogger }),
    async observe() {
      const outbox = await outboxStates(admin)
      return { applied: await looking.idsIn('orders'), inbox: await looking.idsIn('ackord_inbox'), outbox }
    },
  }
}

/** Takes `count` connections of a pool. */
export async function takeConnections(count: number, take: () => Promise<{ release(): void }>, waiting: () => number): Promise<Exhaustion> {
  const held = await Promise.all(Array.from({ length: count }, take))
  return {
    waiting,
    free() {
      for (const connection of held) connection.release()
    },
  }
}
