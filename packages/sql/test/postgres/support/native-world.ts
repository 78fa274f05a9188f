import { silentLogger } from '@ackord/core'
import type { Pool } from 'pg'
import { fromPg } from '../../../src/postgres/index.ts'
import type { AdapterWorld } from '../../support/adapter-scenarios.ts'
import { openSchema, postgresUrl, startOptions } from '../../support/own-schema.ts'
import { pg } from '../../support/pg.ts'

type NativeHandle = Pick<Pool, 'query'>

export type NativeWorld = AdapterWorld<NativeHandle> & { readonly pool: Pool }

/** Opens pg's native client, which uses libpq, on a separate schema. */
export async function openNative({ max = 10 }: { readonly max?: number } = {}): Promise<NativeWorld> {
  if (pg.native === null) throw new Error('pg-native cannot be loaded. Run `make test`, or build it with node scripts/pg-native.mjs')
  const own = await openSchema({ client: 'pg native' })
  const { schema } = own
  // Without query_timeout the client waits forever for the response to a query on a connection that the server has closed.
  const options = startOptions(schema)
  const pool = new pg.native.Pool({ connectionString: postgresUrl, max, options, query_timeout: 5000 })
  const database = fromPg(pool, { schema, logger: silentLogger })
  await own.createTables(database)
  return {
    ...own,
    pool,
    database,
    root: pool,
    async begin(work) {
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        await work(client)
        await client.query('COMMIT')
      } catch (error) {
        await client.query('ROLLBACK')
        throw error
      } finally {
        client.release()
      }
    },
    async openSession() {
      const client = await pool.connect()
      return {
        begin: () => client.query('BEGIN').then(() => client),
        commit: () => client.query('COMMIT'),
        [Symbol.asyncDispose]: async () => client.release(),
      }
    },
    run: async (handle, text, parameters) => (await handle.query(text, parameters)).rows,
    async [Symbol.asyncDispose]() {
      await pool.end()
      await own[Symbol.asyncDispose]()
    },
  }
}
