import type { EventEmitter } from 'node:events'
import { compose, Message, type Middleware, rootContext, silentLogger } from '@ackord/core'
import { deferred, recordingLogger } from '@ackord/testkit'
import type { PoolClient } from 'pg'
import { describe, expect, it } from 'vitest'
import { type Database, inboxMiddleware, outboxMiddleware, sqlOutbox, transactional, transactionMiddleware } from '../../../src/index.ts'
import { fromPg } from '../../../src/postgres/index.ts'
import { pg } from '../../support/pg.ts'
import { command, event, failureOf, handle, openPg, postgresUrl, type TestHandle } from '../../support/world.ts'

const inbox = { consumer: 'orders' }
const outbox = { destination: 'events' }

/** Transaction, inbox and outbox as separate middlewares, with `between` before the outbox. */
function parts(database: Database<TestHandle>, between: Middleware): Middleware {
  return compose(transactionMiddleware(database), inboxMiddleware(database, inbox), between, outboxMiddleware(database, outbox))
}

function insertOrder(database: Database<TestHandle>, id = '1') {
  return async () => {
    await database.executor().query('INSERT INTO orders VALUES ($1)', [id])
    return [event('e1')]
  }
}

describe('a transaction on a pg pool', () => {
  it('rolls everything back, and reports the error, when the outbox statement sent with COMMIT fails', async () => {
    await using world = await openPg({ max: 1 })
    const { database } = world
    await world.query('ALTER TABLE ackord_outbox ADD CONSTRAINT no CHECK (id <> $$e1$$)')
    const { message, verdicts } = command('1')
    const process = transactional(database, { inbox, outbox })
    expect(await failureOf(handle(process, insertOrder(database), message))).toMatchObject({ code: '23514' })
    expect(verdicts).toEqual([])
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([0, 0, 0])
    // The connection is still usable: it is the only one of the pool.
    await world.query('ALTER TABLE ackord_outbox DROP CONSTRAINT no')
    await handle(process, insertOrder(database), message)
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([1, 1, 1])
  })

  it('says how to create the missing table of the statement sent with COMMIT', async () => {
    await using world = await openPg()
    await world.query('ALTER TABLE ackord_outbox RENAME TO gone')
    const failure = await failureOf(handle(transactional(world.database, { inbox, outbox }), insertOrder(world.database)))
    expect(failure).toMatchObject({ code: 'ACKORD_SCHEMA', message: expect.stringContaining('createSchema') })
    expect(await world.orders()).toBe(0)
  })

  it('reports that the search path may hide a table when a handler has changed it, and only then', async () => {
    await using world = await openPg()
    const place = (database: Database<TestHandle>, id: string) =>
      handle(
        transactional(database, { inbox, outbox }),
        async () => {
          await database.executor().query('SET LOCAL search_path TO pg_catalog')
          return [event('e1')]
        },
        command(id).message,
      )
    const unqualified = fromPg(world.pool, { logger: silentLogger }) as unknown as Database<TestHandle>
    expect(await failureOf(place(unqualified, '1'))).toMatchObject({
      code: 'ACKORD_SCHEMA',
      message: expect.stringContaining('search_path'),
    })
    // With a configured schema the database does not depend on the search path.
    await place(world.database, '2')
    await world.query('ALTER TABLE ackord_outbox RENAME TO gone')
    expect((await failureOf(place(world.database, '3'))).message).not.toContain('search_path')
  })

  it('names the error that a handler swallowed, even if the outbox statement fails because of it', async () => {
    await using world = await openPg()
    const { database } = world
    const failure = await failureOf(
      handle(transactional(database, { inbox, outbox }), async () => {
        await database
          .executor()
          .query('SELECT 1 / 0')
          .catch(() => {})
        return [event('e1')]
      }),
    )
    expect(failure).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED', cause: { code: '22012' } })
    expect([await world.inbox(), await world.outbox()]).toEqual([0, 0])
  })

  it('has an unknown outcome when the connection is lost while the statement sent with COMMIT is in transit', async () => {
    await using world = await openPg({ max: 1 })
    const { database } = world
    const client = await world.client()
    const { connection } = client as unknown as { connection: { stream: { destroy(): void; write: (...given: unknown[]) => unknown } } }
    client.release()
    const failure = await failureOf(
      handle(transactional(database, { inbox, outbox }), async () => {
        const outputs = await insertOrder(database)()
        // No data written from now on reaches the server.
        connection.stream.write = () => connection.stream.destroy()
        return outputs
      }),
    )
    expect(failure).toMatchObject({ code: 'ACKORD_COMMIT_UNKNOWN' })
    expect(world.pool.totalCount).toBe(0)
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([0, 0, 0])
  })

  it('runs the statements deferred until COMMIT before a later statement of the handler', async () => {
    await using world = await openPg()
    const { database } = world
    const seen: unknown[] = []
    const look: Middleware = (next) => async (message, context) => {
      const outputs = await next(message, context)
      seen.push(...(await database.executor().query('SELECT id FROM ackord_outbox')).rows)
      return outputs
    }
    await handle(parts(database, look), insertOrder(database))
    expect(seen).toEqual([{ id: 'e1' }])
    expect(await world.outbox()).toBe(1)
  })

  it('undoes the outbox of a savepoint with it', async () => {
    await using world = await openPg()
    const { database } = world
    const inner = compose(transactionMiddleware(database), outboxMiddleware(database, outbox))
    const outer = compose(transactionMiddleware(database), outboxMiddleware(database, outbox))
    await handle(outer, async (message, context) => {
      const failing: Middleware = (next) => async (given, inside) => {
        await next(given, inside)
        throw new Error('after the outbox')
      }
      const process = compose(transactionMiddleware(database), failing, outboxMiddleware(database, outbox))
      await failureOf(Promise.resolve(process(async () => [event('undone')])(message, context)))
      await inner(async () => [event('kept')])(message, context)
      return [event('outer')]
    })
    expect(await world.query('SELECT id FROM ackord_outbox ORDER BY seq')).toEqual([{ id: 'kept' }, { id: 'outer' }])
  })

  it('sends nothing if no statement is run in it', async () => {
    await using world = await openPg({ max: 1 })
    const trips = await readyCount(world)
    await handle(transactionMiddleware(world.database), async () => [])
    expect(trips()).toBe(0)
  })

  it('begins before a cursor reads, even if the cursor is the first statement', async () => {
    await using world = await openPg({ max: 1 })
    const { database } = world
    let status: string | undefined
    const submitted = {
      submit(connection: { query(text: string): void }) {
        connection.query('INSERT INTO orders VALUES ($$cursor$$)')
        return null
      },
      handleCommandComplete() {},
      handleReadyForQuery() {
        status = 'done'
        finished.resolve()
      },
      handleError: (error: unknown) => finished.reject(error),
    }
    const finished = deferred<void>()
    const failure = await failureOf(
      handle(transactionMiddleware(database), async () => {
        Reflect.apply(database.executor().query, undefined, [submitted])
        await finished.promise
        throw new Error('back')
      }),
    )
    expect([failure.message, status]).toEqual(['back', 'done'])
    expect(await world.orders()).toBe(0)
  })
})

