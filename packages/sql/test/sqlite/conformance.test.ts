import { depthOfFirstClient, depthOfOtherClients } from '../../../../scripts/test-depth.mjs'
import type { Database } from '../../src/index.ts'
import { fromSqlite } from '../../src/sqlite/index.ts'
import { type OpenSqlWorld, testSqlConformance, testSqlOrder } from '../support/sql-conformance.ts'
import { type SqliteKind, sqliteKinds, type TestHandle } from './support/sqlite-world.ts'

// The complete suites run on the first client by default; on the others they run only in `make proof`.

for (const [index, { name, open }] of sqliteKinds.entries()) {
  const own = index === 0 ? 'whole' : depthOfOtherClients
  testSqlConformance(name, sqlWorld(open), { depth: own })
  testSqlOrder(name, sqlWorld(open), index === 0 ? depthOfFirstClient : depthOfOtherClients)
}

function sqlWorld(open: SqliteKind['open']): OpenSqlWorld<TestHandle> {
  return async () => {
    const world = await open()
    const { client, database } = world
    return {
      database,
      tables: {},
      oneWriter: true,
      // The store does not use the type of its handle.
      another: () => fromSqlite(world.connect()) as unknown as Database<unknown>,
      async age(columns, duration) {
        const earlier = columns.map((column) => `${column} = CAST(round(${column} - ${duration}) AS INTEGER)`)
        await database.write(async (handle) => {
          handle.exec(`UPDATE ackord_outbox SET ${earlier.join(', ')}`)
          handle.exec(`UPDATE ackord_relays SET alive_until = CAST(round(alive_until - ${duration}) AS INTEGER)`)
          handle.exec(`UPDATE ackord_notes SET written_at = CAST(round(written_at - ${duration}) AS INTEGER)`)
        })
      },
      async createEntries() {
        client.exec('CREATE TABLE entries (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT')
        client.exec('CREATE TABLE parents (n INTEGER PRIMARY KEY) STRICT')
        client.exec('CREATE TABLE children (n INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED) STRICT')
      },
      async writeEntry(handle, key, value) {
        handle.prepare('INSERT INTO entries VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value').run(key, value)
      },
      send: async (handle, sql) => handle.exec(sql),
      async readEntry(key) {
        const [row] = world.query('SELECT value FROM entries WHERE key = ?', key)
        return row === undefined ? undefined : String(row['value'])
      },
      async failCommit(handle) {
        handle.prepare('INSERT INTO children VALUES (?)').run(17)
      },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }
}
