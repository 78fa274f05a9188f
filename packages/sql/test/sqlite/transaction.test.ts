import {
  commandHandler,
  defineEvent,
  jsonMarshaler,
  MemoryBroker,
  Message,
  marshal,
  publishAll,
  Router,
  rootContext,
  silentLogger,
} from '@ackord/core'
import { deferred, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { inboxMiddleware, sqlOutbox, transactional, transactionMiddleware } from '../../src/index.ts'
import { fromSqlite } from '../../src/sqlite/index.ts'
import { command, event, failureOf, handle } from '../support/world.ts'
import { failingClient, sqliteError } from './support/failing-client.ts'
import { nodeKind, sqliteKinds, type TestHandle } from './support/sqlite-world.ts'

const quiet = { logger: silentLogger }

function insert(handle: TestHandle, id: string): void {
  handle.prepare('INSERT INTO orders (id) VALUES (?)').run(id)
}

describe.each(sqliteKinds)('a transaction on $name', ({ open }) => {
  it('begins as the writer: no other connection can write until it ends, and all can read', async () => {
    await using world = await open()
    const other = world.connect()
    other.exec('PRAGMA busy_timeout = 0')
    await world.database.write(async (transaction) => {
      expect(() => other.exec("INSERT INTO orders (id) VALUES ('other')")).toThrow(/locked/)
      insert(transaction, '1')
      expect(world.count('orders')).toBe(0)
    })
    expect(world.count('orders')).toBe(1)
  })

  it('is exclusive: other work waits, in order, and no statement slips in', async () => {
    await using world = await open()
    const { database } = world
    const inside = deferred()
    const leave = deferred()
    const first = database.write(async (transaction) => {
      insert(transaction, '1')
      inside.resolve()
      await leave.promise
      throw new Error('rolled back')
    })
    const failed = failureOf(first)
    await inside.promise
    const log: string[] = []
    const others = [
      database.write(async (transaction) => insert(transaction, '2')).then(() => log.push('write')),
      sqlOutbox(database, quiet)
        .claim({ limit: 1, lease: 1000 })
        .then(() => log.push('claim')),
      sqlOutbox(fromSqlite(world.connect(), quiet), quiet)
        .stats()
        .then(() => log.push('another client')),
    ]
    await new Promise((resolve) => setImmediate(resolve))
    expect(log).toEqual([])
    leave.resolve()
    expect(await failed).toMatchObject({ message: 'rolled back' })
    await Promise.all(others)
    expect(log).toEqual(['write', 'claim', 'another client'])
    expect(world.query('SELECT id FROM orders')).toEqual([{ id: '2' }])
  })

  it('rejects statements that would begin or end it, also behind another statement', async () => {
    await using world = await open()
    await world.database.write(async (transaction) => {
      for (const sql of ['BEGIN', 'COMMIT', '/* x */ END', 'ROLLBACK', "INSERT INTO orders (id) VALUES ('x'); COMMIT"]) {
        expect(() => transaction.exec(sql)).toThrow(/begin or end the transaction/)
        expect(() => transaction.prepare(sql)).toThrow(/begin or end the transaction/)
      }
      transaction.exec("SAVEPOINT one; INSERT INTO orders (id) VALUES ('1'); ROLLBACK TO one; RELEASE one")
      insert(transaction, '2')
    })
    expect(world.query('SELECT id FROM orders')).toEqual([{ id: '2' }])
  })

  it('creates tables that are gone when it is rolled back', async () => {
    await using world = await open()
    await failureOf(
      world.database.write(async (transaction) => {
        transaction.exec('CREATE TABLE notes (id TEXT)')
        throw new Error('rolled back')
      }),
    )
    expect(world.query("SELECT name FROM sqlite_schema WHERE name = 'notes'")).toEqual([])
  })

  it('ends with its handle, its statements and their iterations', async () => {
    await using world = await open()
    const { database } = world
    let late: TestHandle | undefined
    let statement: ReturnType<TestHandle['prepare']> | undefined
    let iteration: IterableIterator<unknown> | undefined
    await database.write(async (transaction) => {
      for (const id of ['1', '2', '3']) insert(transaction, id)
      late = transaction
      statement = transaction.prepare('SELECT id FROM orders ORDER BY id')
      expect([...statement.iterate()].map((row) => (row as { id: string }).id)).toEqual(['1', '2', '3'])
      iteration = statement.iterate()
      expect(iteration.next()).toMatchObject({ done: false, value: { id: '1' } })
    })
    const ended = /started after the transaction of database.write\(\) had ended/
    expect(() => late?.exec('DELETE FROM orders')).toThrow(ended)
    expect(() => late?.prepare('DELETE FROM orders')).toThrow(ended)
    expect(() => statement?.all()).toThrow(ended)
    expect(() => iteration?.next()).toThrow(ended)
    // The unfinished iteration does not keep the connection busy.
    await database.write(async (transaction) => insert(transaction, '4'))
    expect(world.count('orders')).toBe(4)
  })

  it('returns statements with all features of the client’s', async () => {
    await using world = await open()
    await world.database.write(async (transaction) => {
      insert(transaction, '1')
      const statement = transaction.prepare('SELECT id, note FROM orders WHERE id = ?') as ReturnType<TestHandle['prepare']> & {
        pluck?(): ReturnType<TestHandle['prepare']>
        sourceSQL?: string
      }
      if (statement.pluck === undefined) expect(statement.sourceSQL).toMatch(/^SELECT id/)
      else expect(statement.pluck().get('1')).toBe('1')
      for (const row of transaction.prepare('SELECT id FROM orders').iterate()) {
        expect(row).toMatchObject({ id: '1' })
        break
      }
    })
  })

  it.each([
    { why: 'OR ROLLBACK', fail: "INSERT OR ROLLBACK INTO orders (id) VALUES ('1')" },
    { why: 'a trigger', fail: "DELETE FROM orders WHERE id = '1'" },
  ])('that $why has rolled back is not committed, and runs no more statements', async ({ fail }) => {
    await using world = await open()
    world.client.exec("CREATE TRIGGER keep BEFORE DELETE ON orders BEGIN SELECT RAISE(ROLLBACK, 'kept'); END")
    const { database } = world
    const { message, verdicts } = command('1')
    let second: unknown
    const error = await failureOf(
      handle(
        transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'events' }, transaction: quiet }),
        async () => {
          const transaction = database.executor()
          insert(transaction, '1')
          expect(() => transaction.exec(fail)).toThrow(/UNIQUE|kept/)
          try {
            insert(transaction, '2')
          } catch (refused) {
            second = refused
          }
          return [event('e1')]
        },
        message,
      ),
    )
    const cause = { message: expect.stringMatching(/UNIQUE|kept/) }
    expect(second).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED', cause })
    expect(error).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED', cause })
    expect([world.count('orders'), world.count('ackord_inbox'), world.count('ackord_outbox'), verdicts]).toEqual([0, 0, 0, []])
  })

  it('that rolled itself back while the handler did nothing more is detected before COMMIT', async () => {
    await using world = await open()
    const error = await failureOf(
      world.database.write(async (transaction) => {
        insert(transaction, '1')
        expect(() => transaction.exec("INSERT OR ROLLBACK INTO orders (id) VALUES ('1')")).toThrow()
      }),
    )
    expect(error).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED', cause: { message: expect.stringMatching(/UNIQUE/) } })
    await world.database.write(async (transaction) => insert(transaction, '2'))
    expect(world.query('SELECT id FROM orders')).toEqual([{ id: '2' }])
  })

  it('that is rolled back inside a savepoint fails the outer transaction too', async () => {
    await using world = await open()
    const { database } = world
    const error = await failureOf(
      database.write(async (transaction) => {
        insert(transaction, '1')
        const inner = await failureOf(
          database.write(async (nested) => void nested.exec("INSERT OR ROLLBACK INTO orders (id) VALUES ('1')")),
        )
        expect(inner.message).toMatch(/UNIQUE/)
        insert(transaction, '2')
      }),
    )
    expect(error).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
    expect(world.count('orders')).toBe(0)
  })

  it('continues after a statement that failed alone, as SQLite does', async () => {
    await using world = await open()
    await world.database.write(async (transaction) => {
      insert(transaction, '1')
      expect(() => insert(transaction, '1')).toThrow(/UNIQUE/)
      insert(transaction, '2')
    })
    expect(world.count('orders')).toBe(2)
  })

  it('is rolled back at its timeout, and admits other transactions, even if its handler never ends', async () => {
    await using world = await open()
    const { database } = world
    const abort = new AbortController()
    const inside = deferred()
    const never = deferred()
    let handleOf: TestHandle | undefined
    const hung = failureOf(
      database.write(
        async (transaction) => {
          insert(transaction, '1')
          handleOf = transaction
          inside.resolve()
          await never.promise
        },
        { context: rootContext({ signal: abort.signal }), ...quiet },
      ),
    )
    await inside.promise
    const reason = new Error('took too long')
    abort.abort(reason)
    expect(() => handleOf && insert(handleOf, '2')).toThrow(reason)
    await database.write(async (transaction) => insert(transaction, '3'))
    expect(world.query('SELECT id FROM orders')).toEqual([{ id: '3' }])
    never.resolve()
    expect(await hung).toBe(reason)
    expect(world.query('SELECT id FROM orders')).toEqual([{ id: '3' }])
  })

  it('does not begin after an abort, and stops waiting for its turn', async () => {
    await using world = await open()
    const { database } = world
    const abort = new AbortController()
    const leave = deferred()
    const first = database.write(() => leave.promise)
    let ran = false
    const waiting = failureOf(
      database.write(
        async () => {
          ran = true
        },
        { context: rootContext({ signal: abort.signal }), ...quiet },
      ),
    )
    const reason = new Error('stopped')
    abort.abort(reason)
    expect(await waiting).toBe(reason)
    leave.resolve()
    await first
    expect(ran).toBe(false)
  })

  it('inside another transaction is a savepoint, also through another client of the same file', async () => {
    await using world = await open()
    const { database } = world
    const other = fromSqlite(world.connect(), quiet)
    await database.write(async () => {
      await database.write(async (transaction) => insert(transaction, '1'))
      await other.write(async (transaction) => insert(transaction, '2'))
      insert(other.executor(), '3')
      await failureOf(
        other.write(async (transaction) => {
          insert(transaction, '4')
          throw new Error('undone alone')
        }),
      )
      expect(world.count('orders')).toBe(0)
    })
    expect(world.query('SELECT id FROM orders ORDER BY id')).toEqual([{ id: '1' }, { id: '2' }, { id: '3' }])
  })

  it('does not wait forever for work that waits for it: this is an error after the lock timeout', async () => {
    const runtime = new VirtualRuntime()
    await using world = await open({ runtime, lockTimeout: 1000 })
    const { database } = world
    let inner: Promise<Error> | undefined
    const waiting = deferred()
    const running = database.write(async (transaction) => {
      insert(transaction, '1')
      // Like a router without ambient context, whose handler does not pass the context on.
      inner = failureOf(database.write(async () => {}, { context: rootContext(), ...quiet }))
      waiting.resolve()
      await inner
    })
    await waiting.promise
    await runtime.advance(1000)
    expect(await inner).toMatchObject({
      code: 'ACKORD_DATABASE_BUSY',
      message: expect.stringMatching(/pass the context of the transaction to database.write/),
    })
    await running
    expect(world.count('orders')).toBe(1)
    expect(runtime.timers).toBe(0)
  })

  it('waits while a manual transaction is open on the same client, and reports it if that one does not end', async () => {
    const runtime = new VirtualRuntime()
    await using world = await open({ runtime, lockTimeout: 1000 })
    const { client, database } = world
    client.exec('BEGIN')
    const second = database.write(async (transaction) => insert(transaction, '1'))
    await runtime.advance(500)
    expect(world.count('orders')).toBe(0)
    client.exec('ROLLBACK')
    await runtime.advance(100)
    await second
    expect(world.count('orders')).toBe(1)

    client.exec('BEGIN')
    const refused = failureOf(database.write(async (transaction) => insert(transaction, '2')))
    const stats = failureOf(sqlOutbox(database, quiet).stats())
    for (let n = 0; n < 3; n += 1) await runtime.advance(1100)
    expect(await refused).toMatchObject({ code: 'ACKORD_DATABASE_BUSY', message: expect.stringMatching(/begun by hand/) })
    expect(await stats).toMatchObject({ code: 'ACKORD_DATABASE_BUSY' })
    client.exec('ROLLBACK')
    expect(world.count('orders')).toBe(1)
  })

  it('can be begun manually and used with append(), on this client or another', async () => {
    await using world = await open()
    const { client, database } = world
    const outbox = sqlOutbox(database, quiet)
    const records = (id: string) => [{ destination: 'events', message: new Message(new Uint8Array([1]), event(id).attributes) }]
    const own = world.connect()
    for (const each of [client, own]) {
      expect(await failureOf(outbox.append(each, records('e0')))).toMatchObject({
        code: 'ACKORD_TRANSACTION_REQUIRED',
        message: expect.stringMatching(/is not in a transaction/),
      })
    }
    client.exec('BEGIN')
    await outbox.append(client, records('e1'))
    client.exec('ROLLBACK')
    own.exec('BEGIN IMMEDIATE')
    await outbox.append(own, records('e2'))
    own.exec('COMMIT')
    expect(world.query('SELECT id FROM ackord_outbox')).toEqual([{ id: 'e2' }])
  })

  it('can be begun manually and passed to the middleware', async () => {
    await using world = await open()
    const { client, database } = world
    const inbox = inboxMiddleware(database, { consumer: 'orders' })
    const handled: string[] = []
    const deliver = (id: string) => {
      const context = database.withTransaction(rootContext(), client)
      return inbox(async (message) => {
        handled.push(String(message.id))
        return []
      })(command(id).message, context)
    }
    client.exec('BEGIN IMMEDIATE')
    await deliver('1')
    await deliver('1')
    await deliver('2')
    client.exec('COMMIT')
    expect(handled).toEqual(['1', '2'])
    expect(world.count('ackord_inbox')).toBe(2)
  })

  it('of a message is not mistaken for one that was begun manually', async () => {
    await using world = await open()
    const { client, database } = world
    const outbox = sqlOutbox(database, quiet)
    const records = [{ destination: 'events', message: new Message(new Uint8Array([1]), event('e1').attributes) }]
    await database.write(async (transaction) => {
      expect(await failureOf(outbox.append(client, records))).toMatchObject({ code: 'ACKORD_TRANSACTION_REQUIRED' })
      await outbox.append(transaction, records)
    })
    expect(world.count('ackord_outbox')).toBe(1)
    expect(await failureOf(outbox.append(database.executor(), records))).toMatchObject({
      code: 'ACKORD_TRANSACTION_REQUIRED',
      message: expect.stringMatching(/the pool itself/),
    })
  })

  it.each([1, 16])('for each message of a router with concurrency %i, with write() in the handler', async (concurrency) => {
    await using world = await open()
    const { database } = world
    const place = defineEvent<{ id: string }>('order.place')
    const placed = defineEvent<{ id: string }>('order.placed')
    const router = new Router({ logger: silentLogger, concurrency })
      .use(transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } }))
      .handle(
        commandHandler({ type: place, source: '/orders' }, async ({ id }) => {
          await new Promise((resolve) => setImmediate(resolve))
          await database.write(async (transaction) => insert(transaction, id))
          return [placed({ id })]
        }),
      )
    const broker = new MemoryBroker({ logger: silentLogger })
    const ids = Array.from({ length: 40 }, (_, index) => `${index}`)
    const commands = [...ids, ...ids].map((id) => marshal(place({ id }, { id, source: '/shop' }), jsonMarshaler))
    const running = router.run(broker.source('orders'))
    await publishAll(broker, 'orders', commands)
    await broker.idle('orders')
    await router.stop()
    await running
    expect([world.count('orders'), world.count('ackord_inbox'), world.count('ackord_outbox')]).toEqual([40, 40, 40])
  })

  it.each([false, true])(
    'of a group of messages that wait at the same time, even if a handler swallows an error (%s)',
    async (swallows) => {
      await using world = await open()
      const { database } = world
      const counted: string[] = []
      const metrics = { count: (name: string) => void counted.push(name), observe: (name: string) => void counted.push(name), gauge() {} }
      const grouped = transactional(database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: 'events' },
        transaction: { metrics, ...quiet },
        groupCommit: { size: 10, groups: 1 },
      })
      const process = grouped(async (message) => {
        const transaction = database.executor()
        insert(transaction, String(message.id))
        if (swallows && message.id === '4') expect(() => insert(transaction, '4')).toThrow(/UNIQUE/)
        return [event(`e${message.id}`)]
      })
      const ids = ['1', '2', '3', '1', '4', '2', '5', '6', '7', '8']
      const messages = ids.map((id) => command(id).message)
      await Promise.all(messages.map((message) => process(message, message.context(rootContext()))))
      expect([world.count('orders'), world.count('ackord_inbox'), world.count('ackord_outbox')]).toEqual([8, 8, 8])
      // The error is attributed to its message: the group is dissolved, and each message is handled alone.
      expect(counted).toContain(swallows ? 'ackord.group.dissolved' : 'ackord.group.size')
    },
  )
})

