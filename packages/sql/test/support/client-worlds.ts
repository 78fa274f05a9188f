import type { Database } from '../../src/index.ts'
import { mysqlKinds } from '../mysql/support/mysql-world.ts'
import { sqliteKinds } from '../sqlite/support/sqlite-world.ts'
import { openPg } from './world.ts'

/** A database on a plain client of its own kind, for what is the same on all of them. */
export interface ClientWorld<Handle> extends AsyncDisposable {
  readonly database: Database<Handle>
  insert(transaction: Handle, id: string): Promise<unknown>
  /** Does work in a transaction of the user's own, by the client's own means, and commits it. */
  begin(work: (transaction: Handle) => Promise<unknown>): Promise<unknown>
  /** Outside of every transaction. */
  query(sql: string): unknown
  orders(): Promise<number>
  /** Of orders, of the inbox and of the outbox. */
  counts(): Promise<readonly number[]>
}

/** Calls `test` for each kind of client. */
export function onEachClient(test: <Handle>(name: string, open: () => Promise<ClientWorld<Handle>>) => void): void {
  test('pg', async () => {
    const world = await openPg()
    return {
      database: world.database,
      insert: (transaction, id) => transaction.query('INSERT INTO orders (id) VALUES ($1)', [id]),
      async begin(work) {
        const client = await world.client()
        await client.query('BEGIN')
        await work(client as never)
        await client.query('COMMIT')
        client.release()
      },
      query: (sql) => world.query(sql),
      orders: () => world.orders(),
      counts: () => Promise.all([world.orders(), world.inbox(), world.outbox()]),
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  })

  for (const kind of mysqlKinds) {
    test(kind.name, async () => {
      const world = await kind.open()
      return {
        database: world.database,
        insert: (transaction, id) => transaction.query('INSERT INTO orders (id) VALUES (?)', [id]),
        async begin(work) {
          const client = await world.connect()
          await client.query('START TRANSACTION')
          await work(client)
          await client.query('COMMIT')
          await client.release()
        },
        query: (sql) => world.query(sql),
        orders: () => world.orders(),
        counts: () => Promise.all([world.orders(), world.inbox(), world.outbox()]),
        [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
      }
    })
  }

  for (const kind of sqliteKinds) {
    test(kind.name, async () => {
      const world = await kind.open()
      return {
        database: world.database,
        insert: async (transaction, id) => transaction.prepare('INSERT INTO orders (id) VALUES (?)').run(id),
        async begin(work) {
          const client = world.connect()
          client.exec('BEGIN IMMEDIATE')
          await work(client)
          client.exec('COMMIT')
        },
        query: (sql) => world.client.exec(sql),
        orders: async () => world.count('orders'),
        counts: async () => ['orders', 'ackord_inbox', 'ackord_outbox'].map((table) => world.count(table)),
        [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
      }
    })
  }
}
