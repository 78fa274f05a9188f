import { createSchema } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import pg from 'pg'

export type Variant = 'plain' | 'off' | 'on'

export interface Round {
  readonly rate: number
  /** Microseconds of processor time per message, of the process that handles it. */
  readonly cpu: number
  /** How many spans were exported since the process started. */
  readonly spans: number
}

export const url = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'

export async function createTables(pool: pg.Pool, schema: string): Promise<void> {
  await pool.query(`CREATE SCHEMA ${schema}`)
  const inside = poolOn(schema, 1)
  try {
    await createSchema(fromPg(inside))
    await inside.query('CREATE TABLE orders (id text PRIMARY KEY, total integer NOT NULL)')
  } finally {
    await inside.end()
  }
}

export async function dropTables(pool: pg.Pool, schema: string): Promise<void> {
  await pool.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
}

export function poolOn(schema: string, max: number): pg.Pool {
  return new pg.Pool({ connectionString: url, max, options: `-c search_path=${schema}` })
}
