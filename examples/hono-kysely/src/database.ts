import { createSchema, type Database } from '@ackord/sql'
import { fromKysely } from '@ackord/sql/postgres'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'

interface Tables {
  readonly orders: { readonly id: string; readonly product: string; readonly quantity: number }
  readonly stock: { readonly product: string; readonly available: number }
  readonly shipments: { readonly order_id: string; readonly product: string }
}

/** Kysely itself, or a transaction on it. */
export type Handle = Kysely<Tables>

export function openKysely(url: string): Handle {
  const pool = new pg.Pool({ connectionString: url })
  // Kysely does not expose its connections. Without these listeners, a broken connection would end the process.
  pool.on('error', (error) => console.warn('An idle connection to PostgreSQL was lost.', error.message))
  pool.on('connect', (client) => client.on('error', () => {}))
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
}

export function openDatabase(db: Handle): Database<Handle> {
  return fromKysely(db)
}

/** A real service has its own migrations; `createSchema()` or `ackord migrate up` creates Ackord's tables. */
export async function createTables(db: Handle, database: Database<Handle>): Promise<void> {
  await createSchema(database)
  const table = (name: keyof Tables) => db.schema.createTable(name).ifNotExists()
  await table('orders')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('product', 'text', (column) => column.notNull())
    .addColumn('quantity', 'integer', (column) => column.notNull())
    .execute()
  await table('stock')
    .addColumn('product', 'text', (column) => column.primaryKey())
    .addColumn('available', 'integer', (column) => column.notNull())
    .execute()
  // Has no key on purpose: an event that is handled twice would show as two rows.
  await table('shipments')
    .addColumn('order_id', 'text', (column) => column.notNull())
    .addColumn('product', 'text', (column) => column.notNull())
    .execute()
}
