import { silentLogger } from '@ackord/core'
import { createSchema, type OutboxMode } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { startFaultProxy } from '@ackord/testkit'
import { postgresUrl, schemaName } from '../../../packages/sql/test/support/own-schema.ts'
import { pg } from '../../../packages/sql/test/support/pg.ts'
import { startPostgres } from '../../../scripts/servers/index.mjs'
import { PostgresStatements } from './postgres-statements.ts'
import { sqlStore, takeConnections } from './sql-store.ts'
import { type Moment, restart, type ServerStoreKind } from './store.ts'

/** In log mode a settlement writes a cursor. */
const settles: Readonly<Record<OutboxMode, RegExp>> = { table: /\bDELETE FROM\b/, log: /\(leaf, kind, partitions,/ }

export const postgresStore: ServerStoreKind = { name: 'PostgreSQL (pg)', tellsUnknownCommits: true, open: opener('table') }

export const postgresLogStore: ServerStoreKind = { name: 'PostgreSQL (pg), log mode', tellsUnknownCommits: true, open: opener('log') }

function opener(mode: OutboxMode): ServerStoreKind['open'] {
  const moments: Readonly<Record<Moment, RegExp>> = { begin: /\bBEGIN\b/, commit: /\bCOMMIT\b/, settle: settles[mode] }
  return async function open({ own = false, connections = 10 } = {}) {
    const server = own ? await startPostgres() : undefined
    const url = server?.url ?? postgresUrl
    const schema = schemaName()
    const statements = new PostgresStatements()
    const recognise = (moment: Moment) => (bytes: Buffer) => statements.has(bytes, moments[moment])
    const learn = recognise('begin')
    const proxy = await startFaultProxy(url, (bytes) => {
      learn(bytes)
      return 'pass'
    })
    const door = new pg.Pool({ connectionString: url, max: 2, options: `-c search_path=${schema}` })
    door.on('error', () => {})
    await door.query(`CREATE SCHEMA ${schema}`)
    // No primary key, so that an order that is applied twice appears twice.
    await door.query('CREATE TABLE orders (id text NOT NULL)')
    const pool = new pg.Pool({
      connectionString: proxy.url,
      max: connections,
      application_name: schema,
      options: `-c search_path=${schema}`,
      // The query timeout is the only way to detect a half-open connection.
      query_timeout: 1500,
    })
    const database = fromPg(pool, { mode, logger: silentLogger })
    const looking = fromPg(door, { mode, logger: silentLogger })
    await createSchema(looking)
    const idsIn = async (table: string) => (await door.query(`SELECT id FROM ${table}`)).rows.map(({ id }) => String(id))

    return {
      proxy,
      recognise,
      ...sqlStore(database, { database: looking, idsIn }),
      save: (id) => database.executor().query('INSERT INTO orders (id) VALUES ($1)', [id]),
      async endConnections() {
        const { rows } = await door.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [schema])
        return rows.length
      },
      restart: () => restart(server),
      exhaust: () =>
        takeConnections(
          connections,
          () => pool.connect(),
          () => pool.waitingCount,
        ),
      async [Symbol.asyncDispose]() {
        proxy.judge()
        await pool.end()
        await door.query(`DROP SCHEMA ${schema} CASCADE`)
        await door.end()
        await proxy[Symbol.asyncDispose]()
        await server?.stop()
      },
    }
  }
}
