import { Message, silentLogger } from '@ackord/core'
import type { Overview } from '@ackord/dashboard'
import type { OutboxAdmin } from '@ackord/outbox'
import { fromIoredis, streamOutbox } from '@ackord/redis'
import { luaOutbox } from '@ackord/redis/lua-outbox'
import { createSchema, sqlOutbox } from '@ackord/sql'
import { fromMysql2 } from '@ackord/sql/mysql'
import { fromPg } from '@ackord/sql/postgres'
import { fromSqlite } from '@ackord/sql/sqlite'
import { DatabaseSync } from '@photostructure/sqlite'
import { Redis } from 'ioredis'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { openWorld } from '../../packages/dashboard/test/support/world.ts'
import { ownName } from '../../scripts/test-run.mjs'

const postgresUrl = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'
const mysqlUrl = process.env['MYSQL_URL'] ?? 'mysql://root@127.0.0.1:3306/test'
const redisUrl = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'

/** Five destinations, each with this many records: no store can count them without a part of a statement for each. */
const destinations = ['orders', 'mail', 'billing', 'search', 'stock'].sort()
const perDestination = 3

interface CountedStore extends AsyncDisposable {
  readonly outbox: OutboxAdmin
  /** How many statements, or scripts and commands, the server has received since the last call. */
  received(): Promise<number>
}

const records = destinations.flatMap((destination) =>
  Array.from({ length: perDestination }, (_, index) => ({
    destination,
    message: new Message({ index }, { id: `${destination}${index}`, type: 'order.placed' }),
  })),
)

const outboxOptions = { source: '/shop', logger: silentLogger }

/** Opens the dashboard, and returns what the server receives in each round of two seconds, and what is shown at the end. */
async function watchFor(store: CountedStore, { rounds, warmUp }: { readonly rounds: number; readonly warmUp: number }) {
  await using world = await openWorld({ stores: { shop: store.outbox } })
  let overview = (await world.client.get<Overview>('overview')).body
  // At first, stores read the version of their tables, and find out which destinations there are.
  for (let round = 0; round < warmUp; round += 1) {
    await world.runtime.advance(2000)
    await world.client.get<Overview>('overview')
  }
  await store.received()
  let most = 0
  let total = 0
  for (let round = 0; round < rounds; round += 1) {
    await world.runtime.advance(2000)
    overview = (await world.client.get<Overview>('overview')).body
    expect(overview.stores[0]?.error).toBeUndefined()
    const received = await store.received()
    most = Math.max(most, received)
    total += received
  }
  return { most, total, shown: overview.stores[0]?.destinations.map(({ destination, ready }) => [destination, ready]) }
}

const allShown = destinations.map((destination) => [destination, perDestination])

async function openSqlite(): Promise<CountedStore> {
  const client = new DatabaseSync(':memory:')
  let count = 0
  const counted = new Proxy(client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (name !== 'prepare') return typeof value === 'function' ? value.bind(target) : value
      return (sql: string) => {
        const statement = target.prepare(sql)
        const counting = (call: 'run' | 'all') => {
          const original = statement[call].bind(statement) as (...given: unknown[]) => unknown
          const replaced = (...given: unknown[]) => {
            count += 1
            return original(...given)
          }
          Object.defineProperty(statement, call, { value: replaced })
        }
        counting('run')
        counting('all')
        return statement
      }
    },
  })
  const database = fromSqlite(counted)
  await createSchema(database)
  const outbox = sqlOutbox(database, outboxOptions)
  await database.write(async (transaction) => await outbox.append(transaction, records))
  return {
    outbox,
    async received() {
      const found = count
      count = 0
      return found
    },
    async [Symbol.asyncDispose]() {
      client.close()
    },
  }
}

async function openMysql(): Promise<CountedStore> {
  const schema = `dashboard_${ownName()}`
  const admin = await mysql.createConnection(mysqlUrl)
  await admin.query(`CREATE DATABASE \`${schema}\``)
  // One connection, whose session counts what the server was sent.
  const pool = mysql.createPool({ uri: mysqlUrl, database: schema, connectionLimit: 1 })
  const database = fromMysql2(pool)
  await createSchema(database)
  const outbox = sqlOutbox(database, outboxOptions)
  await database.write(async (transaction) => await outbox.append(transaction, records))
  let before = 0
  return {
    outbox,
    async received() {
      const [rows] = await pool.query<mysql.RowDataPacket[]>("SHOW SESSION STATUS LIKE 'Questions'")
      const now = Number(rows[0]?.['Value'])
      // Without the statement that asks.
      const found = now - before - 1
      before = now
      return found
    },
    async [Symbol.asyncDispose]() {
      await pool.end()
      await admin.query(`DROP DATABASE \`${schema}\``)
      await admin.end()
    },
  }
}

