import { randomBytes } from 'node:crypto'
import pg from 'pg'

const postgresUrl = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'

/** A separate PostgreSQL schema, dropped at the end. */
export interface PostgresSchema extends AsyncDisposable {
  /** A connection URL with this schema as the search path. */
  readonly url: string
  /** Runs a statement and returns its rows. */
  query(text: string): Promise<readonly Record<string, unknown>[]>
  /** The number of rows in a table. */
  count(table: string): Promise<number>
}

export async function openPostgresSchema(): Promise<PostgresSchema> {
  const schema = `example_${randomBytes(6).toString('hex')}`
  const url = new URL(postgresUrl)
  url.searchParams.set('options', `-c search_path=${schema}`)
  const pool = new pg.Pool({ connectionString: url.href, max: 2 })
  pool.on('error', () => {})
  const query = async (text: string) => (await pool.query<Record<string, unknown>>(text)).rows
  await query(`CREATE SCHEMA ${schema}`)
  return {
    url: url.href,
    query,
    count: async (table) => Number((await query(`SELECT count(*) AS count FROM ${table}`))[0]?.['count']),
    async [Symbol.asyncDispose]() {
      await query(`DROP SCHEMA ${schema} CASCADE`)
      await pool.end()
    },
  }
}
