import { fromSqlite } from '../../../src/sqlite/index.ts'
import type { OpenSqlWorld } from '../../support/sql-conformance.ts'
import type { SqliteKind, TestHandle } from './sqlite-world.ts'

/** The world of a client for the suites. `withReader`: the file has a second connection for reading. */
export function sqliteSqlWorld(open: SqliteKind['open'], { withReader = false } = {}): OpenSqlWorld<TestHandle> {
  return async () => {
    const world = await open({ withReader })
    const { client, database } = world
    return {
      database,
      tables: {},
      oneWriter: true,
      another: () => fromSqlite(world.connect()),
      async age(columns, duration) {
        const earlier = columns.map((column) => `${column} = CAST(round(${column} - ${duration}) AS INTEGER)`)
        await database.write(async (handle) => {
          handle.exec(`UPDATE ackord_outbox SET ${earlier.join(', ')}`)
          handle.exec(`UPDATE ackord_relays SET alive_until = CAST(round(alive_until - ${duration}) AS INTEGER)`)
          handle.exec(`UPDATE ackord_notes SET written_at = CAST(round(written_at - ${duration}) AS INTEGER)`)
        })
      },
      async ageRequests(duration) {
        const earlierBy = (column: string) => `${column} = CAST(round(${column} - ${duration}) AS INTEGER)`
        await database.write(async (handle) => {
          handle.exec(`UPDATE ackord_idempotency SET ${earlierBy('lease_until')}, ${earlierBy('expires_at')}`)
        })
      },
      async ageProcesses(duration) {
        await database.write(async (handle) => {
          handle.exec(`UPDATE ackord_process SET expires_at = CAST(round(expires_at - ${duration}) AS INTEGER)`)
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
