import { createSchema } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import pg from 'pg'

export const postgresUrl = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'

/** Each service has a schema of its own, as it would have a database. */
export const schemaOf = (prefix: string, service: 'orders' | 'shipping') => `${prefix}_${service}`.replaceAll('-', '_')

export function createPool(schema: string, max: number): pg.Pool {
  return new pg.Pool({ connectionString: postgresUrl, max, options: `-c search_path=${schema}` })
}

/** The tables of both services. The disposal removes them. */
export interface Tables extends AsyncDisposable {
  /** The position in the server's write-ahead log, in bytes. It counts what everybody writes to the server. */
  walPosition(): Promise<number>
  /** The number of relays that own at least this number of partitions. */
  owners(share: number): Promise<number>
}

export async function createTables(prefix: string): Promise<Tables> {
  const admin = new pg.Pool({ connectionString: postgresUrl, max: 1 })
  const schemas = (['orders', 'shipping'] as const).map((service) => schemaOf(prefix, service))
  for (const schema of schemas) {
    await admin.query(`CREATE SCHEMA ${schema}`)
    await createSchema(fromPg(admin, { schema }))
    await admin.query(`CREATE TABLE ${schema}.orders (id text PRIMARY KEY, total integer NOT NULL)`)
  }
  const value = async (sql: string) => Number((await admin.query<{ value: string }>(sql)).rows[0]?.value)
  return {
    walPosition: () => value("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS value"),
    owners: (share) =>
      value(`SELECT count(*) AS value FROM (
  SELECT owner FROM ${schemas[0]}.ackord_partitions WHERE owner IS NOT NULL GROUP BY owner HAVING count(*) >= ${share}
) AS owners`),
    async [Symbol.asyncDispose]() {
      await admin.query(`DROP SCHEMA ${schemas.join(', ')} CASCADE`)
      await admin.end()
    },
  }
}
