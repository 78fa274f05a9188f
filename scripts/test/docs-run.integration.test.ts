import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { DatabaseSync } from '@photostructure/sqlite'
import { connect } from 'amqplib'
import { createConnection } from 'mysql2/promise'
import pg from 'pg'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { silentLogger } from '../../packages/core/src/index.ts'
import { createSchema } from '../../packages/sql/src/index.ts'
import { fromPg } from '../../packages/sql/src/postgres/index.ts'
import { blocksIn } from './docs-blocks.ts'
import { compilePrograms, type Programs, removePrograms } from './docs-programs.ts'

const postgresUrl = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'
const mariadbUrl = process.env['MARIADB_URL'] ?? 'mysql://root@127.0.0.1:3306/test'
const redisUrl = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
const rabbitmqUrl = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'

const pages = ['docs/start/postgresql.md', 'docs/start/mysql.md', 'docs/start/sqlite.md', 'docs/start/redis.md'] as const
let programs: ReadonlyMap<string, Programs>

function programsOf(document: (typeof pages)[number]): Programs {
  const found = programs.get(document)
  if (found === undefined) throw new Error(`${document} has no programs.`)
  return found
}

function inDatabase(url: string, name: string): string {
  const other = new URL(url)
  other.pathname = `/${name}`
  return other.href
}

const sent = /^Sent twice: order\.place \{"id":"(o-[0-9a-f]{8})","total":42\}, message m-\w+\nReceived: order\.placed \{"orderId":"\1"\}\n$/

/** Starts the service of a page, sends a command twice, stops it; resolves to the id of the order, of which there must be one event. */
async function runPage({ start, run }: Programs, environment: NodeJS.ProcessEnv): Promise<string> {
  const service = await start('service.ts', environment, 'The service runs.')
  try {
    const printed = await run('send.ts', environment)
    expect(printed).toMatch(sent)
    return sent.exec(printed)?.[1] ?? ''
  } finally {
    await service.stop()
  }
}

/** Deletes the queues of a page; resolves to the number of messages that were left in them. */
async function deleteQueues(word: string): Promise<number> {
  const connection = await connect(rabbitmqUrl)
  const channel = await connection.createChannel()
  let left = 0
  for (const name of ['orders', 'orders.dead', 'order-events']) left += (await channel.deleteQueue(`${word}.${name}`)).messageCount
  await connection.close()
  return left
}

async function withPostgres<T>(name: string, work: (pool: pg.Pool) => Promise<T>): Promise<T> {
  const server = new pg.Client(postgresUrl)
  await server.connect()
  await server.query(`CREATE DATABASE ${name}`)
  const pool = new pg.Pool({ connectionString: inDatabase(postgresUrl, name) })
  // Connections may still be closing when the database is dropped.
  pool.on('error', () => {})
  try {
    return await work(pool)
  } finally {
    await pool.end()
    await server.query(`DROP DATABASE ${name} WITH (FORCE)`)
    await server.end()
  }
}