interface PgConnection {
  on(event: 'commandComplete', listener: (complete: { readonly text: string }) => void): unknown
}

/** The log is read in transactions of its own: `received()` counts the statements in them, as the server reports each. */
async function openPostgresLog({ retain }: { readonly retain: boolean }): Promise<CountedStore> {
  const schema = `dashboard_log_${ownName()}`
  const tags: string[] = []
  const pool = new pg.Pool({ connectionString: postgresUrl, max: 2, options: `-c search_path=${schema} -c synchronous_commit=off` })
  pool.on('connect', (client) => {
    const { connection } = client as unknown as { readonly connection: PgConnection }
    connection.on('commandComplete', ({ text }) => void tags.push(text))
  })
  await pool.query(`create schema ${schema}`)
  const database = fromPg(pool, { schema, logger: silentLogger })
  await createSchema(database)
  const outbox = sqlOutbox(database, { ...outboxOptions, mode: 'log', retain })
  await database.write(async (transaction) => await outbox.append(transaction, records))
  return {
    outbox,
    async received() {
      return tags.splice(0).filter((tag) => !['BEGIN', 'SET', 'COMMIT'].includes(tag)).length
    },
    async [Symbol.asyncDispose]() {
      await pool.query(`drop schema ${schema} cascade`)
      await pool.end()
    },
  }
}

/** Everything that the server is sent about this outbox, by any client; commands of a script are not sent to it. */
async function countCommands(monitored: Redis, tag: string) {
  const monitor = await monitored.monitor()
  let count = 0
  let heard: (() => void) | undefined
  let marker = ''
  monitor.on('monitor', (_time: string, words: readonly string[], source: string) => {
    if (words[1] === marker && marker !== '') heard?.()
    else if (source !== 'lua' && words.some((word) => word.includes(`{${tag}`))) count += 1
  })
  return {
    /** The server reports commands in order: once it has reported the marker, it has reported all before. */
    async received() {
      marker = `marker ${Math.random()}`
      const seen = new Promise<void>((resolve) => {
        heard = resolve
      })
      await monitored.echo(marker)
      await seen
      const found = count
      count = 0
      return found
    },
    close: () => monitor.disconnect(),
  }
}

async function openRedis(kind: 'stream' | 'lua', parts = 1): Promise<CountedStore> {
  const client = new Redis(redisUrl)
  const asking = new Redis(redisUrl)
  const tag = `dash-${kind}-${ownName()}`
  const redis = fromIoredis(client, { logger: silentLogger })
  const tags = Array.from({ length: parts }, (_, index) => (index === 0 ? tag : `${tag}:${index}`))
  const outbox =
    kind === 'stream' ? streamOutbox(redis, { ...outboxOptions, tags }) : luaOutbox(redis, { ...outboxOptions, tag, shards: parts })
  await redis.write(async (transaction) => await outbox.append(transaction, records))
  const counted = await countCommands(asking, tag)
  return {
    outbox,
    received: counted.received,
    async [Symbol.asyncDispose]() {
      counted.close()
      const keys = await client.keys(`*{${tag}*`)
      if (keys.length > 0) await client.del(...keys)
      client.disconnect()
      asking.disconnect()
    },
  }
}

describe('an open dashboard costs a store at most one statement or script every two seconds', () => {
  it.each([
    ['SQLite', openSqlite],
    ['MariaDB', openMysql],
    ['PostgreSQL in log mode', () => openPostgresLog({ retain: false })],
    ['PostgreSQL in log mode, with published records', () => openPostgresLog({ retain: true })],
    ['a stream outbox', () => openRedis('stream')],
    ['a Lua outbox', () => openRedis('lua')],
  ])('%s', async (_, open) => {
    await using store = await open()
    const { most, total, shown } = await watchFor(store, { rounds: 15, warmUp: 4 })
    expect(shown).toEqual(allShown)
    expect([most, total]).toEqual([1, 15])
  })

  it.each([
    ['a stream outbox with four tags', () => openRedis('stream', 4)],
    ['a Lua outbox with four shards', () => openRedis('lua', 4)],
  ])('on average for %s: it is read less often', async (_, open) => {
    await using store = await open()
    const { most, total, shown } = await watchFor(store, { rounds: 25, warmUp: 0 })
    expect(shown).toEqual(allShown)
    expect(most).toBe(4)
    // The first call, before the count began, has four scripts.
    expect(total).toBeGreaterThanOrEqual(25 - 4)
    expect(total).toBeLessThanOrEqual(25)
  })
})
