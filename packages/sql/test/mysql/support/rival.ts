import { createConnection } from 'mysql2/promise'
import { type MysqlWorld, poolOptions } from './mysql-world.ts'

/** A concurrent transaction that has written many rows: in a deadlock the server rolls back the transaction with fewer written rows. */
export interface Rival extends AsyncDisposable {
  query(sql: string): Promise<unknown>
}

/** Opens a rival that holds the lock on order a. */
export async function openRival({ schema }: MysqlWorld): Promise<Rival> {
  const { connectionLimit: _, ...options } = poolOptions(schema, 1)
  const connection = await createConnection(options)
  await connection.query('START TRANSACTION')
  await connection.query("INSERT INTO orders (id) VALUES ('x1'), ('x2'), ('x3'), ('x4'), ('x5'), ('x6'), ('x7'), ('x8')")
  await connection.query("UPDATE orders SET note = 'theirs' WHERE id = 'a'")
  return {
    query: (sql) => connection.query(sql),
    async [Symbol.asyncDispose]() {
      await connection.query('ROLLBACK')
      await connection.end()
    },
  }
}

const needing = "UPDATE orders SET note = 'ours' WHERE id = 'a'"

/** Creates the orders a and b, and a trigger that makes every insert into the table lock order a. */
export async function needOrder({ query }: MysqlWorld, table: 'ackord_inbox' | 'ackord_outbox'): Promise<void> {
  await query("INSERT INTO orders (id) VALUES ('a'), ('b')")
  await query(`CREATE TRIGGER needs_order AFTER INSERT ON ${table} FOR EACH ROW ${needing}`)
}

/** Resolves to the id of the connection that waits for order a, as soon as there is one. */
export async function needsOrder({ schema, query }: MysqlWorld): Promise<number> {
  for (;;) {
    const [row] = await query('SELECT ID AS id FROM information_schema.PROCESSLIST WHERE DB = ? AND INFO = ?', [schema, needing])
    if (row !== undefined) return Number(row['id'])
  }
}
