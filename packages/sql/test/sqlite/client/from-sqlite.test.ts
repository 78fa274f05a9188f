import { symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Message, silentLogger } from '@ackord/core'
import { deferred, recordingLogger } from '@ackord/testkit'
import { DatabaseSync } from '@photostructure/sqlite'
import { describe, expect, it } from 'vitest'
import { createSchema, sqlOutbox, validateSchema } from '../../../src/index.ts'
import { fromSqlite } from '../../../src/sqlite/index.ts'
import { event, failureOf } from '../../support/world.ts'
import { nodeKind, sqliteKinds, type TestClient } from '../support/sqlite-world.ts'

const quiet = { logger: silentLogger }

function pragma(client: TestClient, name: string): unknown {
  return Object.values(client.prepare(`PRAGMA ${name}`).get() as object)[0]
}

describe.each(sqliteKinds)('fromSqlite() on $name', ({ open, connect }) => {
  it('configures its connection for WAL, durability and no blocking, and changes nothing else', async () => {
    await using world = await open({ empty: true })
    const { client, database } = world
    expect(pragma(client, 'journal_mode')).toBe('delete')
    const foreignKeys = pragma(client, 'foreign_keys')
    await database.write(async () => {})
    expect(['journal_mode', 'synchronous', 'busy_timeout'].map((name) => pragma(client, name))).toEqual(['wal', 2, 0])
    expect(pragma(client, 'foreign_keys')).toBe(foreignKeys)
  })

  it('keeps a more durable setting, and lowers it only on request', async () => {
    await using world = await open({ empty: true })
    world.client.exec('PRAGMA synchronous = EXTRA')
    await world.database.write(async () => {})
    expect(pragma(world.client, 'synchronous')).toBe(3)
    const fast = world.connect()
    await fromSqlite(fast, { synchronous: 'normal', ...quiet }).write(async () => {})
    expect(pragma(fast, 'synchronous')).toBe(1)
    expect(() => fromSqlite(fast, { synchronous: 'full' })).toThrow(/synchronous was 'normal'/)
  })

  it('does no I/O before it is used', async () => {
    await using world = await open({ empty: true })
    fromSqlite(world.connect(), quiet)
    expect(world.query('PRAGMA journal_mode')).toEqual([{ journal_mode: 'delete' }])
  })

  it('has no handle outside a transaction, so that no statement can get into another one', async () => {
    await using world = await open()
    const handle = world.database.executor()
    expect(() => handle.prepare('SELECT 1')).toThrow(/pass fromSqlite\(\) a reader/)
    expect(() => handle.exec('DELETE FROM orders')).toThrow(/database.write\(\)/)
    expect(() => world.database.executor(undefined, { required: true })).toThrow(/transaction/)
  })

  it('reads through the reader outside transactions, without waiting for the writer, and cannot write there', async () => {
    await using world = await open({ withReader: true })
    const { database } = world
    const outside = database.executor()
    const count = () => outside.prepare('SELECT count(*) AS n FROM orders').get()
    await database.write(async (transaction) => {
      transaction.exec("INSERT INTO orders (id) VALUES ('1')")
      expect(count()).toMatchObject({ n: 0 })
      // The operator API does not wait either.
      expect(await sqlOutbox(database, quiet).stats()).toMatchObject({ destinations: [] })
      await validateSchema(database)
    })
    expect(count()).toMatchObject({ n: 1 })
    for (const sql of ["INSERT INTO orders (id) VALUES ('2')", 'CREATE TABLE notes (id TEXT)']) {
      expect(() => outside.exec(sql)).toThrow(/The reader cannot write: use database.write\(\)/)
      expect(() => outside.prepare(sql).run()).toThrow(/The reader cannot write: use database.write\(\)/)
    }
    expect(() => outside.exec('BEGIN')).toThrow(/begin or end/)
    expect(world.count('orders')).toBe(1)
  })

  it('shares the reader of a file, and rejects a second one', async () => {
    await using world = await open({ withReader: true })
    expect(fromSqlite(world.client, quiet).executor().prepare('SELECT 1 AS n').get()).toMatchObject({ n: 1 })
    expect(() => fromSqlite(world.client, { reader: world.connect() })).toThrow(/reader must be the reader that this file already has/)
    await using other = await open()
    expect(() => fromSqlite(other.client, { reader: other.client })).toThrow(/reader must be a connection of its own/)
  })

  it('identifies a file by its path, also through a link', async () => {
    await using world = await open()
    const link = join(dirname(world.path), 'link.db')
    symlinkSync(world.path, link)
    const linked = connect(link)
    const other = fromSqlite(linked, quiet)
    await world.database.write(async (transaction) => {
      expect(other.executor()).toBe(transaction)
    })
    linked.close()
  })

  it('distinguishes a reopened file from the same file whose clients were all closed', async () => {
    await using world = await open({ withReader: true })
    const inside = deferred()
    const leave = deferred()
    const hung = failureOf(
      world.database.write(async () => {
        inside.resolve()
        await leave.promise
      }),
    )
    await inside.promise
    // Closing a client rolls back, except in @photostructure/sqlite, which waits until the statements are garbage-collected.
    world.client.exec('ROLLBACK')
    world.close()
    const again = fromSqlite(world.connect(), { reader: world.connect(), ...quiet })
    await again.write(async (transaction) => transaction.exec("INSERT INTO orders (id) VALUES ('1')"))
    expect(again.executor().prepare('SELECT count(*) AS n FROM orders').get()).toMatchObject({ n: 1 })
    leave.resolve()
    // The transaction was ended manually. Here it was a ROLLBACK, but it might have been a COMMIT.
    expect((await hung).message).toMatch(/not open|not known whether the transaction was committed/)
  })

  it('identifies a file even while one of its clients is busy', async () => {
    await using world = await open()
    const { database } = world
    await database.write(async (transaction) => {
      transaction.exec("INSERT INTO orders (id) VALUES ('1')")
      for (const row of transaction.prepare('SELECT id FROM orders').iterate()) {
        expect(row).toMatchObject({ id: '1' })
        expect(fromSqlite(world.connect(), quiet).executor()).toBe(transaction)
      }
    })
  })

  it('works in memory', async () => {
    const client = connect(':memory:')
    const logger = recordingLogger()
    const database = fromSqlite(client, { logger })
    await createSchema(database)
    await validateSchema(database)
    expect(await sqlOutbox(database, quiet).claim({ limit: 1, lease: 1000 })).toEqual([])
    const other = fromSqlite(connect(':memory:'), { logger })
    await database.write(async () => {
      await createSchema(other)
    })
    expect(logger.lines).toEqual([])
    client.close()
  })

  it.each([
    { option: 'client', call: () => fromSqlite({ prepare() {}, exec() {} } as never) },
    { option: 'client', call: () => fromSqlite(undefined as never) },
    { option: 'client', call: () => fromSqlite({ prepare() {} } as never) },
    { option: 'reader', call: (client: TestClient) => fromSqlite(client, { reader: {} as never }) },
    { option: 'lockTimeout', call: (client: TestClient) => fromSqlite(client, { lockTimeout: -1 }) },
    { option: 'synchronous', call: (client: TestClient) => fromSqlite(client, { synchronous: 'off' as never }) },
    { option: "'busyTimeout'", call: (client: TestClient) => fromSqlite(client, { busyTimeout: 1 } as never) },
    { option: 'schema', call: (client: TestClient) => fromSqlite(client, { schema: 'attached' }) },
  ])('rejects an invalid argument when it is called: $option', async ({ option, call }) => {
    await using world = await open({ empty: true })
    let error: unknown
    try {
      call(world.client)
    } catch (thrown) {
      error = thrown
    }
    expect(error).toMatchObject({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(option) })
  })
})

