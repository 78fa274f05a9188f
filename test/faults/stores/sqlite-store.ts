import { nodeKind } from '../../../packages/sql/test/sqlite/support/sqlite-world.ts'
import { sqlStore } from './sql-store.ts'
import type { Store } from './store.ts'

export interface SqliteStore extends Store {
  /** Takes the lock that every writer needs, as another process would. Returns the function that releases it. */
  lock(): () => void
}

/** A file has no connection that could be cut; the only shared resource is its write lock. */
export async function openSqliteStore(): Promise<SqliteStore> {
  const world = await nodeKind.open({ lockTimeout: 200 })
  const { database } = world
  // No primary key, so that an order that is applied twice appears twice.
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