describe('queries of a handler on a pg pool', () => {
  it('do not modify the query configuration that is passed to them', async () => {
    await using world = await openPg()
    const config = { text: 'SELECT $1::text AS name', values: ['a'] }
    const rows = await world.database.write(async (transaction) => (await transaction.query(config as never)).rows)
    expect(rows).toEqual([{ name: 'a' }])
    expect(config).toEqual({ text: 'SELECT $1::text AS name', values: ['a'] })
  })

  it('accept a configuration that is not a plain object', async () => {
    await using world = await openPg()
    class Sql {
      readonly name: string
      constructor(name: string) {
        this.name = name
      }
      get text(): string {
        return `SELECT '${this.name}' AS name`
      }
    }
    const rows = await world.database.write(async (transaction) => (await transaction.query(new Sql('b') as never)).rows)
    expect(rows).toEqual([{ name: 'b' }])
  })

  it('fail with a stack trace that includes the caller', async () => {
    await using world = await openPg()
    async function countOrders(transaction: TestHandle): Promise<unknown> {
      return await transaction.query('SELECT count(*) FROM no_such_table')
    }
    const failure = await failureOf(
      world.database.write(async (transaction) => {
        await transaction.query('SELECT 1')
        await countOrders(transaction)
      }),
    )
    expect(failure).toMatchObject({ code: '42P01' })
    expect(failure.stack).toContain('countOrders')
  })

  it('run one after another, even if they are started concurrently', async () => {
    await using world = await openPg()
    const done: number[] = []
    await world.database.write(async (transaction) => {
      await transaction.query('SELECT 0')
      await Promise.all(
        [1, 2, 3].map(async (n) => done.push(((await transaction.query('SELECT $1::int AS n', [n])).rows[0] as { n: number }).n)),
      )
    })
    expect(done).toEqual([1, 2, 3])
  })

  it('are awaited before COMMIT, including those that follow the first of them', async () => {
    await using world = await openPg()
    const { database } = world
    await database.write(async (transaction) => {
      await transaction.query('SELECT 1')
      void transaction.query('SELECT 2').then(() => transaction.query("INSERT INTO orders VALUES ('1')"))
    })
    expect(await world.orders()).toBe(1)
  })

  it('fail the transaction and not the process when they are not awaited', async () => {
    await using world = await openPg()
    const failure = await failureOf(
      world.database.write(async (transaction) => {
        await transaction.query("INSERT INTO orders VALUES ('1')")
        void transaction.query('SELECT 1 / 0')
      }),
    )
    expect(failure).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED', cause: { code: '22012' } })
    expect(await world.orders()).toBe(0)
  })

  it('return a promise if undefined is passed instead of a callback', async () => {
    await using world = await openPg()
    const rows = await world.database.write(async (transaction) => {
      await transaction.query('SELECT 1')
      const query = transaction.query as (...given: unknown[]) => Promise<{ rows: unknown[] }>
      return (await query('SELECT 2 AS two', [], undefined)).rows
    })
    expect(rows).toEqual([{ two: 2 }])
  })

  it('end once each, even with a parameter that pg cannot serialise: COMMIT does not overtake other queries', async () => {
    await using world = await openPg({ max: 1 })
    const circular: { self?: unknown } = {}
    circular.self = circular
    const failure = await failureOf(
      world.database.write(async (transaction) => {
        for (let count = 0; count < 3; count += 1) await transaction.query('SELECT $1::json', [circular]).catch(() => {})
        for (let count = 0; count < 2; count += 1) await transaction.query('SELECT 1')
        for (const sql of ['SELECT 1 / 0', 'SELECT 1']) void transaction.query(sql)
        for (const id of ['a', 'b']) void transaction.query('INSERT INTO orders VALUES ($1)', [id])
      }),
    )
    expect(failure).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
    // The pool has one connection, so the queries queued behind the transaction have run by then.
    await world.database.write(async (transaction) => await transaction.query('SELECT 1'))
    expect(await world.orders()).toBe(0)
  })

  it.each([0, 1, 2, 3])('are not overtaken by COMMIT when they are started %i steps after the last one ended', async (steps) => {
    await using world = await openPg({ max: 1 })
    await world.database
      .write(async (transaction) => {
        await transaction.query('SELECT 1')
        const more = async () => {
          await transaction.query("INSERT INTO orders VALUES ('1')")
          for (let step = 0; step < steps; step += 1) await undefined
          await Promise.all([transaction.query('SELECT 1 / 0'), transaction.query("INSERT INTO orders VALUES ('outside')")])
        }
        void more().catch(() => {})
      })
      .catch(() => {})
    const rows = await world.query('SELECT id FROM orders')
    expect(rows.map((row) => row['id'])).not.toContain('outside')
  })

  it('fail when the client throws synchronously, and others continue', async () => {
    await using world = await openPg()
    await world.database.write(async (transaction) => {
      await transaction.query('SELECT 1')
      const circular: { self?: unknown } = {}
      circular.self = circular
      expect(await failureOf(transaction.query('SELECT $1::json', [circular]))).toBeInstanceOf(TypeError)
      await transaction.query("INSERT INTO orders VALUES ('1')")
    })
    expect(await world.orders()).toBe(1)
  })
})