describe('COMMIT', () => {
  const failures = {
    busy: sqliteError(5, 'database is locked'),
    full: sqliteError(13, 'disk is full'),
    io: sqliteError(1034, 'disk I/O error'),
  }

  async function openFailing(error: Error, options: { readonly times?: number; readonly ends?: boolean } = {}) {
    const world = await nodeKind.open()
    const { times = Infinity, ends = false } = options
    const runtime = new VirtualRuntime()
    let failed = 0
    let armed = false
    const client = failingClient(world.connect(), (sql) => {
      if (!armed || sql !== 'COMMIT' || failed >= times) return undefined
      failed += 1
      // Some failures end the transaction, others leave it open.
      if (ends) client.exec('ROLLBACK')
      return error
    })
    const database = fromSqlite(client, { logger: silentLogger, runtime, lockTimeout: 100 })
    const write = () => {
      armed = true
      return database.write(async (transaction) => insert(transaction, '1'), { retries: 0, ...quiet })
    }
    return { world, client, runtime, write, disarm: () => (armed = false), database }
  }

  it('that encounters a lock is retried', async () => {
    const { world, runtime, write } = await openFailing(failures.busy, { times: 3 })
    await using _ = world
    const writing = write()
    await runtime.advance(100)
    await writing
    expect(world.count('orders')).toBe(1)
  })

  it('that encounters a lock for too long is rolled back, and the next transaction succeeds', async () => {
    const { world, client, runtime, write, disarm, database } = await openFailing(failures.busy)
    await using _ = world
    const failed = failureOf(write())
    await runtime.advance(300)
    expect(await failed).toMatchObject({ code: 'ACKORD_DATABASE_BUSY', cause: failures.busy })
    expect([client.isTransaction, world.count('orders')]).toEqual([false, 0])
    disarm()
    await database.write(async (transaction) => insert(transaction, '2'))
    expect(world.count('orders')).toBe(1)
  })

  it.each([true, false])('that encounters a full disk commits nothing, whether or not it ends the transaction (%s)', async (ends) => {
    const { world, client, write } = await openFailing(failures.full, { ends })
    await using _ = world
    expect(await failureOf(write())).toMatchObject({ code: 'ACKORD_STORE_REFUSES_WRITES', cause: failures.full })
    expect([client.isTransaction, world.count('orders')]).toEqual([false, 0])
  })

  it.each([true, false])('that encounters an I/O error leaves the outcome unknown (%s)', async (ends) => {
    const { world, client, write } = await openFailing(failures.io, { ends })
    await using _ = world
    expect(await failureOf(write())).toMatchObject({ code: 'ACKORD_COMMIT_UNKNOWN', cause: failures.io })
    expect(client.isTransaction).toBe(false)
  })

  it('is not sent on a client that was closed in the meantime', async () => {
    await using world = await nodeKind.open()
    const client = world.connect()
    const database = fromSqlite(client, quiet)
    const error = await failureOf(
      database.write(async (transaction) => {
        insert(transaction, '1')
        client.close()
      }),
    )
    expect(error.message).toMatch(/not open/)
    expect(error.code).not.toBe('ACKORD_COMMIT_UNKNOWN')
    expect(world.count('orders')).toBe(0)
  })

  it('succeeds after a failed rollback was repeated', async () => {
    await using world = await nodeKind.open()
    let failing = true
    const client = failingClient(world.connect(), (sql) => (failing && sql === 'ROLLBACK' ? failures.io : undefined))
    const database = fromSqlite(client, quiet)
    const fail = () =>
      failureOf(
        database.write(async (transaction) => {
          insert(transaction, '1')
          throw new Error('rolled back')
        }),
      )
    expect(await fail()).toMatchObject({ message: 'rolled back' })
    expect(await fail()).toBe(failures.io)
    failing = false
    await database.write(async (transaction) => insert(transaction, '2'))
    expect(world.query('SELECT id FROM orders')).toEqual([{ id: '2' }])
  })
})

