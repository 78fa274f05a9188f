import { silentLogger } from '@ackord/core'
import { createSchema, type Database } from '@ackord/sql'
import { fromMysql2 } from '@ackord/sql/mysql'
import { fromPg } from '@ackord/sql/postgres'
import { fromSqlite } from '@ackord/sql/sqlite'
import type { CrashTestLife } from '@ackord/testkit'
import { createPool } from 'mysql2/promise'
import { mariadbUrl, openDoor, poolOptions } from '../../packages/sql/test/mysql/support/mysql-world.ts'
import { nodeKind, type TestHandle } from '../../packages/sql/test/sqlite/support/sqlite-world.ts'
import { openSchema, postgresUrl } from '../../packages/sql/test/support/own-schema.ts'
import { pg } from '../../packages/sql/test/support/pg.ts'

/** A minimal user service on a database for these tests. */
export interface Orders<Handle> {
  readonly database: Database<Handle>
  /** Adds a row per call: the table has no primary key. */
  insert(handle: Handle, id: string): Promise<unknown>
  /** The orders that are visible to the handle. */
  read(handle: Handle): Promise<string[]>
  /** A handle outside of every transaction, whatever the context. */
  readonly pool: Handle
  close(): Promise<unknown>
}

/** The database itself, which outlives the services. */
interface OrdersHome<Handle> extends AsyncDisposable {
  /** Opens the service's own connections, for a simulated process life if one is passed. */
  connect(life?: CrashTestLife): Promise<Orders<Handle>>
  /** The committed orders. */
  committed(): Promise<string[]>
}

export interface OrdersKind<Handle> {
  readonly name: string
  open(): Promise<OrdersHome<Handle>>
}

type Ids = readonly { readonly id?: unknown }[]

const idsOf = (rows: unknown) => (rows as Ids).map(({ id }) => String(id)).toSorted()

export const postgresOrders: OrdersKind<Pick<InstanceType<typeof pg.Pool>, 'query'>> = {
  name: 'PostgreSQL',
  async open() {
    const own = await openSchema()
    await own.query('ALTER TABLE orders DROP CONSTRAINT orders_pkey')
    return {
      committed: async () => idsOf(await own.query('SELECT id FROM orders')),
      async connect(life) {
        const connectionString = life === undefined ? postgresUrl : await life.through(postgresUrl)
        const pool = new pg.Pool({ connectionString, options: `-c search_path=${own.schema}` })
        const database = fromPg(pool, { logger: silentLogger })
        await createSchema(database)
        return {
          database,
          pool,
          insert: (handle, id) => handle.query('INSERT INTO orders (id) VALUES ($1)', [id]),
          read: async (handle) => idsOf((await handle.query('SELECT id FROM orders')).rows),
          close: () => pool.end(),
        }
      },
      [Symbol.asyncDispose]: () => own[Symbol.asyncDispose](),
    }
  },
}

export const mariadbOrders: OrdersKind<Pick<ReturnType<typeof createPool>, 'query' | 'execute'>> = {
  name: 'MariaDB',
  async open() {
    const door = await openDoor()
    await door.query('ALTER TABLE orders DROP PRIMARY KEY')
    return {
      committed: async () => idsOf(await door.query('SELECT id FROM orders')),
      async connect(life) {
        const url = new URL(life === undefined ? mariadbUrl : await life.through(mariadbUrl))
        const pool = createPool({ ...poolOptions(door.schema, 5), port: Number(url.port) })
        const database = fromMysql2(pool)
        await createSchema(database)
        return {
          database,
          pool,
          insert: (handle, id) => handle.query('INSERT INTO orders (id) VALUES (?)', [id]),
          read: async (handle) => idsOf((await handle.query('SELECT id FROM orders'))[0]),
          close: () => pool.end(),
        }
      },
      [Symbol.asyncDispose]: () => door.close(),
    }
  },
}

export const sqliteOrders: OrdersKind<TestHandle> = {
  name: 'SQLite',
  async open() {
    const world = await nodeKind.open()
    world.client.exec('DROP TABLE orders; CREATE TABLE orders (id TEXT NOT NULL) STRICT')
    world.close()
    return {
      committed: async () => idsOf(world.query('SELECT id FROM orders')),
      async connect(life) {
        const [client, other] = [nodeKind.connect(world.path), nodeKind.connect(world.path)]
        life?.onCrash(() => {
          // A connection with open statements closes only when those are garbage-collected, and its transaction stays open until then.
          if (client.isTransaction === true) client.exec('ROLLBACK')
          client.close()
        })
        return {
          database: fromSqlite(client, { logger: silentLogger }),
          pool: other,
          insert: async (handle, id) => handle.prepare('INSERT INTO orders (id) VALUES (?)').run(id),
          read: async (handle) => idsOf(handle.prepare('SELECT id FROM orders').all()),
          close: async () => {
            client.close()
            other.close()
          },
        }
      },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  },
}
