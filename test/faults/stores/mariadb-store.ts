import { connect } from 'node:net'
import { createSchema } from '@ackord/sql'
import { fromMysql2 } from '@ackord/sql/mysql'
import { startFaultProxy } from '@ackord/testkit'
import { createPool } from 'mysql2/promise'
import { mariadbUrl } from '../../../packages/sql/test/mysql/support/mysql-world.ts'
import { schemaName } from '../../../packages/sql/test/support/own-schema.ts'
import { startMariadb } from '../../../scripts/servers/index.mjs'
import { consumer, eventsName } from '../names.ts'
import type { Recognise } from '../wire.ts'
import { sqlStore, takeConnections } from './sql-store.ts'
import { type Moment, restart, type ServerStoreKind } from './store.ts'

/** Milliseconds without an answer after which a connection is closed. mysql2 has no option for it. */
const socketTimeout = 1500

export const mariadbStore: ServerStoreKind = {
  name: 'MariaDB (mysql2)',
  tellsUnknownCommits: true,
  async open({ own = false, connections = 10 } = {}) {
    const server = own ? await startMariadb() : undefined
    const { hostname, port, username } = new URL(server?.url ?? mariadbUrl)
    const schema = schemaName()
    const proxy = await startFaultProxy(server?.url ?? mariadbUrl)
    const direct = { host: hostname, port: Number(port), user: username }
    // Without a default database: connections on the schema are the service's, and endConnections() kills all of them.
    const door = createPool({ ...direct, connectionLimit: 2 })
    const query = async (sql: string, values: unknown[] = []) => (await door.query(sql, values))[0] as Record<string, unknown>[]
    await query(`CREATE DATABASE ${schema}`)
    await query(`CREATE TABLE ${schema}.orders (id VARCHAR(40) NOT NULL)`)
    const pool = createPool({
      ...direct,
      port: proxy.port,
      database: schema,
      connectionLimit: connections,
      stream() {
        const socket = connect({ host: '127.0.0.1', port: proxy.port, noDelay: true })
        return socket.setTimeout(socketTimeout, () => socket.destroy(new Error('The server is silent.')))
      },
    })
    const database = fromMysql2(pool)
    const looking = fromMysql2(door, { schema })
    await createSchema(looking)
    const idsIn = async (table: string) => (await query(`SELECT id FROM ${schema}.${table}`)).map(({ id }) => String(id))
    const inner = pool.pool as unknown as { readonly _connectionQueue: { readonly length: number } }

    return {
      proxy,
      recognise,
      ...sqlStore(database, { database: looking, idsIn }),
      save: (id) => database.executor().query('INSERT INTO orders (id) VALUES (?)', [id]),
      async endConnections() {
        const rows = await query('SELECT ID FROM information_schema.PROCESSLIST WHERE DB = ?', [schema])
        // A connection that closes by itself in the meantime is unknown to KILL.
        for (const { ID: id } of rows) await query(`KILL ${Number(id)}`).catch(() => {})
        return rows.length
      },
      restart: () => restart(server),
      exhaust: () =>
        takeConnections(
          connections,
          () => pool.getConnection(),
          () => inner._connectionQueue.length,
        ),
      async [Symbol.asyncDispose]() {
        proxy.judge()
        await pool.end()
        await query(`DROP DATABASE ${schema}`)
        await door.end()
        await proxy[Symbol.asyncDispose]()
        await server?.stop()
      },
    }
  },
}

/** From the protocol: the first byte after the packet header, for the execution of a prepared statement. Such a packet has the values but not the SQL text. */
const execute = 0x17

/**
 * The statement that begins a handler's transaction records the message in the inbox, and the one that commits it stores the event; both are prepared. The relay sends its
 * statements as text, and its settlement is a COMMIT after the DELETE of published records.
 */
function recognise(moment: Moment): Recognise {
  // Tracked per connection, because the relay claims on other connections at the same time.
  const deleting = new Set<number>()
  return (bytes, connection) => {
    const text = bytes.toString('latin1')
    const isPrepared = bytes[4] === execute
    const stores = isPrepared && text.includes(eventsName)
    if (moment === 'commit') return stores
    if (moment === 'begin') return isPrepared ? !stores && text.includes(consumer) : text.startsWith('START TRANSACTION', 5)
    if (text.startsWith('COMMIT', 5)) return deleting.delete(connection)
    if (text.includes('DELETE o FROM')) deleting.add(connection)
    else deleting.delete(connection)
    return false
  }
}