describe('prepared statements on a pg pool', () => {
  async function preparedNames(client: PoolClient): Promise<readonly string[]> {
    const { rows } = await client.query<{ name: string }>('SELECT name FROM pg_prepared_statements ORDER BY name')
    return rows.map(({ name }) => name)
  }

  it('are created once per connection, for the library’s own statements', async () => {
    await using world = await openPg({ max: 1 })
    const process = transactional(world.database, { inbox, outbox })
    for (const id of ['1', '2', '3']) await handle(process, insertOrder(world.database, id), command(id).message)
    const client = await world.client()
    const names = await preparedNames(client)
    client.release()
    // BEGIN, inbox, outbox, COMMIT.
    expect(names).toHaveLength(4)
    expect(names.every((name) => name.startsWith('ackord_'))).toBe(true)
    expect(await world.outbox()).toBe(3)
  })

  it.each(['DEALLOCATE ALL', 'DISCARD ALL'])('are created again without an error after %s', async (sql) => {
    await using world = await openPg({ max: 1 })
    const { database } = world
    const process = transactional(database, { inbox, outbox })
    const store = sqlOutbox(database, { logger: silentLogger })
    for (const id of ['1', '2', '3']) {
      await handle(process, insertOrder(database, id), command(id).message)
      expect(await store.claim({ limit: 1, lease: 1000 })).toHaveLength(1)
      await store.stats()
      const client = await world.client()
      await client.query(sql)
      // DISCARD ALL also resets the search path, in this version of the server.
      await client.query(`SET search_path TO ${world.schema}`)
      client.release()
    }
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([3, 3, 3])
  })

  it('survive a failure in the middle of a pipeline', async () => {
    await using world = await openPg({ max: 1 })
    const { database } = world
    const process = transactional(database, { inbox, outbox })
    await world.query('ALTER TABLE ackord_outbox ADD CONSTRAINT no CHECK (destination <> $$events$$)')
    await failureOf(handle(process, insertOrder(database, '1'), command('1').message))
    await world.query('ALTER TABLE ackord_outbox DROP CONSTRAINT no')
    for (const id of ['1', '2']) await handle(process, insertOrder(database, id), command(id).message)
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([2, 2, 2])
  })

  it('are not created with preparedStatements: false', async () => {
    await using world = await openPg()
    const pool = new pg.Pool({ connectionString: postgresUrl, max: 1, options: `-c search_path=${world.schema}` })
    try {
      const database = fromPg(pool, { schema: world.schema, preparedStatements: false, logger: silentLogger })
      await handle(transactional(database, { inbox, outbox }), async () => {
        await database.executor().query("INSERT INTO orders VALUES ('1')")
        return [event('e1')]
      })
      expect((await pool.query('SELECT name FROM pg_prepared_statements')).rows).toEqual([])
    } finally {
      await pool.end()
    }
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([1, 1, 1])
  })
})

