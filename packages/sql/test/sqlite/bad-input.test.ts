import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { commandHandler, defineEvent, jsonMarshaler, MemoryBroker, Message, marshal, publishAll, Router, silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { deferred, recordingLogger } from '@ackord/testkit'
import { DatabaseSync } from '@photostructure/sqlite'
import { describe, expect, it } from 'vitest'
import { createSchema, sqlOutbox, transactional } from '../../src/index.ts'
import { fromSqlite } from '../../src/sqlite/index.ts'
import { countdown } from '../support/countdown.ts'
import { command, event, failureOf, handle } from '../support/world.ts'
import { nodeKind, type SqliteWorld, sqliteKinds } from './support/sqlite-world.ts'

const quiet = { logger: silentLogger }
const stack = { inbox: { consumer: 'orders' }, outbox: { destination: 'events' }, transaction: quiet }
const place = defineEvent<{ id: string }>('order.place')
const placed = defineEvent<{ id: string }>('order.placed')

function commands(total: number): readonly Message<Uint8Array>[] {
  const ids = Array.from({ length: total }, (_, index) => `${index + 1}`)
  return [...ids, ...ids].map((id) => marshal(place({ id }, { id, source: '/shop' }), jsonMarshaler))
}

function routerOf({ database }: SqliteWorld, options: ConstructorParameters<typeof Router>[0] = {}): Router {
  return new Router({ logger: silentLogger, redeliveryDelay: () => 1, concurrency: 4, ...options })
    .use(transactional(database, stack))
    .handle(
      commandHandler({ type: place, source: '/orders' }, async ({ id }) => {
        database.executor().prepare('INSERT INTO orders (id) VALUES (?)').run(id)
        return [placed({ id })]
      }),
    )
}

describe.each(sqliteKinds)('bad input on $name', ({ open }) => {
  it.each([
    { why: 'no id', attributes: { id: undefined }, code: 'ACKORD_MISSING_ATTRIBUTE' },
    { why: '10 kB of id', attributes: { id: 'x'.repeat(10_000) }, code: 'ACKORD_INVALID_ATTRIBUTES' },
    { why: 'NUL in the id', attributes: { id: 'a\0b' }, code: 'ACKORD_INVALID_ATTRIBUTES' },
    { why: 'NUL in the source', attributes: { source: 'a\0b' }, code: 'ACKORD_INVALID_ATTRIBUTES' },
    { why: 'half a surrogate pair', attributes: { id: 'a\uD800' }, code: 'ACKORD_INVALID_ATTRIBUTES' },
  ])('$why: rejected permanently by the inbox, before the handler', async ({ attributes, code }) => {
    await using world = await open()
    const message = new Message({}, { ...command('1').message.attributes, ...attributes } as Message['attributes'])
    let handled = false
    const error = await failureOf(
      handle(
        transactional(world.database, stack),
        async () => {
          handled = true
          return []
        },
        message,
      ),
    )
    expect(error).toMatchObject({ code, retryable: false })
    expect([handled, world.count('ackord_inbox')]).toEqual([false, 0])
  })

  it.each([
    { why: 'no type', attributes: { type: undefined } },
    { why: '10 kB of id', attributes: { id: 'x'.repeat(10_000) } },
    { why: 'NUL in the type', attributes: { type: 'a\0b' } },
  ])('$why: rejected by the outbox, before the statement', async ({ attributes }) => {
    await using world = await open()
    const { database } = world
    const message = new Message(new Uint8Array([1]), { ...event('e1').attributes, ...attributes } as Message['attributes'])
    const error = await failureOf(
      database.write(async (transaction) => await sqlOutbox(database, quiet).append(transaction, [{ destination: 'events', message }])),
    )
    expect(error.code).toMatch(/ACKORD_(MISSING_ATTRIBUTE|INVALID_ATTRIBUTES)/)
    expect(world.count('ackord_outbox')).toBe(0)
  })

  it('a failed statement whose error is swallowed does not affect the rest of its transaction, as usual in SQLite', async () => {
    await using world = await open()
    const { database } = world
    await handle(transactional(database, stack), async () => {
      database.executor().exec("INSERT INTO orders (id) VALUES ('1')")
      expect(() => database.executor().exec("INSERT INTO orders (id) VALUES ('1')")).toThrow(/UNIQUE/)
      return [event('e1')]
    })
    expect([world.count('orders'), world.count('ackord_inbox'), world.count('ackord_outbox')]).toEqual([1, 1, 1])
  })

  it('a full disk fails the message, commits nothing and loses nothing', async () => {
    await using world = await open()
    const { client, database } = world
    const message = command('1').message
    const big = () => [event('e1', {}, 'x'.repeat(500_000))]
    const pages = Number(Object.values(client.prepare('PRAGMA page_count').get() as object)[0])
    client.exec(`PRAGMA max_page_count = ${pages + 5}`)
    const error = await failureOf(
      handle(
        transactional(database, stack),
        async () => {
          database.executor().exec("INSERT INTO orders (id) VALUES ('1')")
          return big()
        },
        message,
      ),
    )
    expect(error.message).toMatch(/full/)
    expect([world.count('orders'), world.count('ackord_inbox'), world.count('ackord_outbox')]).toEqual([0, 0, 0])
    client.exec('PRAGMA max_page_count = 1000000')
    await handle(transactional(database, stack), async () => big(), command('1').message)
    expect([world.count('ackord_inbox'), world.count('ackord_outbox')]).toEqual([1, 1])
  })

  it('a full disk whose error is swallowed is not mistaken for a commit', async () => {
    await using world = await open()
    const { client, database } = world
    const pages = Number(Object.values(client.prepare('PRAGMA page_count').get() as object)[0])
    client.exec(`PRAGMA max_page_count = ${pages + 5}`)
    const error = await failureOf(
      handle(transactional(database, stack), async () => {
        const transaction = database.executor()
        transaction.exec("INSERT INTO orders (id) VALUES ('1')")
        expect(() => transaction.prepare('INSERT INTO orders (id, note) VALUES (?, ?)').run('2', 'x'.repeat(500_000))).toThrow(/full/)
        // SQLite has rolled everything back, so this row would be committed on its own.
        expect(() => transaction.exec("INSERT INTO orders (id) VALUES ('3')")).toThrow(/rolled the transaction back/)
        return []
      }),
    )
    const aborted = { code: 'ACKORD_TRANSACTION_ABORTED', cause: { message: expect.stringMatching(/full/) } }
    expect(error).toMatchObject({ code: 'ACKORD_STORE_REFUSES_WRITES', cause: aborted })
    expect([world.count('orders'), world.count('ackord_inbox')]).toEqual([0, 0])
  })

  it('a read-only file is an error for writers that names the cause', async () => {
    await using world = await open()
    const client = new DatabaseSync(world.path, { readOnly: true })
    const error = await failureOf(fromSqlite(client, quiet).write(async (transaction) => transaction.exec('DELETE FROM orders')))
    expect(error.message).toMatch(/readonly|read-only/)
    client.close()
  })

  it('missing tables are an error that says how to create them, and nothing is lost until they exist', async () => {
    await using world = await open({ empty: true })
    const { database } = world
    const total = 10
    const broker = new MemoryBroker({ logger: silentLogger })
    await publishAll(broker, 'orders', commands(total))
    const failed = { router: countdown(total), relay: countdown(1) }
    const lines = recordingLogger()
    const ids = new Set<string>()
    const all = deferred()
    await using relay = new Relay(sqlOutbox(database, quiet), {
      logger: { ...silentLogger, error: () => failed.relay.hit() },
      publisher: {
        async publish(_, messages) {
          for (const { id = '' } of messages) ids.add(id)
          if (ids.size === total) all.resolve()
          return messages.map(() => ({ ok: true }))
        },
      },
    }).start()
    const router = routerOf(world, {
      logger: {
        ...lines,
        error(fields, text) {
          lines.error(fields, text)
          failed.router.hit()
        },
      },
    })
    const running = router.run(broker.source('orders', { deadLetter: 'orders.dead' }))
    await failed.router.reached
    await failed.relay.reached
    await createSchema(database)
    await broker.idle('orders')
    await all.promise
    await relay.stop()
    await router.stop()
    await running
    expect([world.count('orders'), world.count('ackord_inbox'), world.count('ackord_outbox'), ids.size]).toEqual([total, total, 0, total])
    expect(broker.published('orders.dead')).toEqual([])
    for (const { text } of lines.lines.filter(({ level }) => level !== 'debug'))
      expect(text).toMatch(/ackord_inbox" does not exist.*Run createSchema/)
  })

  it('tables without a column are reported', async () => {
    await using world = await open()
    world.query('ALTER TABLE ackord_outbox DROP COLUMN content_type')
    const error = await failureOf(handle(transactional(world.database, stack), async () => [event('e1')]))
    expect(error).toMatchObject({ code: 'ACKORD_SCHEMA', problem: 'missing', message: expect.stringMatching(/lacks a column/) })
    expect(world.count('ackord_inbox')).toBe(0)
  })
})

describe('the file', () => {
  it('that is deleted while its client uses it stays usable: it has all of a message, and a new client finds nothing', async () => {
    await using world = await nodeKind.open()
    const { database } = world
    rmSync(world.path)
    await handle(transactional(database, stack), async () => {
      database.executor().exec("INSERT INTO orders (id) VALUES ('1')")
      return [event('e1')]
    })
    await database.write(async (transaction) => {
      for (const table of ['orders', 'ackord_inbox', 'ackord_outbox']) {
        expect(transaction.prepare(`SELECT count(*) AS n FROM ${table}`).get()).toMatchObject({ n: 1 })
      }
    })
    rmSync(`${world.path}-wal`)
    rmSync(`${world.path}-shm`)
    const fresh = fromSqlite(world.connect(), quiet)
    const error = await failureOf(handle(transactional(fresh, stack), async () => []))
    expect(error).toMatchObject({ code: 'ACKORD_SCHEMA', problem: 'missing' })
  })

  it('in a directory that is not writable is an error at the first write', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'ackord-sqlite-'))
    const path = join(directory, 'test.db')
    new DatabaseSync(path).close()
    chmodSync(path, 0o444)
    chmodSync(directory, 0o555)
    try {
      const client = new DatabaseSync(path)
      const isRoot = process.getuid?.() === 0
      const outcome = await createSchema(fromSqlite(client, quiet)).then(
        () => 'made',
        (error: Error) => error.message,
      )
      expect(outcome).toMatch(isRoot ? /made|readonly/ : /readonly|unable to open/)
      client.close()
    } finally {
      chmodSync(directory, 0o755)
      rmSync(directory, { recursive: true, force: true })
    }
  })
})

it.each(['$&', '$`', "$'", '$$', '$1', '%'])('claims from a table whose name contains %s', async (text) => {
  await using world = await nodeKind.open({ empty: true })
  const database = fromSqlite(world.client, { logger: silentLogger, names: { outbox: `out${text}box` } })
  await createSchema(database)
  const outbox = sqlOutbox(database, quiet)
  await database.write((transaction) =>
    outbox.append(transaction, [{ destination: 'events', message: marshal(event('e-1'), jsonMarshaler) }]),
  )
  expect(await outbox.claim({ limit: 10, lease: 1000 })).toHaveLength(1)
})
