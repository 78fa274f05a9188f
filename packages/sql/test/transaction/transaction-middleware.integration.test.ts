import { afterCommit, currentContext, rootContext, silentLogger } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import { deferred } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { CommitUnknownError, TransactionAbortedError, transactionMiddleware } from '../../src/index.ts'
import { command, failureOf, handle, openPg, type TestHandle, worldKinds } from '../support/world.ts'

const failure = new Error('failed')

describe.each(worldKinds)('transactionMiddleware() on $name', ({ open }) => {
  it('commits the writes of the handler, then acks', async () => {
    await using world = await open()
    const { database } = world
    const { message, verdicts } = command('1')
    const events: string[] = []
    await handle(
      transactionMiddleware(database),
      async (given, context) => {
        await database.executor().query("INSERT INTO orders VALUES ('1')")
        afterCommit(context, () => void events.push(`committed, ${verdicts.length} acked`))
        // A7: an early ack waits for the commit.
        expect(await given.ack()).toBe(true)
        expect(verdicts).toEqual([])
        return []
      },
      message,
    )
    expect(await world.orders()).toBe(1)
    expect(events).toEqual(['committed, 0 acked'])
    expect(verdicts).toEqual([{ verdict: 'ack' }])
  })

  it('leaves no trace of a handler that throws, and the next message finds a clean connection', async () => {
    await using world = await open()
    const { database } = world
    const transaction = transactionMiddleware(database)
    // A11: also when the handler throws instead of rejecting.
    for (const fail of [
      () => Promise.reject(failure),
      () => {
        throw failure
      },
    ]) {
      const rejected = handle(transaction, async (message) => {
        await database.executor().query("INSERT INTO orders VALUES ('1')")
        await message.ack()
        return fail()
      })
      expect(await failureOf(rejected)).toBe(failure)
      expect(await world.orders()).toBe(0)
    }
    await handle(transaction, async () => {
      await database.executor().query("INSERT INTO orders VALUES ('1')")
      return []
    })
    expect(await world.orders()).toBe(1)
  })

  it('provides the transaction only inside, by context and ambient', async () => {
    await using world = await open()
    const { database } = world
    let seen: TestHandle | undefined
    await handle(transactionMiddleware(database), async (message, context) => {
      seen = database.transaction()
      expect(seen).toBeDefined()
      expect(database.transaction(context)).toBe(seen)
      expect(database.executor(context, { required: true })).toBe(seen)
      expect(currentContext()).toBe(context)
      // A10: not on the message, so that no copy or output can carry it.
      expect(database.transaction(message.context(rootContext()))).toBeUndefined()
      expect(JSON.stringify(message)).not.toContain('query')
      return []
    })
    expect(database.transaction()).toBeUndefined()
    expect(await database.executor().query('SELECT 1 AS one')).toMatchObject({ rows: [{ one: 1 }] })
    expect(() => database.executor(undefined, { required: true })).toThrow(expect.objectContaining({ code: 'ACKORD_TRANSACTION_REQUIRED' }))
  })

  it('rejects queries on the handle after the end', async () => {
    await using world = await open()
    const { database } = world
    let kept: TestHandle | undefined
    await handle(transactionMiddleware(database), async () => {
      kept = database.executor()
      return []
    })
    // A14
    const error = await failureOf(kept?.query("INSERT INTO orders VALUES ('late')") ?? Promise.resolve())
    expect(error).toMatchObject({ code: 'ACKORD_SCOPE_ENDED', message: expect.stringMatching(/Await every query/) })
    expect(await world.orders()).toBe(0)
  })

  it('waits for queries that the handler did not await, and for those that they start', async () => {
    await using world = await open()
    const { database } = world
    await handle(transactionMiddleware(database), async () => {
      void (async () => {
        await database.executor().query("INSERT INTO orders VALUES ('1')")
        await database.executor().query("INSERT INTO orders VALUES ('2')")
      })()
      return []
    })
    expect(await world.orders()).toBe(2)
  })

  it('fails when an un-awaited query failed', async () => {
    await using world = await open()
    const { database } = world
    const error = await failureOf(
      handle(transactionMiddleware(database), async () => {
        await database.executor().query("INSERT INTO orders VALUES ('1')")
        void database.executor().query('INSERT INTO nowhere VALUES (1)')
        return []
      }),
    )
    expect(error).toBeInstanceOf(TransactionAbortedError)
    expect(error.cause).toMatchObject({ code: '42P01' })
    expect(await world.orders()).toBe(0)
  })

  it('treats a COMMIT that answers ROLLBACK as a failure: a handler swallowed the error of a statement', async () => {
    await using world = await open()
    const { database } = world
    const { message, verdicts } = command('1')
    // A1, A2
    const error = await failureOf(
      handle(
        transactionMiddleware(database),
        async (given) => {
          await database.executor().query("INSERT INTO orders VALUES ('1')")
          await database
            .executor()
            .query("INSERT INTO orders VALUES ('1')")
            .catch(() => {})
          await given.ack()
          return []
        },
        message,
      ),
    )
    expect(error).toBeInstanceOf(TransactionAbortedError)
    expect(error.cause).toMatchObject({ code: '23505' })
    expect(verdicts).toEqual([])
    expect(message.state).toBe('pending')
    expect(await world.orders()).toBe(0)
    await handle(transactionMiddleware(database), async () => {
      await database.executor().query("INSERT INTO orders VALUES ('2')")
      return []
    })
    expect(await world.orders()).toBe(1)
  })

  it('fails when a deferred constraint rejects the COMMIT', async () => {
    await using world = await open()
    const { database } = world
    await world.query('ALTER TABLE orders ADD UNIQUE (note) DEFERRABLE INITIALLY DEFERRED')
    const error = await failureOf(
      handle(transactionMiddleware(database), async () => {
        await database.executor().query("INSERT INTO orders VALUES ('1', 'same'), ('2', 'same')")
        return []
      }),
    )
    expect(error).toMatchObject({ code: '23505' })
    expect(error).not.toBeInstanceOf(CommitUnknownError)
    expect(await world.orders()).toBe(0)
  })

  it('rolls back, and carries out the verdict, when the message is nacked or rejected inside', async () => {
    await using world = await open()
    const { database } = world
    for (const verdict of ['nack', 'reject'] as const) {
      const { message, verdicts } = command('1')
      await handle(
        transactionMiddleware(database),
        async (given) => {
          await database.executor().query("INSERT INTO orders VALUES ('1')")
          await given[verdict](failure)
          expect(verdicts).toEqual([])
          return []
        },
        message,
      )
      expect(verdicts).toEqual([{ verdict, error: failure }])
      expect(await world.orders()).toBe(0)
    }
  })

  it('rolls back when the signal was aborted, and rejects further queries of the handler', async () => {
    await using world = await open()
    const { database } = world
    const controller = new AbortController()
    const tried: unknown[] = []
    const rejected = handle(
      transactionMiddleware(database),
      async () => {
        await database.executor().query("INSERT INTO orders VALUES ('1')")
        controller.abort(failure)
        await database
          .executor()
          .query('SELECT 1')
          .catch((error: unknown) => tried.push(error))
        return []
      },
      command('1').message,
      controller.signal,
    )
    expect(await failureOf(rejected)).toBe(failure)
    expect(tried).toEqual([failure])
    expect(await world.orders()).toBe(0)
  })

  it('never calls next on an aborted signal', async () => {
    await using world = await open()
    const transaction = transactionMiddleware(world.database)
    let calls = 0
    const next = async () => {
      calls += 1
      return []
    }
    expect(await failureOf(handle(transaction, next, command('1').message, AbortSignal.abort(failure)))).toBe(failure)
    const controller = new AbortController()
    const remove = installProbe((point) => {
      if (point === 'transaction.begun') controller.abort(failure)
    })
    expect(await failureOf(handle(transaction, next, command('1').message, controller.signal))).toBe(failure)
    remove()
    expect(calls).toBe(0)
  })

  it('passes the named probes in order', async () => {
    await using world = await open()
    const points: string[] = []
    const remove = installProbe((point) => void points.push(point))
    await handle(transactionMiddleware(world.database), async () => [])
    remove()
    expect(points).toEqual(['transaction.begun', 'transaction.beforeCommit', 'transaction.afterCommit'])
  })

  it('begins with its settings', async () => {
    await using world = await open()
    const { database } = world
    const settings = async () =>
      (
        await database.executor().query(
          `SELECT current_setting('transaction_isolation') AS isolation, current_setting('statement_timeout') AS statement,
           current_setting('lock_timeout') AS lock, current_setting('idle_in_transaction_session_timeout') AS idle`,
        )
      ).rows[0]
    const before = await settings()
    let inside: unknown
    // A34
    const options = { isolation: 'serializable', statementTimeout: 5000, lockTimeout: 2000, idleTimeout: 7000 } as const
    await handle(transactionMiddleware(database, options), async () => {
      inside = await settings()
      return []
    })
    expect(inside).toEqual({ isolation: 'serializable', statement: '5s', lock: '2s', idle: '7s' })
    expect(await settings()).toEqual(before)
  })

  it('rejects invalid settings', async () => {
    await using world = await open()
    const make = (options: object) => () => transactionMiddleware(world.database, options)
    expect(make({ isolation: 'serializable; DROP TABLE orders' })).toThrow(/isolation must be one of/)
    expect(make({ statementTimeout: -1 })).toThrow(/statementTimeout must be/)
    expect(make({ retries: 1.5 })).toThrow(/retries must be/)
  })

  it('rejects a statement that would end the transaction', async () => {
    await using world = await open()
    const { database } = world
    for (const sql of ['COMMIT', ' rollback', 'BEGIN', 'end;', 'Start Transaction']) {
      const error = await failureOf(
        handle(transactionMiddleware(database), async () => {
          await database.executor().query("INSERT INTO orders VALUES ('1')")
          await database.executor().query(sql)
          return []
        }),
      )
      expect(error.message).toMatch(/would begin or end the transaction/)
      expect(await world.orders()).toBe(0)
    }
    await handle(transactionMiddleware(database), async () => {
      for (const sql of ['SAVEPOINT mine', 'ROLLBACK TO SAVEPOINT mine', "INSERT INTO orders VALUES ('1')"])
        await database.executor().query(sql)
      return []
    })
    expect(await world.orders()).toBe(1)
  })

  it('retries a transaction that lost a conflict, as a whole', async () => {
    await using world = await open()
    const { database } = world
    let calls = 0
    const counted: string[] = []
    const metrics = { count: (name: string) => void counted.push(name), observe() {}, gauge() {} }
    await handle(transactionMiddleware(database, { metrics }), async (message) => {
      calls += 1
      await database.executor().query('INSERT INTO orders VALUES ($1)', [String(calls)])
      await message.ack()
      // A3, C5; wrapped, as repositories do.
      if (calls < 3) {
        await database
          .executor()
          .query("DO $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END $$")
          .catch((cause: unknown) => {
            throw new Error('could not save', { cause })
          })
      }
      return []
    })
    expect(calls).toBe(3)
    expect(await world.query('SELECT id FROM orders')).toEqual([{ id: '3' }])
    expect(counted).toHaveLength(2)
  })

  it('gives up after its retries', async () => {
    await using world = await open()
    const { database } = world
    let calls = 0
    const error = await failureOf(
      handle(transactionMiddleware(database, { retries: 1 }), async () => {
        calls += 1
        await database.executor().query("DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$")
        return []
      }),
    )
    expect(error).toMatchObject({ code: '40P01' })
    expect(calls).toBe(2)
  })

  it('finds the transaction of its pool through another Database of the same pool', async () => {
    await using world = await open()
    const { database } = world
    await handle(transactionMiddleware(database), async (_, context) => {
      const handle = database.transaction()
      if (handle === undefined) throw failure
      // A transaction that is passed on explicitly is the same transaction.
      expect(database.transaction(database.withTransaction(rootContext(), handle))).toBe(handle)
      expect(() => database.withTransaction(context, database.executor(rootContext()))).toThrow(/the pool itself/)
      return []
    })
  })
})

