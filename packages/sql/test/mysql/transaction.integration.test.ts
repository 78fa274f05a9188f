import { afterCommit, silentLogger } from '@ackord/core'
import { cutAt, startFaultProxy } from '@ackord/testkit'
import { createPool as createCallbackPool } from 'mysql2'
import { describe, expect, it } from 'vitest'
import { CommitUnknownError, sqlOutbox, TransactionAbortedError, transactional, transactionMiddleware } from '../../src/index.ts'
import { fromMariadb, fromMysql2 } from '../../src/mysql/index.ts'
import { command, event, failureOf, handle } from '../support/world.ts'
import { loseDeadlock } from './support/deadlock.ts'
import { isMariadb, statementsPerMessage } from './support/flavour.ts'
import { type MysqlHandle, type MysqlWorld, mariadbUrl, mysqlKinds, openMysql2 } from './support/mysql-world.ts'

const failure = new Error('failed')
const parts = { inbox: { consumer: 'orders' }, outbox: { destination: 'events' }, transaction: { logger: silentLogger } }

function insert({ run }: MysqlWorld, id: string): Promise<unknown> {
  return run('INSERT INTO orders (id) VALUES (?)', [id])
}

async function idsIn(world: MysqlWorld): Promise<unknown[]> {
  return (await world.query('SELECT id FROM orders ORDER BY id')).map(({ id }) => id)
}