describe('the programs of the pages to start with', () => {
  beforeAll(() => {
    programs = compilePrograms(pages)
  }, 240_000)
  afterAll(removePrograms)

  it('handle a message once that is sent twice, on PostgreSQL', async () => {
    const page = programsOf('docs/start/postgresql.md')
    const { word } = page
    await withPostgres(word, async (pool) => {
      const environment = { POSTGRES_URL: inDatabase(postgresUrl, word), RABBITMQ_URL: rabbitmqUrl }
      const id = await runPage(page, environment)
      expect((await pool.query('SELECT id, total FROM orders')).rows).toEqual([{ id, total: 42 }])
      expect((await pool.query('SELECT count(*)::int AS n FROM ackord_outbox')).rows).toEqual([{ n: 0 }])
    })
    expect(await deleteQueues(word)).toBe(0)
  })

  it('do so on MariaDB', async () => {
    const page = programsOf('docs/start/mysql.md')
    const { word } = page
    const server = await createConnection(mariadbUrl)
    await server.query(`CREATE DATABASE ${word}`)
    try {
      const environment = { MARIADB_URL: inDatabase(mariadbUrl, word), RABBITMQ_URL: rabbitmqUrl }
      const id = await runPage(page, environment)
      const [rows] = await server.query(`SELECT id, total FROM ${word}.orders`)
      expect(rows).toEqual([{ id, total: 42 }])
    } finally {
      await server.query(`DROP DATABASE ${word}`)
      await server.end()
    }
    expect(await deleteQueues(word)).toBe(0)
  })

  it('do so on SQLite', async () => {
    const page = programsOf('docs/start/sqlite.md')
    const { word } = page
    const folder = mkdtempSync(`${tmpdir()}/ackord-docs-`)
    const environment = { SQLITE_FILE: `${folder}/orders.db`, RABBITMQ_URL: rabbitmqUrl }
    const id = await runPage(page, environment)
    const file = new DatabaseSync(environment.SQLITE_FILE)
    expect(file.prepare('SELECT id, total FROM orders').all()).toEqual([{ id, total: 42 }])
    file.close()
    rmSync(folder, { recursive: true })
    expect(await deleteQueues(word)).toBe(0)
  })

  it('do so on Redis', async () => {
    const page = programsOf('docs/start/redis.md')
    const { word } = page
    const client = await createClient({ url: redisUrl }).connect()
    try {
      const id = await runPage(page, { REDIS_URL: redisUrl })
      expect(await client.hGetAll(`{${word}}:order:${id}`)).toEqual({ total: '42' })
      expect(await client.xLen(`${word}-order-events`)).toBe(1)
      expect(await client.exists(`{${word}-orders}:dead`)).toBe(0)
    } finally {
      for await (const keys of client.scanIterator({ MATCH: `*${word}*`, COUNT: 1000 })) if (keys.length > 0) await client.del(keys)
      client.destroy()
    }
  })
})

describe('the SQL for moving from another outbox', () => {
  it('moves new and existing rows', async () => {
    await withPostgres(`ackorddocs${randomBytes(4).toString('hex')}`, async (pool) => {
      await createSchema(fromPg(pool, { logger: silentLogger }))
      const [replace = '', backlog = '', debezium = ''] = blocksIn('docs/guides/migrating.md', 'sql')
      const stored = async () =>
        (await pool.query("SELECT destination, type, id, ordering_key, convert_from(data, 'UTF8') AS data FROM ackord_outbox ORDER BY seq"))
          .rows
      const [old, fresh, third] = ['1', '2', '3'].map((digit) => `00000000-0000-4000-8000-00000000000${digit}`)

      const [table = '', ...trigger] = replace.split('\n\n')
      await pool.query(table)
      await pool.query(`INSERT INTO outbox VALUES ('${old}', 'orders', 'order.placed', '{"n": 1}')`)
      await pool.query(trigger.join('\n'))
      await pool.query(`INSERT INTO outbox VALUES ('${fresh}', 'orders', 'order.placed', '{"n": 2}')`)
      expect((await pool.query('SELECT id FROM outbox')).rows).toEqual([{ id: old }])
      await pool.query(backlog)
      const row = { destination: 'orders', type: 'order.placed', ordering_key: null }
      expect(await stored()).toEqual([
        { ...row, id: fresh, data: '{"n": 2}' },
        { ...row, id: old, data: '{"n": 1}' },
      ])
      expect((await pool.query('SELECT id FROM outbox')).rows).toEqual([])

      await pool.query(debezium)
      await pool.query(`INSERT INTO outboxevent VALUES ('${third}', 'order', 'o-3', 'order.paid', '{"n": 3}')`)
      expect((await stored()).at(-1)).toEqual({
        destination: 'outbox.event.order',
        type: 'order.paid',
        id: third,
        ordering_key: 'o-3',
        data: '{"n": 3}',
      })
    })
  })

  it('is as the page on the outbox has it for other languages', async () => {
    await withPostgres(`ackorddocs${randomBytes(4).toString('hex')}`, async (pool) => {
      await createSchema(fromPg(pool, { logger: silentLogger }))
      await pool.query('CREATE TABLE orders (id text PRIMARY KEY)')
      const [append = ''] = blocksIn('docs/guides/outbox.md', 'sql')
      await pool.query(append)
      const { rows } = await pool.query("SELECT type, ordering_key, convert_from(data, 'UTF8') AS data FROM ackord_outbox")
      expect(rows).toEqual([{ type: 'order.placed', ordering_key: 'o-1', data: '{"orderId":"o-1"}' }])
    })
  })
})
