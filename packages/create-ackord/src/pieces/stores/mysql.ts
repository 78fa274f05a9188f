import type { Client } from '../../choices/catalog.ts'
import type { PieceContext, StorePiece } from '../piece.ts'
import type { PackageName } from '../versions.ts'
import { sqlOrdersClass } from './orders-class.ts'

export function mysql({ choices }: PieceContext): StorePiece {
  const { files, dependencies } = variant(choices.client)
  return {
    title: 'MariaDB',
    dependencies: ['@ackord/sql', 'mysql2', ...dependencies],
    files,
    settings: [
      { constant: 'databaseUrl', variable: 'MYSQL_URL', value: 'mysql://root:root@127.0.0.1:3306/orders', meaning: 'The database.' },
    ],
    servers: {
      mariadb: `image: mariadb:11.8
environment:
  MARIADB_DATABASE: orders
  MARIADB_ROOT_PASSWORD: root
ports: ["127.0.0.1:3306:3306"]
healthcheck:
  test: healthcheck.sh --connect --innodb_initialized
  interval: 1s
  retries: 60`,
    },
    handle: 'database',
    imports: {
      '@ackord/sql/service': ['createService'],
      './adapters/database.ts': ['openDatabase'],
      './adapters/mysql-orders.ts': ['MysqlOrders'],
    },
    open: 'const { database, close: closeDatabase } = await openDatabase()',
    orders: 'new MysqlOrders(database)',
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
      return { files: mysql2, dependencies: [] }
  }
}

const orderColumns = `CREATE TABLE IF NOT EXISTS orders (
      id VARCHAR(36) PRIMARY KEY,
      total INT NOT NULL,
      paid BOOLEAN NOT NULL DEFAULT FALSE
    ) ENGINE = InnoDB`

const createOrders = `await pool.query(\`
    ${orderColumns}
  \`)`

const openComment = `/**
 * Connects to MariaDB or MySQL and creates missing tables. In production, create them when you deploy: \`npx ackord migrate up\` for those of
 * Ackord, your own tool for the rest.
 */`

const mysql2 = {
  'src/adapters/database.ts': `import { createSchema } from '@ackord/sql'
import { fromMysql2, type Mysql2Database } from '@ackord/sql/mysql'
import { createPool, type Pool } from 'mysql2/promise'
import { databaseUrl } from '../settings.ts'

export type Database = Mysql2Database<Pool>

${openComment}
export async function openDatabase() {
  const pool = createPool(databaseUrl)
  const database: Database = fromMysql2(pool)
  await createSchema(database) // the tables of the inbox and the outbox
  ${createOrders}
  return { database, close: () => pool.end() }
}
`,
  'src/adapters/mysql-orders.ts': sqlOrdersClass({
    name: 'MysqlOrders',
    comment: 'Orders in MariaDB or MySQL. `executor()` is the transaction of the current message, and the pool outside of one.',
    imports: `import type { ResultSetHeader } from 'mysql2/promise'
import type { Order, Orders } from '../domain/order.ts'
import type { Database } from './database.ts'
`,
    add: `
const statement = 'INSERT IGNORE INTO orders (id, total) VALUES (?, ?)'
const [{ affectedRows }] = await this.#database.executor().execute<ResultSetHeader>(statement, [id, total])
return affectedRows === 1`,
    markPaid: `
const statement = 'UPDATE orders SET paid = TRUE WHERE id = ?'
const [{ affectedRows }] = await this.#database.executor().execute<ResultSetHeader>(statement, [id])
return affectedRows === 1`,
  }),
}

const drizzle = {
  'src/adapters/tables.ts': `import { boolean, int, mysqlTable, varchar } from 'drizzle-orm/mysql-core'

export const orders = mysqlTable('orders', {
  id: varchar({ length: 36 }).primaryKey(),
  total: int().notNull(),
  paid: boolean().notNull().default(false),
})
`,
  'src/adapters/database.ts': `import { createSchema } from '@ackord/sql'
import { type DrizzleDatabase, fromDrizzle } from '@ackord/sql/mysql'
import { drizzle } from 'drizzle-orm/mysql2'
import { createPool, type Pool } from 'mysql2/promise'
import { databaseUrl } from '../settings.ts'

export type Database = DrizzleDatabase<ReturnType<typeof createDrizzle>>

const createDrizzle = (pool: Pool) => drizzle({ client: pool })

${openComment}
export async function openDatabase() {
  const pool = createPool(databaseUrl)
  const database: Database = fromDrizzle(createDrizzle(pool))
  await createSchema(database) // the tables of the inbox and the outbox
  ${createOrders}
  return { database, close: () => pool.end() }
}
`,
  'src/adapters/mysql-orders.ts': sqlOrdersClass({
    name: 'MysqlOrders',
    comment:
      'Orders in MariaDB or MySQL. `executor()` is Drizzle in the transaction of the current message, and Drizzle itself outside of one.',
    imports: `import { eq } from 'drizzle-orm'
import type { Order, Orders } from '../domain/order.ts'
import type { Database } from './database.ts'
import { orders } from './tables.ts'
`,
    add: `
const [{ affectedRows }] = await this.#database.executor().insert(orders).ignore().values({ id, total })
return affectedRows === 1`,
    markPaid: `
const update = this.#database.executor().update(orders).set({ paid: true })
const [{ affectedRows }] = await update.where(eq(orders.id, id))
return affectedRows === 1`,
  }),
}

const kysely = {
  'src/adapters/database.ts': `import { createSchema } from '@ackord/sql'
import { fromKysely, type KyselyDatabase } from '@ackord/sql/mysql'
import { type Generated, Kysely, MysqlDialect } from 'kysely'
import { createPool } from 'mysql2'
import { databaseUrl } from '../settings.ts'

interface Tables {
  readonly orders: { readonly id: string; readonly total: number; readonly paid: Generated<boolean> }
}

export type Database = KyselyDatabase<Kysely<Tables>>

${openComment}
export async function openDatabase() {
  const pool = createPool(databaseUrl)
  const kysely = new Kysely<Tables>({ dialect: new MysqlDialect({ pool }) })
  const database: Database = fromKysely(kysely)
  await createSchema(database) // the tables of the inbox and the outbox
  await pool.promise().query(\`
    ${orderColumns}
  \`)
  return { database, close: () => kysely.destroy() }
}
`,
  'src/adapters/mysql-orders.ts': sqlOrdersClass({
    name: 'MysqlOrders',
    comment:
      'Orders in MariaDB or MySQL. `executor()` is Kysely in the transaction of the current message, and Kysely itself outside of one.',
    imports: `import type { Order, Orders } from '../domain/order.ts'
import type { Database } from './database.ts'
`,
    add: `
const insert = this.#database.executor().insertInto('orders').ignore()
const { numInsertedOrUpdatedRows } = await insert.values({ id, total }).executeTakeFirstOrThrow()
return numInsertedOrUpdatedRows === 1n`,
    markPaid: `
const update = this.#database.executor().updateTable('orders').set({ paid: true })
const { numUpdatedRows } = await update.where('id', '=', id).executeTakeFirstOrThrow()
return numUpdatedRows === 1n`,
  }),
}
