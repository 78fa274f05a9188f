import { createConnection } from 'mysql2/promise'
import { poolOptions } from './mysql-world.ts'

/**
 * Makes the transaction in which `run` sends its statements lose a deadlock. Rejects with the deadlock error. The orders a and b must
 * exist.
 */
export async function loseDeadlock(schema: string, run: (sql: string) => Promise<unknown>): Promise<void> {
  await using other = await openRival(schema)
  await run("UPDATE orders SET note = 'ours' WHERE id = 'a'")
  await other.take('b')
  const waiting = other.take('a')
  // The server rolls back the transaction that has written fewer rows.
  const losing = run("UPDATE orders SET note = 'ours' WHERE id = 'b'")
  await losing.catch(() => {})
  await waiting
  await losing
}

/** A concurrent transaction that has written more rows, so that it wins a deadlock. */
async function openRival(schema: string) {
  const { connectionLimit: _, ...options } = poolOptions(schema, 1)
  const connection = await createConnection(options)
  await connection.query('START TRANSACTION')
  await connection.query("INSERT INTO orders (id) VALUES ('x1'), ('x2'), ('x3'), ('x4'), ('x5'), ('x6'), ('x7'), ('x8')")
  return {
    take: (id: string) => connection.query("UPDATE orders SET note = 'theirs' WHERE id = ?", [id]),
    async [Symbol.asyncDispose]() {
      await connection.query('ROLLBACK')
      await connection.end()
    },
  }
}
