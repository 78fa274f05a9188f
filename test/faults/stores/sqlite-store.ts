import { nodeKind } from '../../../packages/sql/test/sqlite/support/sqlite-world.ts'
import { sqlStore } from './sql-store.ts'
import type { Store } from './store.ts'

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
  const idsIn = async (table: string) => world.query(`SELECT id FROM ${table}`).map(({ id }) => String(id))
  return {
    ...sqlStore(database, { database, idsIn }),
    async save(id) {
      database.executor().prepare('INSERT INTO orders (id) VALUES (?)').run(id)
    },
    lock() {
      const stranger = world.connect()
      stranger.exec('BEGIN IMMEDIATE')
      return () => void stranger.exec('ROLLBACK')
    },
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}