describe.each(mysqlKinds)('a transaction on $name', ({ open }) => {
  it('commits the writes of the handler with query and execute, in all forms', async () => {
    await using world = await open({ max: 1 })
    const { database } = world
    await handle(transactionMiddleware(database), async () => {
      const transaction = database.executor()
      await transaction.query('INSERT INTO orders (id) VALUES (?)', ['1'])
      await transaction.execute('INSERT INTO orders (id) VALUES (?)', ['2'])
      await (transaction as unknown as { query(options: object): Promise<unknown> }).query({
        sql: 'INSERT INTO orders (id) VALUES (?)',
        values: ['3'],
      })
      await Promise.all(['4', '5'].map((id) => transaction.query('INSERT INTO orders (id) VALUES (?)', [id])))
      return []
    })
    expect(await idsIn(world)).toEqual(['1', '2', '3', '4', '5'])
    expect(world.connections()).toEqual({ all: 1, free: 1 })
  })

  it('sends nothing if no statement is run in it', async () => {
    await using world = await open({ max: 1 })
    const statements = await questions(world)
    await handle(transactionMiddleware(world.database), async () => [])
    expect(await statements()).toBe(0)
  })

  it('adds two statements of the library per message', async () => {
    await using world = await open({ max: 1 })
    const process = transactional(world.database, parts)
    const place = (id: string) =>
      handle(
        process,
        async () => {
          await insert(world, id)
          return [event(`e${id}`)]
        },
        command(id).message,
      )
    await place('1')
    const statements = await questions(world)
    await place('2')
    // START TRANSACTION and the inbox, the handler's statement, the outbox and COMMIT.
    expect(await statements()).toBe(statementsPerMessage)
  })

  it('rejects queries on the handle after the end, in all forms', async () => {
    await using world = await open()
    const { database } = world
    let kept: MysqlHandle | undefined
    await handle(transactionMiddleware(database), async () => {
      kept = database.executor()
      return []
    })
    for (const call of ['query', 'execute'] as const) {
      const late = kept?.[call]("INSERT INTO orders (id) VALUES ('late')") ?? Promise.resolve()
      expect(await failureOf(late)).toMatchObject({ code: 'ACKORD_SCOPE_ENDED' })
    }
    expect(await world.orders()).toBe(0)
  })

  it('waits for queries that the handler did not await', async () => {
    await using world = await open()
    await handle(transactionMiddleware(world.database), async () => {
      void insert(world, '1')
      void world.database.executor().execute("INSERT INTO orders (id) VALUES ('2')")
      return []
    })
    expect(await world.orders()).toBe(2)
  })

  it('fails when an un-awaited query failed, even long before the handler returned', async () => {
    await using world = await open()
    const { database } = world
    const { message, verdicts } = command('1')
    const error = await failureOf(
      handle(
        transactionMiddleware(database),
        async () => {
          void database.executor().query('INSERT INTO nowhere VALUES (1)')
          await insert(world, '1')
          await insert(world, '2')
          return []
        },
        message,
      ),
    )
    expect(error).toBeInstanceOf(TransactionAbortedError)
    expect(error.cause).toMatchObject({ errno: 1146 })
    expect([verdicts, await world.orders()]).toEqual([[], 0])
  })

  it('continues after a statement whose error the handler caught, which MySQL undoes alone', async () => {
    await using world = await open()
    await handle(transactionMiddleware(world.database), async () => {
      await insert(world, '1')
      expect(await failureOf(insert(world, '1'))).toMatchObject({ errno: 1062 })
      await insert(world, '2')
      return []
    })
    expect(await idsIn(world)).toEqual(['1', '2'])
  })

  it('commits nothing, and sends nothing more, after a deadlock whose error the handler swallowed', async () => {
    await using world = await open()
    await world.query("INSERT INTO orders (id) VALUES ('a'), ('b')")
    const { message, verdicts } = command('1')
    const later: unknown[] = []
    const error = await failureOf(
      handle(
        transactionMiddleware(world.database, { retries: 0 }),
        async (given) => {
          await insert(world, '1')
          expect(await failureOf(loseDeadlock(world.schema, world.run))).toMatchObject({ errno: 1213 })
          // The connection is in autocommit mode by now, so the row would remain.
          later.push(await failureOf(insert(world, '2')), await failureOf(insert(world, '3')))
          await given.ack()
          return []
        },
        message,
      ),
    )
    expect(error).toBeInstanceOf(TransactionAbortedError)
    expect(error.cause).toMatchObject({ errno: 1213 })
    for (const refused of later) expect(refused).toBeInstanceOf(TransactionAbortedError)
    expect([verdicts, await idsIn(world)]).toEqual([[], ['a', 'b']])
  })

  it('retries a transaction that lost a deadlock as a whole, even if the handler swallowed the error', async () => {
    await using world = await open()
    await world.query("INSERT INTO orders (id) VALUES ('a'), ('b')")
    let calls = 0
    await handle(transactional(world.database, parts), async () => {
      calls += 1
      await insert(world, `order ${calls}`)
      if (calls === 1) await failureOf(loseDeadlock(world.schema, world.run))
      return [event('e1')]
    })
    expect([calls, await idsIn(world), await world.inbox(), await world.outbox()]).toEqual([2, ['a', 'b', 'order 2'], 1, 1])
  })

  it('retries a transaction whose deadlock a repository wrapped, and gives up after its retries', async () => {
    await using world = await open()
    await world.query("INSERT INTO orders (id) VALUES ('a'), ('b')")
    let calls = 0
    const error = await failureOf(
      handle(transactionMiddleware(world.database, { retries: 1, logger: silentLogger }), async () => {
        calls += 1
        await loseDeadlock(world.schema, world.run).catch((cause: unknown) => {
          throw new Error('could not save', { cause })
        })
        return []
      }),
    )
    expect([calls, error.message, await idsIn(world)]).toEqual([2, 'could not save', ['a', 'b']])
  })

  it('rejects statements that would end the transaction, including DDL', async () => {
    await using world = await open()
    const { database } = world
    for (const sql of [
      'COMMIT',
      ' rollback',
      'BEGIN',
      'CREATE TABLE more (n INT)',
      '/* a comment */ TRUNCATE orders',
      'SET autocommit = 1',
    ]) {
      const error = await failureOf(
        handle(transactionMiddleware(database), async () => {
          await insert(world, '1')
          await database.executor().query(sql)
          return []
        }),
      )
      expect(error.message).toMatch(/would begin or end the transaction/)
      expect(await world.orders()).toBe(0)
    }
    await handle(transactionMiddleware(database), async () => {
      await database.executor().query('CREATE TEMPORARY TABLE mine (n INT)')
      for (const sql of ['SAVEPOINT mine', "INSERT INTO orders (id) VALUES ('no')", 'ROLLBACK TO SAVEPOINT mine'])
        await database.executor().query(sql)
      await insert(world, '1')
      await database.executor().query('DROP TEMPORARY TABLE mine')
      return []
    })
    expect(await idsIn(world)).toEqual(['1'])
  })

  it.each([
    ['a procedure', 'CALL commits()'],
    ['a procedure that fails', 'CALL commits_and_fails()'],
    ['a prepared statement', 'EXECUTE more'],
    ['a procedure that returns rows', 'CALL commits_and_reads()'],
  ])('detects that %s ended it, and sends nothing more', async (_, sql) => {
    await using world = await open({ max: 1 })
    const { database } = world
    await world.query('CREATE PROCEDURE commits() COMMIT')
    await world.query('CREATE PROCEDURE commits_and_fails() BEGIN COMMIT; SELECT * FROM nowhere; END')
    await world.query('CREATE PROCEDURE commits_and_reads() BEGIN COMMIT; SELECT 1 AS one; END')
    await world.run("PREPARE more FROM 'CREATE TABLE more (n INT)'")
    const { message, verdicts } = command('1')
    const error = await failureOf(
      handle(
        transactional(database, parts),
        async () => {
          await insert(world, 'before')
          await database
            .executor()
            .query(sql)
            .catch(() => {})
          await insert(world, 'after').catch(() => {})
          return [event('e1')]
        },
        message,
      ),
    )
    // The earlier writes are committed and cannot be undone. The error is the most that the library can do.
    expect(error).toMatchObject({ code: 'ACKORD_SCOPE_ENDED', message: expect.stringMatching(/had ended the transaction/) })
    expect([verdicts, await idsIn(world), await world.outbox()]).toEqual([[], ['before'], 0])
    await handle(transactionMiddleware(database), async () => {
      await insert(world, 'next')
      return []
    })
    expect(await idsIn(world)).toEqual(['before', 'next'])
  })

  it('is a savepoint inside another transaction, also for the outbox', async () => {
    await using world = await open({ max: 1 })
    const { database } = world
    const transaction = transactionMiddleware(database)
    const nested = transactional(database, parts)
    await handle(transaction, async (message, context) => {
      await insert(world, 'outer')
      const inner = nested(async () => {
        await insert(world, 'inner')
        throw failure
      })
      expect(await failureOf(inner(message, context))).toBe(failure)
      await nested(async () => [event('kept')])(message, context)
      return []
    })
    expect([await idsIn(world), await world.inbox(), await world.outbox()]).toEqual([['outer'], 1, 1])
  })

  it('leaves the outer transaction usable when a statement of the library failed in a savepoint, and not without one', async () => {
    await using world = await open({ max: 1 })
    const { database } = world
    await world.query("ALTER TABLE ackord_outbox ADD CONSTRAINT no CHECK (id <> 'e1')")
    const nested = transactional(database, parts)
    await handle(transactionMiddleware(database), async (message, context) => {
      await failureOf(Promise.resolve(nested(async () => [event('e1')])(message, context)))
      await insert(world, 'outer')
      return []
    })
    expect([await idsIn(world), await world.inbox(), await world.outbox()]).toEqual([['outer'], 0, 0])
  })

  it('begins with its settings, and returns the connection without them', async () => {
    await using world = await open({ max: 1 })
    const { database } = world
    await world.run('SET SESSION innodb_lock_wait_timeout = 77')
    const variables = ['innodb_lock_wait_timeout', ...(isMariadb ? ['max_statement_time', 'idle_transaction_timeout'] : [])]
    const columns = variables.map((variable) => `@@${variable} AS ${variable}`)
    const settings = async () =>
      (await world.run(`SELECT ${columns.join(', ')}, CONNECTION_ID() AS id`)).map((row) => Object.values(row).map(Number))[0]
    const before = await settings()
    const seen: unknown[] = []
    // A34
    const options = {
      isolation: 'serializable',
      lockTimeout: 1500,
      ...(isMariadb && { statementTimeout: 5500, idleTimeout: 7000 }),
    } as const
    for (const fail of [false, true]) {
      await handle(transactionMiddleware(database, options), async () => {
        seen.push((await settings())?.slice(0, -1))
        if (fail) throw failure
        return []
      }).catch(() => {})
    }
    const expected = isMariadb ? [2, 5.5, 7] : [2]
    expect(seen).toEqual([expected, expected])
    expect(await settings()).toEqual(before)
    expect(before?.[0]).toBe(77)
  })

  it.each(['begun alone', 'begun and committed with others'])('has the requested isolation level, or the default: %s', async (how) => {
    await using world = await open({ max: 1 })
    const middlewareOf = (transaction: { readonly isolation: 'read committed' | 'repeatable read' | undefined }) =>
      how === 'begun alone' ? transactionMiddleware(world.database, transaction) : transactional(world.database, { ...parts, transaction })
    for (const [id, isolation, expected] of [
      ['1', 'read committed', 1],
      ['2', 'repeatable read', 0],
      ['3', 'read committed', 1],
      ['4', undefined, 0],
    ] as const) {
      await world.query('DELETE FROM orders')
      const process = async () => {
        const count = async () => Number((await world.run('SELECT COUNT(*) AS n FROM orders'))[0]?.['n'])
        expect(await count()).toBe(0)
        await world.query("INSERT INTO orders (id) VALUES ('theirs')")
        expect(await count()).toBe(expected)
        return [event(id)]
      }
      await handle(middlewareOf({ isolation }), process, command(id).message)
    }
  })

  it('treats 0 as no limit, and rejects unsupported settings', async () => {
    await using world = await open({ max: 1 })
    const make = (options: object) => () => transactionMiddleware(world.database, options)
    expect(make({ isolation: 'read uncommitted; DROP TABLE orders' })).toThrow(/isolation must be one of/)
    expect(make({ lockTimeout: -1 })).toThrow(/lockTimeout must be/)
    const none = { lockTimeout: 0, ...(isMariadb && { statementTimeout: 0, idleTimeout: 0 }) }
    await handle(transactionMiddleware(world.database, none), async () => {
      const [row] = await world.run('SELECT @@innodb_lock_wait_timeout AS `lock`')
      expect(Number(row?.['lock'])).toBeGreaterThan(1_000_000)
      return []
    })
    if (isMariadb) return
    for (const option of ['statementTimeout', 'idleTimeout']) {
      const refused = handle(transactionMiddleware(world.database, { [option]: 1000 }), async () => {
        await insert(world, '1')
        return []
      })
      expect(await failureOf(refused)).toMatchObject({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(option) })
    }
  })

  it(`stops waiting for a lock after lockTimeout${isMariadb ? ', and for a statement after statementTimeout' : ''}`, async () => {
    await using world = await open()
    await world.query("INSERT INTO orders (id) VALUES ('a')")
    const holder = await world.connect()
    await holder.query('START TRANSACTION')
    await holder.query("UPDATE orders SET note = 'held' WHERE id = 'a'")
    const blocked = handle(transactionMiddleware(world.database, { lockTimeout: 1000 }), async () => {
      await insert(world, 'b')
      await world.run("UPDATE orders SET note = 'mine' WHERE id = 'a'")
      return []
    })
    expect(await failureOf(blocked)).toMatchObject({ errno: 1205 })
    if (isMariadb) {
      const slow = handle(transactionMiddleware(world.database, { statementTimeout: 50 }), async () => {
        await insert(world, 'b')
        await world.run("UPDATE orders SET note = SLEEP(60) WHERE id = 'b'")
        return []
      })
      expect(await failureOf(slow)).toMatchObject({ errno: 1969 })
    }
    await holder.query('ROLLBACK')
    await holder.release()
    expect(await idsIn(world)).toEqual(['a'])
  })

  it('stops waiting for a connection when the signal is aborted, and releases one that arrives later', async () => {
    await using world = await open({ max: 1 })
    const holder = await world.connect()
    const controller = new AbortController()
    const waiting = handle(transactionMiddleware(world.database), async () => [], command('1').message, controller.signal)
    controller.abort(failure)
    expect(await failureOf(waiting)).toBe(failure)
    await holder.release()
    await handle(transactionMiddleware(world.database), async () => {
      await insert(world, '1')
      return []
    })
    expect(world.connections()).toEqual({ all: 1, free: 1 })
  })

  it('works with a pool smaller than the concurrency', async () => {
    await using world = await open({ max: 2 })
    await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        handle(transactionMiddleware(world.database), async () => {
          await insert(world, `${index}`)
          return []
        }),
      ),
    )
    expect(await world.orders()).toBe(30)
  })

  it('is rolled back by the server, and drops the connection, when the connection is killed during the transaction', async () => {
    await using world = await open({ max: 1 })
    const { message, verdicts } = command('1')
    const transaction = transactionMiddleware(world.database)
    let first: unknown
    // A12
    const error = await failureOf(
      handle(
        transaction,
        async (given) => {
          await insert(world, '1')
          await given.ack()
          const [row] = await world.run('SELECT CONNECTION_ID() AS id')
          first = row?.['id']
          await world.query(`KILL ${Number(first)}`)
          // The transaction fails even if the handler ignores the error.
          await world.run('SELECT 1').catch(() => {})
          return []
        },
        message,
      ),
    )
    expect(error).not.toBeInstanceOf(CommitUnknownError)
    expect([verdicts, message.state, await world.orders()]).toEqual([[], 'pending', 0])
    await handle(transaction, async () => {
      await insert(world, '1')
      expect((await world.run('SELECT CONNECTION_ID() AS id'))[0]?.['id']).not.toEqual(first)
      return []
    })
    expect(await world.orders()).toBe(1)
  })

  it.each(['before', 'after'] as const)('has an unknown outcome when the connection is lost %s the server got COMMIT', async (when) => {
    await using proxy = await startFaultProxy(mariadbUrl)
    await using world = await open({ max: 1, pool: { host: '127.0.0.1', port: proxy.port } })
    const { database } = world
    const { message, verdicts } = command('1')
    const events: string[] = []
    const process = transactional(database, parts)
    // Prepares the statement that commits, so that later transactions do not send its text.
    await handle(process, async () => [event('e0')], command('0').message)
    // A4
    const error = await failureOf(
      handle(
        process,
        async (given, context) => {
          await insert(world, '1')
          afterCommit(context, () => void events.push('committed'))
          await given.ack()
          // On MySQL COMMIT is a separate statement.
          proxy.judge(cutAt(isMariadb ? 'order.placed' : 'COMMIT AND NO CHAIN', when))
          return [event('e1')]
        },
        message,
      ),
    )
    expect(error).toBeInstanceOf(CommitUnknownError)
    expect([events, verdicts, message.state]).toEqual([[], [], 'pending'])
    const committed = when === 'after' ? 1 : 0
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([committed, committed + 1, committed + 1])
    // The message is redelivered, and the inbox determines whether it was handled.
    proxy.judge()
    const again = command('1')
    await handle(
      process,
      async () => {
        await insert(world, '1')
        return [event('e1')]
      },
      again.message,
    )
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([1, 2, 2])
  })

  it('drops a connection whose ROLLBACK is lost, and reports the first error', async () => {
    await using proxy = await startFaultProxy(mariadbUrl)
    await using world = await open({ max: 1, pool: { host: '127.0.0.1', port: proxy.port } })
    const rejected = handle(transactionMiddleware(world.database), async () => {
      await insert(world, '1')
      proxy.judge(cutAt('ROLLBACK', 'before'))
      throw failure
    })
    expect(await failureOf(rejected)).toBe(failure)
    proxy.judge()
    await handle(transactionMiddleware(world.database), async () => {
      await insert(world, '2')
      return []
    })
    expect(await idsIn(world)).toEqual(['2'])
  })

  it('fails with a known outcome when the connection is lost at BEGIN', async () => {
    await using proxy = await startFaultProxy(mariadbUrl)
    await using world = await open({ max: 1, pool: { host: '127.0.0.1', port: proxy.port } })
    proxy.judge(cutAt('START TRANSACTION', 'before'))
    const write = () => world.database.write(() => insert(world, '1'))
    expect(await failureOf(write())).not.toBeInstanceOf(CommitUnknownError)
    proxy.judge()
    await write()
    expect(await world.orders()).toBe(1)
  })

  it('is rolled back by the server when it is idle for too long', async () => {
    await using world = await open({ max: 1 })
    const error = await failureOf(
      handle(transactionMiddleware(world.database, { idleTimeout: 1000 }), async () => {
        await insert(world, '1')
        const [row] = await world.run('SELECT CONNECTION_ID() AS id')
        // The handler waits for something other than the database.
        for (let left = 1; left > 0; ) {
          left = (await world.query('SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ?', [row?.['id']])).length
        }
        return []
      }),
    )
    expect(error.code).not.toBe('ACKORD_SCOPE_ENDED')
    expect(await world.orders()).toBe(0)
  })
})

