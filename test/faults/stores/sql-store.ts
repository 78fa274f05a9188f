import { silentLogger } from '@ackord/core'
import { type Database, sqlOutbox, transactional } from '@ackord/sql'
import { consumer, eventsName } from '../names.ts'
import { type Exhaustion, outboxStates, type Store } from './store.ts'

interface Looking<Handle> {
  /** Another way to the same tables, past every fault. */
  readonly database: Database<Handle>
  idsIn(table: 'orders' | 'ackord_inbox'): Promise<readonly string[]>
}

/** What is the same on every SQL database: how the service uses it, and how it is looked at. */
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

/** Takes so many connections of a pool. */
export async function takeConnections(count: number, take: () => Promise<{ release(): void }>, waiting: () => number): Promise<Exhaustion> {
  const held = await Promise.all(Array.from({ length: count }, take))
  return {
    waiting,
    free() {
      for (const connection of held) connection.release()
    },
  }
}
