// @ts-check
// On each client for SQLite that the runtime has.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@ackord/core'
import { createSchema } from '@ackord/sql'
import { fromSqlite } from '@ackord/sql/sqlite'
import { testSql } from './sql-worlds.mjs'

const clients = ['node:sqlite', '@photostructure/sqlite', ...('Bun' in globalThis ? ['bun:sqlite'] : [])]

/** @param {import('./checks.mjs').Checks} checks */
export async function register(checks) {
  const folder = mkdtempSync(join(tmpdir(), 'ackord-runtime-'))
  let count = 0
  for (const name of clients) {
    const module = await import(name)
    /** @type {typeof import('@photostructure/sqlite').DatabaseSync} */
    const Client = module.DatabaseSync ?? module.Database
    testSql(checks, `SQLite with ${name}`, () => open(Client), { failCommit: true })
  }

  /** @param {typeof import('@photostructure/sqlite').DatabaseSync} Client */
  async function open(Client) {
    count += 1
    const file = join(folder, `${count}.db`)
    /** @type {InstanceType<typeof Client>[]} */
    const opened = []
    const connect = () => {
      const client = new Client(file)
      opened.push(client)
      return client
    }
    const client = connect()
    // bun:sqlite checks foreign keys only if it is told to.
    client.exec('PRAGMA foreign_keys = ON')
    const database = fromSqlite(client, { synchronous: 'normal', logger: silentLogger })
    await createSchema(database)
    client.exec('CREATE TABLE entries (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT')
    client.exec('CREATE TABLE parents (n INTEGER PRIMARY KEY) STRICT')
    client.exec('CREATE TABLE children (n INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED) STRICT')
    const reader = connect()
    return {
      database,
      another: () => fromSqlite(connect(), { synchronous: 'normal', logger: silentLogger }),
      async age(/** @type {readonly string[]} */ columns, /** @type {number} */ duration) {
        const earlier = (/** @type {string} */ column) => `${column} = CAST(round(${column} - ${duration}) AS INTEGER)`
        await database.write(async (handle) => {
          handle.exec(`UPDATE ackord_outbox SET ${columns.map(earlier).join(', ')}`)
          handle.exec(`UPDATE ackord_relays SET ${earlier('alive_until')}`)
          handle.exec(`UPDATE ackord_notes SET ${earlier('written_at')}`)
        })
      },
      async writeEntry(/** @type {typeof client} */ handle, /** @type {string} */ key, /** @type {string | null} */ value) {
        handle.prepare('INSERT INTO entries VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value').run(key, value)
      },
      async readEntry(/** @type {string} */ key) {
        const [row] = reader.prepare('SELECT value FROM entries WHERE key = ?').all(key)
        return row?.['value']
      },
      send: async (/** @type {typeof client} */ handle, /** @type {string} */ sql) => handle.exec(sql),
      async failCommit(/** @type {typeof client} */ handle) {
        handle.prepare('INSERT INTO children VALUES (?)').run(17)
      },
      async close() {
        for (const one of opened) one.close()
      },
    }
  }

  return async () => rmSync(folder, { recursive: true })
}