it('warns if a file cannot have a write-ahead log', async () => {
  await using world = await nodeKind.open({ empty: true })
  const client = world.connect()
  const logger = recordingLogger()
  const database = fromSqlite(
    {
      get isTransaction() {
        return client.isTransaction ?? false
      },
      exec: (sql: string) => client.exec(sql),
      prepare: (sql: string) => client.prepare(sql.replace('journal_mode = WAL', 'journal_mode')),
    },
    { logger },
  )
  await database.write(async () => {})
  await database.write(async () => {})
  expect(logger.lines).toMatchObject([{ level: 'warn', fields: { mode: 'delete' } }])
})

it('accepts settings of the connection that change the format of rows', async () => {
  await using world = await nodeKind.open({ empty: true })
  const client = new DatabaseSync(world.path, { readBigInts: true, returnArrays: true })
  const database = fromSqlite(client, quiet)
  await createSchema(database)
  await validateSchema(database)
  const outbox = sqlOutbox(database, { retain: true, ...quiet })
  const records = ['e1', 'e2'].map((id) => ({ destination: 'events', message: new Message(new Uint8Array([1]), event(id).attributes) }))
  await database.write(async (transaction) => await outbox.append(transaction, records))
  const claimed = await outbox.claim({ limit: 10, lease: 60_000 })
  expect(claimed).toMatchObject([
    { id: '1', attempts: 1 },
    { id: '2', attempts: 1 },
  ])
  expect(await outbox.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))).toEqual(['applied', 'applied'])
  expect(await outbox.stats()).toMatchObject({ destinations: [{ destination: 'events', published: 2, ready: 0 }] })
  expect(await outbox.deletePublished({ olderThan: 0, limit: 10 })).toBe(2)
  client.close()
  expect(await failureOf(outbox.stats())).toMatchObject({ message: expect.stringMatching(/not open/) })
})