describe('a pg pool after a failover, whose connections lead to a read-only server', () => {
  /** Opens a pool whose first connections are read-only. */
  function openPool(schema: string, { stale }: { readonly stale: number }) {
    let connected = 0
    const pool = new pg.Pool({ connectionString: postgresUrl, max: 3, options: `-c search_path=${schema}` })
    pool.on('connect', (client) => {
      connected += 1
      // The pool may replace the connection before the server responds.
      if (connected <= stale) client.query('SET default_transaction_read_only = on').catch(() => {})
    })
    return pool
  }

  it('gets a new connection, on which the message is handled', async () => {
    await using world = await openPg()
    const pool = openPool(world.schema, { stale: 2 })
    try {
      const database = fromPg(pool, { schema: world.schema, logger: silentLogger }) as unknown as Database<TestHandle>
      const process = transactional(database, { inbox, outbox })
      // The next connection that the pool opens is read-only too, and reports it when it is checked.
      expect(await failureOf(handle(process, insertOrder(database), command('1').message))).toMatchObject({
        code: 'ACKORD_STORE_REFUSES_WRITES',
        cause: { code: '25006' },
      })
      // The first attempt uses that connection and fails; the next one uses a writable connection.
      await handle(process, insertOrder(database), command('1').message)
      expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([1, 1, 1])
    } finally {
      await pool.end()
    }
  })

  it('replaces connections that a relay would get again and again', async () => {
    await using world = await openPg()
    const pool = openPool(world.schema, { stale: 3 })
    try {
      const clients = await Promise.all([1, 2, 3].map(() => pool.connect()))
      for (const client of clients) client.release()
      expect(pool.idleCount).toBe(3)
      const store = sqlOutbox(fromPg(pool, { schema: world.schema, logger: silentLogger }))
      expect(await failureOf(store.claim({ limit: 1, lease: 1000 }))).toMatchObject({ code: '25006' })
      expect(await store.claim({ limit: 1, lease: 1000 })).toEqual([])
    } finally {
      await pool.end()
    }
  })
})

