import { silentLogger } from '@ackord/core'
import { sqlOutbox, transactional } from '@ackord/sql'
import { nodeKind } from '../../../packages/sql/test/sqlite/support/sqlite-world.ts'
import { consumer, eventsName } from '../names.ts'
import { outboxStates, type Store } from './store.ts'

export interface SqliteStore extends Store {
  /** A stranger takes the lock that every writer needs. Gives what frees it. */
  lock(): () => void
}

/** A file has no connection that could be cut; what can be taken from a service is its one lock. */
export async function openSqliteStore(): Promise<SqliteStore> {
  const world = await nodeKind.open({ lockTimeout: 200 })
  const { database } = world
  // No key: an order that is applied twice would be there twice.
  world.client.exec('DROP TABLE orders; CREATE TABLE orders (id TEXT NOT NULL) STRICT')
  const outbox = sqlOutbox(database, { logger: silentLogger })
  const idsIn = (table: string) => world.query(`SELECT id FROM ${table}`).map(({ id }) => String(id))
  return {
    middleware: transactional(database, {
      inbox: { consumer },
      outbox: { destination: eventsName },
      transaction: { logger: silentLogger },
    }),
    outbox,
    async save(id) {
      database.executor().prepare('INSERT INTO orders (id) VALUES (?)').run(id)
    },
    async observe() {
      return { outbox: await outboxStates(outbox), applied: idsIn('orders'), inbox: idsIn('ackord_inbox') }
    },
    lock() {
      const stranger = world.connect()
      stranger.exec('BEGIN IMMEDIATE')
      return () => void stranger.exec('ROLLBACK')
    },
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}
