import { silentLogger } from '@ackord/core'
import type { Pool, PoolClient } from 'pg'
import { startPostgres } from '../../../../../scripts/servers/index.mjs'
import { createSchema, type Database } from '../../../src/index.ts'
import { fromPg } from '../../../src/postgres/index.ts'
import { pg } from '../../support/pg.ts'
import type { TestHandle, World } from '../../support/world.ts'

/** A world on a server of its own: no transaction of another test ends meanwhile, and the server can be killed. */
export interface LogServer extends Pick<World, 'database' | 'query'>, AsyncDisposable {
  readonly server: Awaited<ReturnType<typeof startPostgres>>
  readonly pool: Pool
  client(): Promise<PoolClient>
}

/** `settings`: further settings of the server, as in `ALTER SYSTEM SET`. */
export async function openLogServer(settings: Readonly<Record<string, string>> = {}): Promise<LogServer> {
  const server = await startPostgres()
  try {
    const pool = new pg.Pool({ connectionString: server.url, max: 12 })
    // Connections end with the server.
    pool.on('error', () => {})
    for (const [name, value] of Object.entries({ autovacuum: 'off', ...settings }))
      await pool.query(`ALTER SYSTEM SET ${name} = '${value}'`)
    await pool.query('SELECT pg_reload_conf()')
    const database = fromPg(pool, { logger: silentLogger })
    await createSchema(database)
    return {
      server,
      pool,
      client: () => pool.connect(),
      query: async (sql: string, parameters: readonly unknown[] = []) => (await pool.query(sql, [...parameters])).rows,
      database: database as unknown as Database<TestHandle>,
      async [Symbol.asyncDispose]() {
        await pool.end()
        await server.stop()
      },
    }
  } catch (error) {
    await server.stop()
    throw error
  }
}
