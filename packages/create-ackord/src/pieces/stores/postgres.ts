import type { Client } from '../../choices/catalog.ts'
import type { PieceContext, StorePiece } from '../piece.ts'
import type { PackageName } from '../versions.ts'
import { sqlOrdersClass } from './orders-class.ts'

export function postgres({ choices }: PieceContext): StorePiece {
  const { files, dependencies } = variant(choices.client)
  return {
    title: 'PostgreSQL',
    dependencies: ['@ackord/sql', 'pg', ...dependencies],
    devDependencies: ['@types/pg'],
    files,
    settings: [
      {
        constant: 'databaseUrl',
        variable: 'POSTGRES_URL',
        value: 'postgres://postgres:postgres@127.0.0.1:5432/postgres',
        meaning: 'The database.',
      },
    ],
    servers: {
      postgres: `image: postgres:17
environment:
  POSTGRES_PASSWORD: postgres
ports: ["127.0.0.1:5432:5432"]
healthcheck:
  test: pg_isready --username postgres --host 127.0.0.1
  interval: 1s
  retries: 60`,
    },
    handle: 'database',
    imports: {
      '@ackord/sql/service': ['createService'],
      './adapters/database.ts': ['openDatabase'],
      './adapters/postgres-orders.ts': ['PostgresOrders'],
    },
    open: 'const { database, close: closeDatabase } = await openDatabase()',
    orders: 'new PostgresOrders(database)',
    close: 'await closeDatabase()',
    options: [],
  }
}

function variant(client: Client): { files: Record<string, string>; dependencies: readonly PackageName[] } {
  switch (client) {
    case 'drizzle':
      return { files: drizzle, dependencies: ['drizzle-orm'] }
    case 'kysely':
      return { files: kysely, dependencies: ['kysely'] }
    default:
      return { files: pg, dependencies: [] }
  }
}

const createOrders = `await pool.query(\`
    CREATE TABLE IF NOT EXISTS orders (
      id text PRIMARY KEY,
      total integer NOT NULL,
      paid boolean NOT NULL DEFAULT false
    )
  \`)`

const openComment = `/**
 * Connects to PostgreSQL and creates missing tables. In production, create them when you deploy: \`npx ackord migrate up\` for those of Ackord,
 * your own tool for the rest.
 */`

const lostConnection = "pool.on('error', (error) => console.warn('An idle connection to PostgreSQL was lost:', error.message))"

const pg = {
  'src/adapters/database.ts': `import { createSchema } from '@ackord/sql'
import { fromPg, type PgDatabase } from '@ackord/sql/postgres'
import pg from 'pg'
import { databaseUrl } from '../settings.ts'

export type Database = PgDatabase<pg.Pool>

${openComment}
export async function openDatabase() {
  const pool = new pg.Pool({ connectionString: databaseUrl })
  const database: Database = fromPg(pool)
  await createSchema(database) // the tables of the inbox and the outbox
  ${createOrders}
  return { database, close: () => pool.end() }
}
`,
  'src/adapters/postgres-orders.ts': sqlOrdersClass({
    name: 'PostgresOrders',
    comment: 'Orders in PostgreSQL. `executor()` is the transaction of the current message, and the pool outside of one.',
    imports: `import type { Order, Orders } from '../domain/order.ts'
import type { Database } from './database.ts'
`,
    add: `
const statement = 'INSERT INTO orders (id, total) VALUES ($1, $2) ON CONFLICT DO NOTHING'
const { rowCount } = await this.#database.executor().query(statement, [id, total])
return rowCount === 1`,
    markPaid: `
const { rowCount } = await this.#database.executor().query('UPDATE orders SET paid = true WHERE id = $1', [id])
return rowCount === 1`,
  }),
}

const drizzle = {
  'src/adapters/tables.ts': `import { boolean, integer, pgTable, text } from 'drizzle-orm/pg-core'

export const orders = pgTable('orders', {
  id: text().primaryKey(),
  total: integer().notNull(),
  paid: boolean().notNull().default(false),
})
`,
  'src/adapters/database.ts': `import { createSchema } from '@ackord/sql'
import { type DrizzleDatabase, fromDrizzle } from '@ackord/sql/postgres'
import { drizzle } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import { databaseUrl } from '../settings.ts'

export type Database = DrizzleDatabase<ReturnType<typeof createDrizzle>>

const createDrizzle = (pool: pg.Pool) => drizzle(pool)

${openComment}
export async function openDatabase() {
  const pool = new pg.Pool({ connectionString: databaseUrl })
  ${lostConnection}
  const database: Database = fromDrizzle(createDrizzle(pool))
  await createSchema(database) // the tables of the inbox and the outbox
  ${createOrders}
  return { database, close: () => pool.end() }
}
`,
  'src/adapters/postgres-orders.ts': sqlOrdersClass({
    name: 'PostgresOrders',
    comment: 'Orders in PostgreSQL. `executor()` is Drizzle in the transaction of the current message, and Drizzle itself outside of one.',
    imports: `import { eq } from 'drizzle-orm'
import type { Order, Orders } from '../domain/order.ts'
import type { Database } from './database.ts'
import { orders } from './tables.ts'
`,
    add: `
const added = await this.#database.executor().insert(orders).values({ id, total }).onConflictDoNothing().returning()
return added.length === 1`,
    markPaid: `
const paid = await this.#database.executor().update(orders).set({ paid: true }).where(eq(orders.id, id)).returning()
return paid.length === 1`,
  }),
}

const kysely = {
  'src/adapters/database.ts': `import { createSchema } from '@ackord/sql'
import { fromKysely, type KyselyDatabase } from '@ackord/sql/postgres'
import { type Generated, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { databaseUrl } from '../settings.ts'

interface Tables {
  readonly orders: { readonly id: string; readonly total: number; readonly paid: Generated<boolean> }
}

export type Database = KyselyDatabase<Kysely<Tables>>

${openComment}
export async function openDatabase() {
  const pool = new pg.Pool({ connectionString: databaseUrl })
  ${lostConnection}
  const kysely = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
  const database: Database = fromKysely(kysely)
  await createSchema(database) // the tables of the inbox and the outbox
  ${createOrders}
  return { database, close: () => kysely.destroy() }
}
`,
  'src/adapters/postgres-orders.ts': sqlOrdersClass({
    name: 'PostgresOrders',
    comment: 'Orders in PostgreSQL. `executor()` is Kysely in the transaction of the current message, and Kysely itself outside of one.',
    imports: `import type { Order, Orders } from '../domain/order.ts'
import type { Database } from './database.ts'
`,
    add: `
const { numInsertedOrUpdatedRows } = await this.#database
  .executor()
  .insertInto('orders')
  .values({ id, total })
  .onConflict((conflict) => conflict.doNothing())
  .executeTakeFirstOrThrow()
return numInsertedOrUpdatedRows === 1n`,
    markPaid: `
const update = this.#database.executor().updateTable('orders').set({ paid: true })
const { numUpdatedRows } = await update.where('id', '=', id).executeTakeFirstOrThrow()
return numUpdatedRows === 1n`,
  }),
}
