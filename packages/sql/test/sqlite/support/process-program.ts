import { silentLogger } from '@ackord/core'
import { DatabaseSync } from '@photostructure/sqlite'
import { createSchema, sqlOutbox } from '../../../src/index.ts'
import { fromSqlite } from '../../../src/sqlite/index.ts'

/** A separate process that uses the same file. It runs the requested tasks one after another, and reports the result of each. */
const path = process.argv[2] ?? ''
const client = new DatabaseSync(path)
const database = fromSqlite(client, { logger: silentLogger })
const outbox = sqlOutbox(database, { logger: silentLogger })

const tasks: Readonly<Record<string, (argument: number) => unknown>> = {
  /** Locks the file without the library, as any other program could. */
  lock: () => client.exec('BEGIN IMMEDIATE'),
  unlock: () => client.exec('ROLLBACK'),
  createSchema: () => createSchema(database),
  /** Begins a transaction, writes, and is killed before the commit. */
  die: () =>
    database.write(async (transaction) => {
      transaction.exec("INSERT INTO orders (id) VALUES ('of the dead')")
      process.kill(process.pid, 'SIGKILL')
      await new Promise(() => {})
    }),
  async write(count) {
    for (let n = 0; n < count; n += 1) {
      await database.write(async (transaction) => transaction.exec('UPDATE counters SET n = n + 1'))
    }
  },
  /** Claims and settles until there are no more records. */
  async relay(limit) {
    const ids: string[] = []
    for (;;) {
      const claimed = await outbox.claim({ limit, lease: 60_000 })
      if (claimed.length === 0) return ids
      ids.push(...claimed.map(({ message }) => String(message.id)))
      await outbox.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))
    }
  },
}

process.on('message', async ({ task, argument }: { task: string; argument: number }) => {
  try {
    process.send?.({ result: await tasks[task]?.(argument) })
  } catch (error) {
    process.send?.({ error: String(error) })
  }
})
process.on('disconnect', () => process.exit())