describe('settings', () => {
  it('that SQLite does not support are rejected when the middleware is created', async () => {
    await using world = await nodeKind.open()
    const { database } = world
    for (const options of [
      { isolation: 'read committed' },
      { isolation: 'repeatable read' },
      { statementTimeout: 1 },
      { idleTimeout: 1 },
    ] as const) {
      const [name] = Object.keys(options)
      expect(() => transactionMiddleware(database, options)).toThrow(new RegExp(`^${name} .*SQLite`))
    }
    transactionMiddleware(database, { isolation: 'serializable', statementTimeout: 0, idleTimeout: 0, lockTimeout: 100 })
    expect(() => transactionMiddleware(database, { lockTimeout: -1 })).toThrow(/lockTimeout/)
  })

  it('set the maximum wait for a lock', async () => {
    const runtime = new VirtualRuntime()
    await using world = await nodeKind.open({ runtime })
    const other = world.connect()
    other.exec('BEGIN IMMEDIATE')
    let tries = 0
    const failed = failureOf(
      handle(transactionMiddleware(world.database, { lockTimeout: 200, ...quiet }), async () => {
        tries += 1
        return []
      }),
    )
    await runtime.advance(300)
    expect(await failed).toMatchObject({ code: 'ACKORD_DATABASE_BUSY', message: expect.stringMatching(/200 ms/) })
    expect(tries).toBe(0)
    other.exec('ROLLBACK')
  })
})
