import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Middleware } from '@ackord/core'
import type { IdempotencyStore, OutboxAdmin, OutboxStore } from '@ackord/outbox'
import { DatabaseSync } from '@photostructure/sqlite'
import { Redis as Ioredis } from 'ioredis'
import { createPool } from 'mysql2/promise'
import { openDoor, poolOptions } from '../../packages/sql/test/mysql/support/mysql-world.ts'
import { openSchema } from '../../packages/sql/test/support/own-schema.ts'
import { ownName } from '../../scripts/test-run.mjs'
import type { Release } from './release.ts'

const destination = 'order-events'

/** The access of one release to the store that all releases share, with its own connections. */
interface ReleaseStore extends AsyncDisposable {
  readonly middleware: Middleware
  readonly outbox: OutboxStore & OutboxAdmin
  /** Missing without tables, and in the previous release, which has no such store. */
  readonly requests?: IdempotencyStore<unknown> | undefined
  /** Counts one more application of an order, in the transaction of the message. */
  apply(order: string): Promise<void>
}

export interface SharedStore extends AsyncDisposable {
  /** Creates or upgrades the tables, as this release does. No effect for stores without tables. */
  migrate(release: Release): Promise<void>
  connect(release: Release): Promise<ReleaseStore>
  /** How often each order was applied. */
  applied(): Promise<ReadonlyMap<string, number>>
}

export interface StoreKind {
  readonly name: string
  /** Whether it has tables, whose version may be that of either release. */
  readonly hasTables: boolean
  readonly order: 'none' | 'perKey'
  open(): Promise<SharedStore>
}

const consumer = 'orders'
const sqlOptions = (order: StoreKind['order']) => ({ inbox: { consumer }, outbox: { destination, order } })

function postgres(order: StoreKind['order']): StoreKind {
  return {
    name: `PostgreSQL, order ${order}`,
    hasTables: true,
    order,
    async open() {
      const schema = await openSchema()
      await schema.query('CREATE TABLE applied (order_id text NOT NULL)')
      return {
        async migrate({ createSchema, fromPg }) {
          const pool = schema.createPool({ max: 1 })
          await createSchema(fromPg(pool))
          await pool.end()
        },
        async connect({ fromPg, sqlIdempotency, sqlOutbox, transactional, silentLogger }) {
          const pool = schema.createPool({ max: 6 })
          const database = fromPg(pool)
          return {
            middleware: transactional(database, sqlOptions(order)),
            outbox: sqlOutbox(database, { order, logger: silentLogger }),
            requests: sqlIdempotency?.(database),
            async apply(id) {
              await database.executor().query('INSERT INTO applied (order_id) VALUES ($1)', [id])
            },
            [Symbol.asyncDispose]: () => pool.end(),
          }
        },
        applied: async () => counts((await schema.query('SELECT order_id FROM applied')).map((row) => String(row['order_id']))),
        [Symbol.asyncDispose]: () => schema[Symbol.asyncDispose](),
      }
    },
  }
}

function mariadb(order: StoreKind['order']): StoreKind {
  return {
    name: `MariaDB, order ${order}`,
    hasTables: true,
    order,
    async open() {
      const door = await openDoor()
      await door.query('CREATE TABLE applied (order_id VARCHAR(40) NOT NULL)')
      return {
        async migrate({ createSchema, fromMysql2 }) {
          const pool = createPool(poolOptions(door.schema, 1))
          await createSchema(fromMysql2(pool))
          await pool.end()
        },
        async connect({ fromMysql2, sqlIdempotency, sqlOutbox, transactional, silentLogger }) {
          const pool = createPool(poolOptions(door.schema, 6))
          const database = fromMysql2(pool)
          return {
            middleware: transactional(database, sqlOptions(order)),
            outbox: sqlOutbox(database, { order, logger: silentLogger }),
            requests: sqlIdempotency?.(database),
            async apply(id) {
              await database.executor().query('INSERT INTO applied (order_id) VALUES (?)', [id])
            },
            [Symbol.asyncDispose]: () => pool.end(),
          }
        },
        applied: async () => counts((await door.query('SELECT order_id FROM applied')).map((row) => String(row['order_id']))),
        [Symbol.asyncDispose]: () => door.close(),
      }
    },
  }
}

function sqlite(order: StoreKind['order']): StoreKind {
  return {
    name: `SQLite, order ${order}`,
    hasTables: true,
    order,
    async open() {
      const folder = mkdtempSync(join(tmpdir(), 'ackord-upgrade-'))
      const file = join(folder, 'orders.db')
      const door = new DatabaseSync(file)
      door.exec('PRAGMA journal_mode = WAL; CREATE TABLE applied (order_id TEXT NOT NULL)')
      return {
        async migrate({ createSchema, fromSqlite }) {
          const client = new DatabaseSync(file)
          await createSchema(fromSqlite(client))
          client.close()
        },
        async connect({ fromSqlite, sqlIdempotency, sqlOutbox, transactional, silentLogger }) {
          const client = new DatabaseSync(file)
          const database = fromSqlite(client)
          return {
            middleware: transactional(database, sqlOptions(order)),
            outbox: sqlOutbox(database, { order, logger: silentLogger }),
            requests: sqlIdempotency?.(database),
            async apply(id) {
              database.executor().prepare('INSERT INTO applied (order_id) VALUES (?)').run(id)
            },
            [Symbol.asyncDispose]: async () => client.close(),
          }
        },
        applied: async () =>
          counts(
            door
              .prepare('SELECT order_id FROM applied')
              .all()
              .map((row) => String((row as { order_id: unknown }).order_id)),
          ),
        async [Symbol.asyncDispose]() {
          door.close()
          rmSync(folder, { recursive: true, force: true })
        },
      }
    },
  }
}

function redis(kind: 'stream' | 'lua'): StoreKind {
  return {
    name: `Redis, ${kind} outbox`,
    hasTables: false,
    order: 'none',
    async open() {
      const url = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
      const door = new Ioredis(url)
      const tag = `upgrade-${ownName()}`
      const appliedKey = `{${tag}}:applied`
      return {
        async migrate() {},
        async connect({ fromIoredis, streamOutbox, luaOutbox, redisTransactional, silentLogger }) {
          const client = new Ioredis(url)
          const connected = fromIoredis(client, { logger: silentLogger })
          const outbox =
            kind === 'stream'
              ? streamOutbox(connected, { tags: [tag], logger: silentLogger })
              : luaOutbox(connected, { tag, logger: silentLogger })
          return {
            middleware: redisTransactional(connected, { inbox: { consumer, tag: () => tag }, outbox: { destination, outbox } }),
            outbox,
            apply: (id) => connected.commands().hincrby(appliedKey, id, 1),
            [Symbol.asyncDispose]: async () => client.disconnect(),
          }
        },
        applied: async () => new Map(Object.entries(await door.hgetall(appliedKey)).map(([id, count]) => [id, Number(count)])),
        async [Symbol.asyncDispose]() {
          const keys = await door.keys(`*{${tag}}*`)
          if (keys.length > 0) await door.del(...keys)
          door.disconnect()
        },
      }
    },
  }
}

function counts(ids: readonly string[]): ReadonlyMap<string, number> {
  const found = new Map<string, number>()
  for (const id of ids) found.set(id, (found.get(id) ?? 0) + 1)
  return found
}

export const storeKinds: readonly StoreKind[] = [
  postgres('none'),
  postgres('perKey'),
  mariadb('none'),
  mariadb('perKey'),
  sqlite('none'),
  sqlite('perKey'),
  redis('stream'),
  redis('lua'),
]
