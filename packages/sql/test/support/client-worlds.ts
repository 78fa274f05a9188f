import type { Database } from '../../src/index.ts'
import { type MysqlHandle, mysqlKinds } from '../mysql/support/mysql-world.ts'
import { sqliteKinds } from '../sqlite/support/sqlite-world.ts'
import { refuseAppends } from './own-schema.ts'
import { openPg, type TestHandle } from './world.ts'

/** A database on one kind of client, without an ORM, for tests that are the same on all databases. */
export interface ClientWorld<Handle> extends AsyncDisposable {
  readonly database: Database<Handle>
  insert(transaction: Handle, id: string): Promise<unknown>
  /** Runs a statement without parameters, as a handler would. */
  run(transaction: Handle, sql: string): Promise<unknown>
  /** Runs `work` in a transaction of the user, with the API of the client, and commits it. */
  begin(work: (transaction: Handle) => Promise<unknown>): Promise<unknown>
  /** Opens a client of the user that is not in a transaction. */
  connect(): Promise<Handle & AsyncDisposable>
  /** Runs a statement outside any transaction. */
  query(sql: string): unknown
  /** Resolves to the values in the first column of a query. */
  column(sql: string): Promise<readonly unknown[]>
  /** Inserts an order on the pool itself, outside any transaction. */
  insertOutside(id: string): Promise<unknown>
  /** The ids of all committed orders, in alphabetical order. */
  ids(): Promise<unknown[]>
  orders(): Promise<number>
  /** The row counts of the orders, the inbox and the outbox. */
  counts(): Promise<readonly number[]>
  /** Revokes the INSERT privilege of the pool's user on the outbox. Requires one connection and `restricted`. Missing if the database has no privileges. */
  refuseAppends?(): Promise<unknown>
}

interface ClientWorldOptions {
  /** The maximum number of connections in the pool. Default: enough for any test. */
  readonly max?: number
  /** Whether `refuseAppends()` will be called. Default: false. */
  readonly restricted?: boolean
}

export type OpenClientWorld<Handle> = (options?: ClientWorldOptions) => Promise<ClientWorld<Handle>>

const insertOrder = 'INSERT INTO orders (id) VALUES'
const selectIds = 'SELECT id FROM orders ORDER BY id'

/** Calls `test` for each kind of client. */
export function onEachClient(
  test: <Handle>(name: string, open: OpenClientWorld<Handle>, features: { readonly privileges: boolean }) => void,
): void {
  const privileges = true
  test<TestHandle>(
    'pg',
    async (options) => {
      const world = await openPg(options)
      return {
        database: world.database,
        insert: (transaction, id) => transaction.query(`${insertOrder} ($1)`, [id]),
        insertOutside: (id) => world.pool.query(`${insertOrder} ($1)`, [id]),
        ids: async () => (await world.query(selectIds)).map(({ id }) => id),
        async begin(work) {
          const client = await world.client()
          await client.query('BEGIN')
          await work(client as never)
          await client.query('COMMIT')
          client.release()
        },
        run: (transaction, sql) => transaction.query(sql),
        async connect() {
          const client = await world.client()
          return Object.assign(client, { [Symbol.asyncDispose]: async () => client.release() }) as never
        },
        query: (sql) => world.query(sql),
        column: async (sql) => (await world.query(sql)).map((row) => Object.values(row)[0]),
        orders: () => world.orders(),
        counts: () => Promise.all([world.orders(), world.inbox(), world.outbox()]),
        refuseAppends: () => refuseAppends(world, (statement) => world.pool.query(statement)),
        [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
      }
    },
    { privileges },
  )

  for (const kind of mysqlKinds) {
    test<MysqlHandle>(
      kind.name,
      async (options) => {
        const world = await kind.open(options)
        return {
          database: world.database,
          insert: (transaction, id) => transaction.query(`${insertOrder} (?)`, [id]),
          insertOutside: (id) => world.run(`${insertOrder} (?)`, [id]),
          ids: async () => (await world.query(selectIds)).map(({ id }) => id),
          async begin(work) {
            const client = await world.connect()
            await client.query('START TRANSACTION')
            await work(client)
            await client.query('COMMIT')
            await client.release()
          },
          run: (transaction, sql) => transaction.query(sql),
          async connect() {
            const client = await world.connect()
            return Object.assign(client, { [Symbol.asyncDispose]: async () => void (await client.release()) }) as never
          },
          query: (sql) => world.query(sql),
          column: async (sql) => (await world.query(sql)).map((row) => Object.values(row)[0]),
          orders: () => world.orders(),
          counts: () => Promise.all([world.orders(), world.inbox(), world.outbox()]),
          refuseAppends: () => world.refuseAppends(),
          [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
        }
      },
      { privileges },
    )
  }

  for (const kind of sqliteKinds) {
    test(
      kind.name,
      async () => {
        const world = await kind.open()
        return {
          database: world.database,
          insert: async (transaction, id) => transaction.prepare(`${insertOrder} (?)`).run(id),
          insertOutside: async (id) => world.client.prepare(`${insertOrder} (?)`).run(id),
          ids: async () => world.query(selectIds).map(({ id }) => id),
          async begin(work) {
            const client = world.connect()
            client.exec('BEGIN IMMEDIATE')
            await work(client)
            client.exec('COMMIT')
          },
          run: async (transaction, sql) => transaction.exec(sql),
          connect: async () => Object.assign(world.connect(), { [Symbol.asyncDispose]: async () => {} }) as never,
          query: (sql) => world.client.exec(sql),
          column: async (sql) => world.query(sql).map((row) => Object.values(row)[0]),
          orders: async () => world.count('orders'),
          counts: async () => ['orders', 'ackord_inbox', 'ackord_outbox'].map((table) => world.count(table)),
          [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
        }
      },
      { privileges: false },
    )
  }
}