describe.each(mysqlKinds)('a pool of $name', ({ open }) => {
  it('continues after idle connections were killed', async () => {
    await using world = await open({ max: 3 })
    const place = (id: string) => world.database.write(() => insert(world, id))
    await Promise.all(['1', '2', '3'].map(place))
    const idle = await world.query("SELECT ID AS id FROM information_schema.PROCESSLIST WHERE DB = ? AND COMMAND = 'Sleep'", [world.schema])
    for (const { id } of idle) await world.query(`KILL ${Number(id)}`).catch(() => {})
    // A transaction may fail on a killed connection that the pool has not yet noticed; later ones succeed.
    for (let placed = 0; placed < 3; )
      placed += await place(`again ${placed}`).then(
        () => 1,
        () => 0,
      )
    expect(await world.orders()).toBe(6)
  })

  it('may have any SQL mode', async () => {
    await using world = await open({ max: 1 })
    await world.run("SET SESSION sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,ONLY_FULL_GROUP_BY,TRADITIONAL'")
    const store = sqlOutbox(world.database, { logger: silentLogger })
    const id = `\\' " \`;--`
    for (const _ of [1, 2]) await handle(transactional(world.database, parts), async () => [event(id)], command(id).message)
    const [claimed, ...more] = await store.claim({ limit: 10, lease: 60_000 })
    expect([claimed?.message.id, more, await world.inbox()]).toEqual([id, [], 1])
    if (claimed === undefined) throw failure
    await store.settle([{ id: claimed.id, token: claimed.token, result: 'parked', error: id }])
    expect(await store.stats()).toMatchObject({ destinations: [{ parked: 1 }] })
    expect(await store.rearm({ filter: {} }, { attributes: { subject: id } })).toBe(1)
    expect(await store.list({ type: id }, { limit: 1 })).toEqual({ records: [], next: undefined })
  })

  it('is rejected with autocommit off', async () => {
    await using world = await open({ max: 1 })
    await world.run('SET autocommit = 0')
    const error = await failureOf(world.database.write(() => insert(world, '1')))
    expect(error).toMatchObject({ code: 'ACKORD_INVALID_OPTION', message: expect.stringMatching(/autocommit/) })
    expect(await world.orders()).toBe(0)
  })
})

