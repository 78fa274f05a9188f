import postgres, { type Sql, type TransactionSql } from 'postgres'
import { fromPostgres } from '../../../src/postgres/index.ts'
import type { AdapterWorld } from '../../support/adapter-scenarios.ts'
import { openSchema, postgresUrl } from '../../support/own-schema.ts'

export type PostgresJsWorld = AdapterWorld<Sql | TransactionSql> & { readonly sql: Sql }

/** Opens postgres.js on a separate schema. */
export async function openPostgres(options: postgres.Options<Record<string, never>> = {}): Promise<PostgresJsWorld> {
  const own = await openSchema({ client: 'postgres.js' })
  const { schema } = own
  const sql: Sql = postgres(postgresUrl, { connection: { search_path: schema, application_name: schema }, onnotice() {}, ...options })
  const database = fromPostgres(sql, { schema })
  await own.createTables(database)
  return {
    ...own,
    sql,
    database,
    root: sql,
    begin: (work) => sql.begin(work),
    async openSession() {
      const reserved = await sql.reserve()
      return {
        begin: () => reserved.unsafe('BEGIN').then(() => reserved),
        commit: () => reserved.unsafe('COMMIT'),
        [Symbol.asyncDispose]: async () => reserved.release(),
      }
    },
    run: (handle, text, parameters) => handle.unsafe(text, parameters as string[]),
    async [Symbol.asyncDispose]() {
      // Without a timeout end() waits forever for a connection that was lost while it ran a query.
      await sql.end({ timeout: 0 })
      await own[Symbol.asyncDispose]()
    },
  }
}