describe.each(worldKinds)('a nested transaction on $name', ({ open }) => {
  it('is a savepoint: a failure in it is undone alone', async () => {
    await using world = await open()
    const { database } = world
    const transaction = transactionMiddleware(database)
    const events: string[] = []
    // A13: on the same connection.
    await handle(transaction, async (message, context) => {
      await database.executor().query("INSERT INTO orders VALUES ('outer')")
      const inner = transaction(async (_, inside) => {
        afterCommit(inside, () => void events.push('inner'))
        await database.executor().query("INSERT INTO orders VALUES ('inner')")
        throw failure
      })
      expect(await failureOf(inner(message, context))).toBe(failure)
      afterCommit(context, () => void events.push('outer'))
      return []
    })
    expect(await world.query('SELECT id FROM orders')).toEqual([{ id: 'outer' }])
    expect(events).toEqual(['outer'])
  })

  it('commits with the outer one, and is rolled back with it', async () => {
    await using world = await open()
    const { database } = world
    const transaction = transactionMiddleware(database)
    const events: string[] = []
    const run = (fail: boolean) =>
      handle(transaction, async (message, context) => {
        await transaction(async (_, inside) => {
          afterCommit(inside, () => void events.push('inner'))
          await database.executor().query("INSERT INTO orders VALUES ('inner')")
          return []
        })(message, context)
        if (fail) throw failure
        expect(events).toEqual([])
        return []
      })
    await failureOf(run(true))
    expect([await world.orders(), events]).toEqual([0, []])
    await run(false)
    expect([await world.orders(), events]).toEqual([1, ['inner']])
  })

  it('fails when an error was swallowed in it, and leaves the outer transaction usable', async () => {
    await using world = await open()
    const { database } = world
    const transaction = transactionMiddleware(database)
    await handle(transaction, async (message, context) => {
      const inner = transaction(async () => {
        await database
          .executor()
          .query('INSERT INTO nowhere VALUES (1)')
          .catch(() => {})
        return []
      })
      expect(await failureOf(inner(message, context))).toMatchObject({ code: '25P02' })
      await database.executor().query("INSERT INTO orders VALUES ('outer')")
      return []
    })
    expect(await world.orders()).toBe(1)
  })

  it('makes the whole transaction roll back when the message is nacked in it', async () => {
    await using world = await open()
    const { database } = world
    const transaction = transactionMiddleware(database)
    const { message, verdicts } = command('1')
    const rejected = handle(
      transaction,
      async (given, context) => {
        await database.executor().query("INSERT INTO orders VALUES ('outer')")
        return await transaction(async () => {
          await given.nack(failure)
          return []
        })(given, context)
      },
      message,
    )
    expect(await failureOf(rejected)).toBe(failure)
    expect(verdicts).toEqual([{ verdict: 'nack', error: failure }])
    expect(await world.orders()).toBe(0)
  })

  it('rejects a transaction that it does not own and whose end it cannot observe', async () => {
    await using world = await open()
    const { database } = world
    const own = { query: async () => ({ rows: [] }) }
    const { message } = command('1')
    const context = database.withTransaction(message.context(rootContext()), own)
    const error = await failureOf(transactionMiddleware(database)(async () => [])(message, context))
    expect(error).toMatchObject({ code: 'ACKORD_MIDDLEWARE_ORDER' })
  })
})

