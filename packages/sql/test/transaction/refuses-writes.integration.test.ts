import { Router, silentLogger } from '@ackord/core'
import { recordingLogger, sourceOf, trackedMessage } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type Database, inboxMiddleware, transactionMiddleware } from '../../src/index.ts'
import { mysqlKinds } from '../mysql/support/mysql-world.ts'
import { sqliteKinds } from '../sqlite/support/sqlite-world.ts'
import { openPg } from '../support/world.ts'

const settings = { logger: silentLogger }

/** Delivers a message to a handler that fails twice with the server's error, and then writes. Resolves when the message is settled. */
async function deliver<Handle>(
  database: Database<Handle>,
  fail: (transaction: Handle) => unknown,
  write: (transaction: Handle) => unknown,
): Promise<{ readonly verdicts: readonly string[]; readonly lines: readonly (readonly [string, unknown])[] }> {
  const logger = recordingLogger()
  const message = trackedMessage('m1')
  let calls = 0
  await new Router({ source: '/orders', logger })
    .use(transactionMiddleware(database, settings), inboxMiddleware(database, { consumer: 'orders' }))
    .handle({
      type: 'order.place',
      async handle(_, context) {
        calls += 1
        await (calls <= 2 ? fail : write)(database.executor(context))
        return []
      },
    })
    .run(sourceOf(message))
  const codeOf = ({ err }: { err?: { code?: string } }) => err?.code
  return { verdicts: message.verdicts, lines: logger.lines.map(({ level, fields }) => [level, codeOf(fields)] as const) }
}

const paused = [
  ['warn', 'ACKORD_STORE_REFUSES_WRITES'],
  ['info', undefined],
]

describe('a database that refuses writes', () => {
  it('pauses the router on PostgreSQL, when its disk is full', async () => {
    await using world = await openPg()
    const { verdicts, lines } = await deliver(
      world.database,
      (transaction) => transaction.query("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '53100'; END $$"),
      (transaction) => transaction.query("INSERT INTO orders (id) VALUES ('1')"),
    )
    expect([verdicts, lines, await world.orders()]).toEqual([['ack'], paused, 1])
  })

  it('pauses the router on PostgreSQL, while it is read-only', async () => {
    await using world = await openPg()
    const { pool, schema } = world
    const path = `-c search_path=${schema}`
    // The pool replaces a connection whose write was rejected with a new one.
    await Promise.all((await Promise.all([pool.connect(), pool.connect()])).map((client) => client.release(true)))
    pool.options.options = `${path} -c default_transaction_read_only=on`
    const limit = setTimeout(() => {
      pool.options.options = path
    }, 600)
    const insert = (transaction: { query(sql: string): unknown }) => transaction.query("INSERT INTO orders (id) VALUES ('1')")
    const { verdicts, lines } = await deliver(world.database, insert, insert)
    clearTimeout(limit)
    expect([verdicts, lines, await world.orders()]).toEqual([['ack'], paused, 1])
  })

  it('is not assumed when a handler made its own transaction read-only: only that message fails', async () => {
    await using world = await openPg()
    const readOnly = async (transaction: { query(sql: string): Promise<unknown> }) => {
      await transaction.query('SET TRANSACTION READ ONLY')
      await transaction.query("INSERT INTO orders (id) VALUES ('1')")
    }
    const { verdicts, lines } = await deliver(world.database, readOnly, readOnly)
    expect([verdicts, lines]).toEqual([['nack'], [['error', '25006']]])
  })

  for (const kind of mysqlKinds) {
    it.each([1021, 1114, 1836])(`pauses the router on ${kind.name}: %d`, async (number) => {
      await using world = await kind.open()
      const { verdicts, lines } = await deliver(
        world.database,
        (transaction) => transaction.query(`SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = ${number}`, []),
        (transaction) => transaction.query("INSERT INTO orders (id) VALUES ('1')", []),
      )
      expect([verdicts, lines, await world.orders()]).toEqual([['ack'], paused, 1])
    })
  }

  for (const kind of sqliteKinds) {
    it(`pauses the router on ${kind.name}, when the file cannot grow`, async () => {
      await using world = await kind.open()
      const { client } = world
      const [{ page_count: pages } = { page_count: 0 }] = client.prepare('PRAGMA page_count').all() as { page_count: number }[]
      client.exec(`PRAGMA max_page_count = ${pages + 5}`)
      const limit = setTimeout(() => client.exec('PRAGMA max_page_count = 1000000'), 400)
      const insert = (transaction: { prepare(sql: string): { run(): unknown } }) =>
        transaction.prepare("INSERT INTO orders (id, note) VALUES ('1', hex(zeroblob(100000)))").run()
      const { verdicts, lines } = await deliver(world.database, insert, insert)
      clearTimeout(limit)
      expect([verdicts, lines, world.count('orders')]).toEqual([['ack'], paused, 1])
    })
  }

  it('fails write() outside a router with the same error', async () => {
    await using world = await openPg()
    const writing = world.database.write(async (transaction) => {
      await transaction.query("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '53100'; END $$")
    }, settings)
    await expect(writing).rejects.toMatchObject({ code: 'ACKORD_STORE_REFUSES_WRITES', retryable: true, cause: { code: '53100' } })
  })
})
