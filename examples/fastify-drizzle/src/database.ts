import { createSchema, type Database } from '@ackord/sql'
import { type DrizzleHandle, fromDrizzle } from '@ackord/sql/postgres'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import type pg from 'pg'

/** Drizzle itself, or a transaction on it: repositories need not know which. */
export type Handle = DrizzleHandle<NodePgDatabase & { $client: pg.Pool }>

export function openDatabase(pool: pg.Pool): Database<Handle> {
  return fromDrizzle(drizzle(pool))
}

/** A real service has its own migrations; `createSchema()` or `ackord migrate up` creates Ackord's tables. */
export async function createTables(pool: pg.Pool, database: Database<Handle>): Promise<void> {
  await createSchema(database)
  await pool.query(`
    CREATE TABLE IF NOT EXISTS stock (product text PRIMARY KEY, available integer NOT NULL);
    CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, product text NOT NULL, quantity integer NOT NULL);
    CREATE TABLE IF NOT EXISTS invoices (order_id text NOT NULL, quantity integer NOT NULL);
  `)
}