describe('transactionMiddleware() on a pg pool', () => {
  it('works with a pool of one connection, also nested', async () => {
    await using world = await openPg({ max: 1 })
    const { database } = world
    const transaction = transactionMiddleware(database)
    await handle(transaction, async (message, context) => {
      return await transaction(async () => {
        await database.executor().query("INSERT INTO orders VALUES ('1')")
        return []
      })(message, context)
    })
    expect(await world.orders()).toBe(1)
    expect(world.pool.totalCount).toBe(1)
  })

  it('works with a pool smaller than the concurrency', async () => {
    await using world = await openPg({ max: 2 })
    const { database } = world
    const transaction = transactionMiddleware(database)
    await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        handle(transaction, async () => {
          await database.executor().query('INSERT INTO orders VALUES ($1)', [String(index)])
          return []
        }),
      ),
    )
    expect(await world.orders()).toBe(30)
    expect(world.pool.waitingCount).toBe(0)
  })

  it('stops waiting for a connection when the signal is aborted, and releases one that arrives later', async () => {
    await using world = await openPg({ max: 1 })
    const holder = await world.client()
    const controller = new AbortController()
    const waiting = handle(transactionMiddleware(world.database), async () => [], command('1').message, controller.signal)
    controller.abort(failure)
    expect(await failureOf(waiting)).toBe(failure)
    holder.release()
    await handle(transactionMiddleware(world.database), async () => [])
    expect(world.pool.idleCount).toBe(1)
  })

  it('is rolled back by the server, and drops the connection, when the backend is terminated during the transaction', async () => {
    await using world = await openPg()
    const { database } = world
    const { message, verdicts } = command('1')
    const transaction = transactionMiddleware(database)
    // A12
    const error = await failureOf(
      handle(
        transaction,
        async (given) => {
          await database.executor().query("INSERT INTO orders VALUES ('1')")
          await given.ack()
          const { rows } = await database.executor().query('SELECT pg_backend_pid() AS pid')
          await world.query('SELECT pg_terminate_backend($1)', [rows[0]?.['pid']])
          // The transaction fails even if the handler ignores the error.
          await database
            .executor()
            .query('SELECT 1')
            .catch(() => {})
          return []
        },
        message,
      ),
    )
    expect(error).not.toBeInstanceOf(CommitUnknownError)
    expect([verdicts, message.state]).toEqual([[], 'pending'])
    expect(await world.orders()).toBe(0)
    expect(world.pool.totalCount).toBe(0)
    await handle(transaction, async () => {
      await database.executor().query("INSERT INTO orders VALUES ('1')")
      return []
    })
    expect(await world.orders()).toBe(1)
  })

  it('has an unknown outcome when the connection is lost during COMMIT: no callback, no ack, no reuse', async () => {
    await using world = await openPg()
    const { database } = world
    const { message, verdicts } = command('1')
    const events: string[] = []
    // A deferred trigger keeps the COMMIT running until the backend is terminated. A4
    await world.query(
      `CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock_shared(815); RETURN NULL; END $$`,
    )
    await world.query(
      'CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()',
    )
    const holder = await world.client()
    await holder.query('SELECT pg_advisory_lock(815)')
    let pid: unknown
    const waiting = failureOf(
      handle(
        transactionMiddleware(database, { logger: silentLogger }),
        async (given, context) => {
          pid = (await database.executor().query('SELECT pg_backend_pid() AS pid')).rows[0]?.['pid']
          await database.executor().query("INSERT INTO orders VALUES ('1')")
          afterCommit(context, () => void events.push('committed'))
          await given.ack()
          return []
        },
        message,
      ),
    )
    // Waits until the COMMIT waits for the lock that the trigger requests.
    for (let found = 0; found === 0; ) {
      found = (await world.query("SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND query = 'COMMIT' AND wait_event_type = 'Lock'", [pid]))
        .length
    }
    await world.query('SELECT pg_terminate_backend($1)', [pid])
    const error = await waiting
    await holder.query('SELECT pg_advisory_unlock(815)')
    holder.release()
    expect(error).toBeInstanceOf(CommitUnknownError)
    expect(error.message).toMatch(/not known whether/)
    expect([events, verdicts, message.state]).toEqual([[], [], 'pending'])
    expect(world.pool.totalCount).toBe(1)
  })

  it('logs an idle connection that breaks, and continues with another', async () => {
    await using world = await openPg({ max: 1 })
    const lines: string[] = []
    const { fromPg } = await import('../../src/postgres/index.ts')
    let broke = () => {}
    const broken = new Promise<void>((resolve) => {
      broke = resolve
    })
    const { pg } = await import('../support/pg.ts')
    const pool = new pg.Pool({ ...world.pool.options, max: 1 })
    const note = (_: object, text: string) => {
      lines.push(text)
      broke()
    }
    const database = fromPg(pool, { logger: { ...silentLogger, warn: note } })
    const { rows } = await database.executor().query('SELECT pg_backend_pid() AS pid')
    await world.query('SELECT pg_terminate_backend($1)', [rows[0].pid])
    await broken
    await handle(transactionMiddleware(database), async () => {
      await database.executor().query("INSERT INTO orders VALUES ('1')")
      return []
    })
    await pool.end()
    expect([lines, await world.orders()]).toEqual([[expect.stringMatching(/idle connection/)], 1])
  })

  it('drops a connection whose BEGIN failed', async () => {
    await using world = await openPg({ max: 1 })
    const { database, pool } = world
    const client = await world.client()
    const query = client.query.bind(client)
    // The pool returns the same client again.
    Object.assign(client, {
      query: (...given: unknown[]) => (given[0] === 'BEGIN' ? Promise.reject(failure) : Reflect.apply(query, client, given)),
    })
    client.release()
    const rejected = handle(transactionMiddleware(database), async () => {
      await database.executor().query('SELECT 1')
      return []
    })
    expect(await failureOf(rejected)).toBe(failure)
    expect(pool.totalCount).toBe(0)
  })

  it('drops a connection whose ROLLBACK failed, and reports the first error', async () => {
    await using world = await openPg({ max: 1 })
    const { database, pool } = world
    const client = await world.client()
    const query = client.query.bind(client)
    Object.assign(client, {
      query: (...given: Parameters<typeof query>) => (given[0] === 'ROLLBACK' ? Promise.reject(new Error('no')) : query(...given)),
    })
    client.release()
    const rejected = handle(transactionMiddleware(database), async () => {
      await database.executor().query('SELECT 1')
      throw failure
    })
    expect(await failureOf(rejected)).toBe(failure)
    expect(pool.totalCount).toBe(0)
  })

  it('retries a real deadlock', async () => {
    await using world = await openPg()
    const { database } = world
    await world.query("INSERT INTO orders VALUES ('a', '0'), ('b', '0')")
    const transaction = transactionMiddleware(database)
    let meeting = 0
    let meet = () => {}
    const met = new Promise<void>((resolve) => {
      meet = resolve
    })
    const won = deferred()
    const update = async (first: string, second: string) => {
      let tries = 0
      await handle(transaction, async () => {
        tries += 1
        // Otherwise the retry could lock its first row again before the other transaction, which waits for that row, resumes.
        if (tries > 1) await won.promise
        await database.executor().query("UPDATE orders SET note = note || '1' WHERE id = $1", [first])
        meeting += 1
        if (meeting === 2) meet()
        await met
        await database.executor().query("UPDATE orders SET note = note || '1' WHERE id = $1", [second])
        return []
      })
      won.resolve()
    }
    await Promise.all([update('a', 'b'), update('b', 'a')])
    expect(await world.query('SELECT note FROM orders')).toEqual([{ note: '011' }, { note: '011' }])
    expect(meeting).toBe(3)
  })

  it('accepts queries with a callback, with a configuration, and many at once', async () => {
    await using world = await openPg()
    const { pool } = world
    const { fromPg } = await import('../../src/postgres/index.ts')
    const database = fromPg(pool)
    await handle(transactionMiddleware(database), async () => {
      const handle = database.executor()
      await Promise.all([1, 2, 3].map((id) => handle.query('INSERT INTO orders VALUES ($1)', [String(id)])))
      await handle.query({ text: 'INSERT INTO orders VALUES ($1)', values: ['4'] })
      await new Promise<void>((resolve, reject) =>
        handle.query("INSERT INTO orders VALUES ('5')", (error: Error | null) => (error ? reject(error) : resolve())),
      )
      handle.query("INSERT INTO orders VALUES ('6')", () => {})
      return []
    })
    expect(await world.orders()).toBe(6)
  })

  it('reports that it received a client instead of a pool', async () => {
    const { fromPg } = await import('../../src/postgres/index.ts')
    // An untyped caller may pass a client.
    const client = { query: async () => ({ rows: [] }), connect: async () => {}, on() {} } as unknown as Parameters<typeof fromPg>[0]
    expect(await failureOf(handle(transactionMiddleware(fromPg(client)), async () => []))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    expect(() => fromPg({} as never)).toThrow(/connect must be a function/)
  })
})
