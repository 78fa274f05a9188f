import { createConnection } from 'mysql2/promise'
import { type MysqlWorld, poolOptions } from './mysql-world.ts'

/** Another transaction, which has written a lot: in a deadlock whoever has written less is rolled back. */
export interface Rival extends AsyncDisposable {
  query(sql: string): Promise<unknown>
}

/** It holds order a. */
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

/** Every insert into the table needs order a from now on. There are the orders a and b. */
export async function needOrder({ query }: MysqlWorld, table: 'ackord_inbox' | 'ackord_outbox'): Promise<void> {
  await query("INSERT INTO orders (id) VALUES ('a'), ('b')")
  await query(`CREATE TRIGGER needs_order AFTER INSERT ON ${table} FOR EACH ROW ${needing}`)
}

/** Resolves with the id of the world's connection that needs order a, once one does. */
export async function needsOrder({ schema, query }: MysqlWorld): Promise<number> {
  for (;;) {
    const [row] = await query('SELECT ID AS id FROM information_schema.PROCESSLIST WHERE DB = ? AND INFO = ?', [schema, needing])
    if (row !== undefined) return Number(row['id'])
  }
}
