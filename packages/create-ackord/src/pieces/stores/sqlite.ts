import type { StorePiece } from '../piece.ts'
import { sqlOrdersClass } from './orders-class.ts'

export function sqlite(): StorePiece {
  return {
    title: 'SQLite',
    dependencies: ['@ackord/sql', '@photostructure/sqlite'],
    files,
    settings: [{ constant: 'databaseFile', variable: 'SQLITE_FILE', value: 'orders.db', meaning: 'The file of the database.' }],
    ignored: ['*.db', '*.db-shm', '*.db-wal'],
    handle: 'database',
    imports: {
      '@ackord/sql/service': ['createService'],
      './adapters/database.ts': ['openDatabase'],
      './adapters/sqlite-orders.ts': ['SqliteOrders'],
    },
    open: 'const { database, close: closeDatabase } = await openDatabase()',
    orders: 'new SqliteOrders(database)',
    close: 'closeDatabase()',
    options: [],
  }
}

const files = {
  'src/adapters/database.ts': `import { createSchema } from '@ackord/sql'
import { fromSqlite, type SqliteDatabase } from '@ackord/sql/sqlite'
import { DatabaseSync } from '@photostructure/sqlite' // the API of node:sqlite, which works too from Node 22.16 on
import { databaseFile } from '../settings.ts'

export type Database = SqliteDatabase<InstanceType<typeof DatabaseSync>>

/** Opens the file and creates missing tables. The reader is for reads outside of a transaction, which wait for no writer. */
export async function openDatabase() {
  const [client, reader] = [new DatabaseSync(databaseFile), new DatabaseSync(databaseFile)]
  const database: Database = fromSqlite(client, { reader })
  await createSchema(database) // the tables of the inbox and the outbox
  client.exec(\`
    CREATE TABLE IF NOT EXISTS orders (
      id TEXT PRIMARY KEY,
      total INTEGER NOT NULL,
      paid INTEGER NOT NULL DEFAULT 0
    ) STRICT
  \`)
  const close = () => {
    reader.close()
    client.close()
  }
  return { database, close }
}
`,
  'src/adapters/sqlite-orders.ts': sqlOrdersClass({
    name: 'SqliteOrders',
    comment: 'Orders in SQLite. `executor()` is the transaction of the current message. Its statements are synchronous, as SQLite is.',
    imports: `import type { Order, Orders } from '../domain/order.ts'
import type { Database } from './database.ts'
`,
    add: `
const statement = 'INSERT INTO orders (id, total) VALUES (?, ?) ON CONFLICT DO NOTHING'
return this.#database.executor().prepare(statement).run(id, total).changes === 1`,
    markPaid: `
const statement = 'UPDATE orders SET paid = 1 WHERE id = ?'
return this.#database.executor().prepare(statement).run(id).changes === 1`,
  }),
}