describe('a pg pool in pipeline mode', () => {
  it('works, statement by statement', async () => {
    await using world = await openPg()
    const pool = new pg.Pool({ connectionString: postgresUrl, max: 2, options: `-c search_path=${world.schema}`, pipeline: true } as object)
    try {
      const database = fromPg(pool, { schema: world.schema, logger: recordingLogger() })
      const process = transactional(database, { inbox, outbox })
      const place = (id: string) => async () => {
        await database.executor().query('INSERT INTO orders VALUES ($1)', [id])
        return [event(`e${id}`)]
      }
      await Promise.all(['1', '2', '1'].map((id) => handle(process, place(id), command(id).message)))
      const swallowed = handle(
        process,
        async () => {
          await database
            .executor()
            .query('SELECT 1 / 0')
            .catch(() => {})
          return [event('e3')]
        },
        command('3').message,
      )
      expect(await failureOf(swallowed)).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED' })
      expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([2, 2, 2])
    } finally {
      await pool.end()
    }
  })
})

describe('database.write()', () => {
  it('commits the changes of its function, with the events, and returns its result', async () => {
    await using world = await openPg({ max: 1 })
    const { database } = world
    const trips = await readyCount(world)
    const store = sqlOutbox(database)
    const bytes = new Message(new Uint8Array([1]), event('e1').attributes)
    const answer = await database.write(async (transaction) => {
      await transaction.query("INSERT INTO orders VALUES ('1')")
      // A repository uses the same transaction.
      await database.executor().query("INSERT INTO orders VALUES ('2')")
      await store.append(transaction, [{ destination: 'events', message: bytes }])
      return 'stored'
    })
    expect(answer).toBe('stored')
    // BEGIN, two statements, the event with COMMIT.
    expect(trips()).toBe(4)
    expect([await world.orders(), await world.outbox()]).toEqual([2, 1])
  })

  it('rolls back when its function rejects, and when its signal is aborted', async () => {
    await using world = await openPg()
    const { database } = world
    const failure = new Error('no')
    const insert = async (transaction: TestHandle) => {
      await transaction.query("INSERT INTO orders VALUES ('1')")
    }
    const rejected = database.write(async (transaction) => {
      await insert(transaction)
      throw failure
    })
    expect(await failureOf(rejected)).toBe(failure)
    const controller = new AbortController()
    const aborted = database.write(
      async (transaction) => {
        await insert(transaction)
        controller.abort(failure)
      },
      { context: rootContext({ signal: controller.signal }) },
    )
    expect(await failureOf(aborted)).toBe(failure)
    expect(await world.orders()).toBe(0)
    await database.write(insert)
    expect(await world.orders()).toBe(1)
  })

  it('is a savepoint in a handler', async () => {
    await using world = await openPg()
    const { database } = world
    await handle(transactionMiddleware(database), async () => {
      await database.executor().query("INSERT INTO orders VALUES ('outside')")
      await failureOf(
        database.write(async (transaction) => {
          await transaction.query("INSERT INTO orders VALUES ('inside')")
          throw new Error('no')
        }),
      )
      return []
    })
    expect(await world.query('SELECT id FROM orders')).toEqual([{ id: 'outside' }])
  })

  it('rejects unknown options and a transaction whose end it cannot observe', async () => {
    await using world = await openPg()
    const { database } = world
    // @ts-expect-error The option is named retries.
    expect(await failureOf(database.write(async () => {}, { retry: 1 }))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    const client = await world.client()
    const context = database.withTransaction(rootContext(), client)
    expect(await failureOf(database.write(async () => {}, { context }))).toMatchObject({ code: 'ACKORD_MIDDLEWARE_ORDER' })
    client.release()
  })

  it('revokes its handle when it has ended', async () => {
    await using world = await openPg()
    const kept = await world.database.write(async (transaction) => transaction)
    expect(await failureOf(kept.query('SELECT 1'))).toMatchObject({
      code: 'ACKORD_SCOPE_ENDED',
      message: expect.stringContaining('database.write()'),
    })
  })
})

/** Counts round trips on the pool's only connection: the server sends ReadyForQuery once per round trip. */
async function readyCount(world: { readonly client: () => Promise<PoolClient> }): Promise<() => number> {
  let trips = 0
  const client = await world.client()
  const { connection } = client as unknown as { connection: EventEmitter }
  connection.on('readyForQuery', () => {
    trips += 1
  })
  client.release()
  return () => trips
}