describe('the client of an adapter', () => {
  it('is rejected if it is not a pool with promises', async () => {
    expect(() => fromMysql2({} as never)).toThrow(/getConnection must be a function/)
    expect(() => fromMariadb({ getConnection: async () => {} } as never)).toThrow(/batch must be a function/)
    const pool = createCallbackPool({ host: '127.0.0.1' })
    expect(() => fromMysql2(pool as never)).toThrow(/mysql2\/promise/)
    await new Promise((resolve) => pool.end(resolve))
  })

  it('may have any options that change the format of rows and numbers', async () => {
    const options = {
      rowsAsArray: true,
      nestTables: true,
      dateStrings: true,
      supportBigNumbers: true,
      bigNumberStrings: true,
      decimalNumbers: true,
      namedPlaceholders: true,
      typeCast: (field: { string(): string | null }) => field.string(),
      flags: ['-FOUND_ROWS'],
      timezone: '+09:00',
    }
    await using world = await openMysql2({ pool: options })
    const { database } = world
    const store = sqlOutbox(database, { logger: silentLogger })
    for (const id of ['1', '1', '2']) await handle(transactional(database, parts), async () => [event(`e${id}`)], command(id).message)
    const claimed = await store.claim({ limit: 10, lease: 60_000 })
    expect(claimed.map(({ message, attempts }) => [message.id, attempts])).toEqual([
      ['e1', 1],
      ['e2', 1],
    ])
    expect(await store.renew(claimed, 60_000)).toEqual([true, true])
    expect(await store.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))).toEqual(['applied', 'applied'])
  })
})

/** Returns a function that resolves to the number of statements sent since on the pool's only connection, counted by the server. */
async function questions(world: MysqlWorld): Promise<() => Promise<number>> {
  const count = async () => Number(Object.values((await world.run("SHOW SESSION STATUS LIKE 'Questions'"))[0] ?? {})[1])
  const before = await count()
  return async () => (await count()) - before - 1
}
