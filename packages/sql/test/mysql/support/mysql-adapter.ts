import { afterCommit, silentLogger } from '@ackord/core'
import { cutAt, startFaultProxy } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { CommitUnknownError, TransactionAbortedError, transactional, transactionMiddleware } from '../../../src/index.ts'
import { type AdapterDialect, type AdapterWorld, codeOf, openAdapterWorld, testAdapterScenarios } from '../../support/adapter-scenarios.ts'
import { command, event, failureOf, handle } from '../../support/world.ts'
import { loseDeadlock } from './deadlock.ts'
import { isMariadb } from './flavour.ts'
import { auditOnce, mariadbUrl } from './mysql-world.ts'

export interface OpenOptions {
  readonly max?: number
  /** The port of a proxy in front of the server. Default: no proxy. */
  readonly port?: number
  /** See `openDoor()`. */
  readonly restricted?: boolean
}

const settings = { logger: silentLogger }
const failure = new Error('failed')
const parts = { inbox: { consumer: 'orders' }, outbox: { destination: 'events' }, transaction: settings }

const dialect: AdapterDialect = {
  insert: 'INSERT INTO orders (id) VALUES (?)',
  pid: 'SELECT CONNECTION_ID() AS pid',
  async terminate(query, pid) {
    await query(`KILL ${Number(pid)}`)
    while ((await query('SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ?', [Number(pid)])).length > 0);
  },
  createLose: `CREATE FUNCTION lose() RETURNS INT DETERMINISTIC BEGIN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; RETURN 1; END`,
  ageInbox: "UPDATE ackord_inbox SET received_at = received_at - INTERVAL 8 DAY WHERE id <> '1'",
  // The user of a restricted world has the same name as its database.
  refuseAppends: ({ query, schema }) => query(`REVOKE INSERT ON ${schema}.ackord_outbox FROM ${schema}`),
}

/** Statements that end a transaction although their text does not show it. */
const endings = [
  ['a procedure', 'CALL commits()'],
  ['a procedure that fails', 'CALL commits_and_fails()'],
  ['a procedure that returns rows', 'CALL commits_and_reads()'],
  ['a prepared statement', 'EXECUTE more'],
] as const

/**
 * Tests the guarantees of every adapter for MySQL and MariaDB beyond the conformance suites, on a real server. `prepares`: the client
 * prepares all its statements, so it cannot send a statement that prepares another one.
 */
export function testMysqlAdapter<Handle>(
  name: string,
  open: (options?: OpenOptions) => Promise<AdapterWorld<Handle>>,
  { prepares = false }: { readonly prepares?: boolean } = {},
): void {
  testAdapterScenarios(name, open, dialect)

  async function openWorld(options: OpenOptions = {}) {
    const world = await openAdapterWorld(() => open(options), dialect)
    const { database } = world
    return {
      ...world,
      /** Sends a statement of the handler in its current transaction. */
      send: (sql: string) => world.run(database.executor(), sql, []),
      loseDeadlock: () => loseDeadlock(world.schema, (sql) => world.run(database.executor(), sql, [])),
      ids: async () => (await world.query('SELECT id FROM orders ORDER BY id')).map(({ id }) => id),
      stored: async () => [await world.orders(), await world.inbox(), await world.outbox()],
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }

  describe(`a transaction of MySQL on ${name}`, () => {
    it('adds six statements of the library per message', async () => {
      await using world = await openWorld({ max: 1 })
      const place = (id: string) =>
        handle(
          transactional(world.database, parts),
          async () => {
            await world.insert(id)
            return [event(`e${id}`)]
          },
          command(id).message,
        )
      const count = async () => Number(Object.values((await world.run(world.root, questions, []))[0] ?? {})[1])
      await place('1')
      const before = await count()
      await place('2')
      // BEGIN, the savepoint, the inbox, the handler's statement, the outbox, the savepoint again, COMMIT; and the status query itself.
      expect((await count()) - before).toBe(8)
    })

    it('reports a duplicate of a trigger on the inbox as an error, unless the row exists too', async () => {
      await using world = await openWorld({ max: 1 })
      await auditOnce(world, 'BEFORE')
      const place = (id: string) => handle(transactional(world.database, parts), () => world.insert(id).then(() => []), command(id).message)
      await place('1')
      expect(await failureOf(place('2'))).toMatchObject({ errno: 1062 })
      await place('1')
      expect([await world.ids(), await world.inbox()]).toEqual([['1'], 1])
      await world.query('DROP TRIGGER audits')
      await place('2')
      expect([await world.ids(), await world.inbox()]).toEqual([['1', '2'], 2])
    })

    it('continues after a statement whose error the handler caught, which MySQL undoes alone', async () => {
      await using world = await openWorld()
      await world.inTransaction(async () => {
        await world.insert('1')
        await failureOf(world.insert('1'))
        await world.insert('2')
      })
      expect(await world.ids()).toEqual(['1', '2'])
    })

    it('commits nothing, and sends nothing more, after a deadlock whose error the handler swallowed', async () => {
      await using world = await openWorld()
      await world.query("INSERT INTO orders (id) VALUES ('a'), ('b')")
      const { message, verdicts } = command('1')
      const later: unknown[] = []
      const error = await failureOf(
        handle(
          transactionMiddleware(world.database, { ...settings, retries: 0 }),
          async (given) => {
            await world.insert('1')
            await failureOf(world.loseDeadlock())
            // The connection is in autocommit mode by now, so the row would remain.
            later.push(await failureOf(world.insert('2')), await failureOf(world.insert('3')))
            await given.ack()
            return []
          },
          message,
        ),
      )
      expect(error).toBeInstanceOf(TransactionAbortedError)
      expect(error.cause).toMatchObject({ errno: 1213 })
      for (const refused of later) expect(codeOf(refused)).toBe('ACKORD_TRANSACTION_ABORTED')
      expect([verdicts, await world.ids()]).toEqual([[], ['a', 'b']])
    })

    it('commits nothing after a deadlock whose error was swallowed at the very end', async () => {
      await using world = await openWorld()
      await world.query("INSERT INTO orders (id) VALUES ('a'), ('b')")
      let calls = 0
      await handle(transactionMiddleware(world.database, settings), async () => {
        calls += 1
        await world.insert(`order ${calls}`)
        if (calls === 1) await failureOf(world.loseDeadlock())
        return []
      })
      expect([calls, await world.ids()]).toEqual([2, ['a', 'b', 'order 2']])
    })

    it('commits nothing of a nested transaction after a deadlock in it', async () => {
      await using world = await openWorld()
      await world.query("INSERT INTO orders (id) VALUES ('a'), ('b')")
      const error = await failureOf(
        handle(transactionMiddleware(world.database, { ...settings, retries: 0 }), async () => {
          await world.insert('outer')
          await failureOf(world.inTransaction(() => world.loseDeadlock()))
          await failureOf(world.inTransaction(() => world.insert('inner')))
          await failureOf(world.insert('after'))
          return []
        }),
      )
      expect(error).toBeInstanceOf(TransactionAbortedError)
      expect(await world.ids()).toEqual(['a', 'b'])
    })

    it('retries a transaction that lost a deadlock as a whole', async () => {
      await using world = await openWorld()
      await world.query("INSERT INTO orders (id) VALUES ('a'), ('b')")
      let calls = 0
      await handle(transactional(world.database, parts), async () => {
        calls += 1
        await world.insert(`order ${calls}`)
        if (calls === 1) await world.loseDeadlock()
        return [event('e1')]
      })
      expect([calls, await world.ids(), await world.inbox(), await world.outbox()]).toEqual([2, ['a', 'b', 'order 2'], 1, 1])
    })

    it('rejects DDL and other statements that would end it implicitly, and accepts savepoints and temporary tables', async () => {
      await using world = await openWorld()
      for (const sql of [
        'CREATE TABLE more (n INT)',
        '/* a comment */ TRUNCATE orders',
        'SET autocommit = 1',
        'LOCK TABLES orders WRITE',
      ]) {
        const error = await failureOf(
          world.inTransaction(async () => {
            await world.insert('1')
            await world.send(sql)
          }),
        )
        expect([codeOf(error), await world.orders()]).toEqual(['ACKORD_TRANSACTION_REQUIRED', 0])
      }
      await world.inTransaction(async () => {
        await world.send('CREATE TEMPORARY TABLE mine (n INT)')
        for (const sql of ['SAVEPOINT mine', "INSERT INTO orders (id) VALUES ('no')", 'ROLLBACK TO SAVEPOINT mine']) await world.send(sql)
        await world.insert('1')
        await world.send('DROP TEMPORARY TABLE mine')
      })
      expect(await world.ids()).toEqual(['1'])
    })

    it.each(endings.filter(([, sql]) => !(prepares && sql.startsWith('EXECUTE'))))(
      'detects that %s ended it, and sends nothing more',
      async (_, sql) => {
        await using world = await openWorld({ max: 1 })
        await world.query('CREATE PROCEDURE commits() COMMIT')
        await world.query('CREATE PROCEDURE commits_and_fails() BEGIN COMMIT; SELECT * FROM nowhere; END')
        await world.query('CREATE PROCEDURE commits_and_reads() BEGIN COMMIT; SELECT 1 AS one; END')
        if (sql.startsWith('EXECUTE')) await world.run(world.root, "PREPARE more FROM 'CREATE TABLE more (n INT)'", [])
        const { message, verdicts } = command('1')
        const error = await failureOf(
          handle(
            transactional(world.database, parts),
            async () => {
              await world.insert('before')
              await world.send(sql).catch(() => {})
              await world.insert('after').catch(() => {})
              return [event('e1')]
            },
            message,
          ),
        )
        // The earlier writes are committed and cannot be undone. The error is the most that the library can do.
        expect(error).toMatchObject({ code: 'ACKORD_SCOPE_ENDED', message: expect.stringMatching(/had ended the transaction/) })
        expect([verdicts, await world.ids(), await world.outbox()]).toEqual([[], ['before'], 0])
        await world.inTransaction(() => world.insert('next'))
        expect(await world.ids()).toEqual(['before', 'next'])
      },
    )

    it('reports an unknown outcome when a procedure ended it and began another one', async () => {
      await using world = await openWorld({ max: 1 })
      await world.query('CREATE PROCEDURE goes_on() BEGIN COMMIT; START TRANSACTION; END')
      const rejected = world.inTransaction(async () => {
        await world.insert('before')
        await world.send('CALL goes_on()')
        await world.insert('after')
      })
      expect(await failureOf(rejected)).toBeInstanceOf(CommitUnknownError)
      expect(await world.ids()).toEqual(['before'])
    })

    it('leaves the outer transaction usable when a statement of the library failed in a savepoint, and not without one', async () => {
      await using world = await openWorld({ max: 1 })
      await world.query("ALTER TABLE ackord_outbox ADD CONSTRAINT no CHECK (id <> 'e1')")
      const failing = transactional(world.database, parts)
      await handle(transactionMiddleware(world.database, settings), async (message, context) => {
        await failureOf(Promise.resolve(failing(async () => [event('e1')])(message, context)))
        await world.insert('outer')
        return []
      })
      expect(await world.stored()).toEqual([1, 0, 0])
      await failureOf(handle(failing, async () => [event('e1')]))
      expect(await world.stored()).toEqual([1, 0, 0])
    })

    it('begins with its settings, and returns the connection without them', async () => {
      await using world = await openWorld({ max: 1 })
      await world.run(world.root, 'SET SESSION innodb_lock_wait_timeout = 77', [])
      const variables = ['innodb_lock_wait_timeout', ...(isMariadb ? ['max_statement_time', 'idle_transaction_timeout'] : [])]
      const limits = `SELECT ${variables.map((variable) => `@@${variable} AS ${variable}`).join(', ')}, CONNECTION_ID() AS id`
      const read = async () => Object.values((await world.run(world.database.executor(), limits, []))[0] ?? {}).map(Number)
      const before = await read()
      const seen: unknown[] = []
      const asked = {
        isolation: 'serializable',
        lockTimeout: 1500,
        ...(isMariadb && { statementTimeout: 5500, idleTimeout: 7000 }),
      } as const
      for (const fail of [false, true]) {
        await handle(transactionMiddleware(world.database, { ...asked, ...settings }), async () => {
          seen.push((await read()).slice(0, -1))
          if (fail) throw failure
          return []
        }).catch(() => {})
      }
      const expected = isMariadb ? [2, 5.5, 7] : [2]
      expect(seen).toEqual([expected, expected])
      expect([before[0], await read()]).toEqual([77, before])
      if (isMariadb) return
      for (const option of ['statementTimeout', 'idleTimeout']) {
        const refused = handle(transactionMiddleware(world.database, { lockTimeout: 1500, [option]: 1000, ...settings }), async () => [])
        expect(await failureOf(refused)).toMatchObject({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(option) })
        expect(await read()).toEqual(before)
      }
    })

    it.each([false, true])('closes a connection whose limits cannot be reset, fail: %s', async (fail) => {
      await using world = await openWorld({ max: 1 })
      const read = async () => Number((await world.send('SELECT @@innodb_lock_wait_timeout AS n'))[0]?.['n'])
      const before = await read()
      const rejected = handle(transactionMiddleware(world.database, { lockTimeout: 1000, ...settings }), async () => {
        await world.insert('1')
        expect(await read()).toBe(1)
        await world.send("SET @ackord_innodb_lock_wait_timeout = 'nonsense'")
        if (fail) throw failure
        return []
      })
      expect(await failureOf(rejected)).not.toBeInstanceOf(CommitUnknownError)
      // The first attempt may fail, because the pool has not yet noticed the closed connection.
      expect(await read().catch(read)).toBe(before)
      expect(await world.orders()).toBe(0)
    })

    it('has the requested isolation level, or the server’s default', async () => {
      await using world = await openWorld({ max: 1 })
      for (const [isolation, expected] of [
        ['read committed', 1],
        ['repeatable read', 0],
        [undefined, 0],
      ] as const) {
        await world.query('DELETE FROM orders')
        await handle(transactionMiddleware(world.database, { isolation, ...settings }), async () => {
          const count = async () => Number((await world.send('SELECT COUNT(*) AS n FROM orders'))[0]?.['n'])
          expect(await count()).toBe(0)
          await world.query("INSERT INTO orders (id) VALUES ('theirs')")
          expect(await count()).toBe(expected)
          return []
        })
      }
    })

    it.each(['before', 'after'] as const)(
      'has an unknown outcome when the connection is lost %s the server received COMMIT',
      async (when) => {
        await using proxy = await startFaultProxy(mariadbUrl)
        await using world = await openWorld({ max: 1, port: proxy.port })
        const { message, verdicts } = command('1')
        const events: string[] = []
        const process = transactional(world.database, parts)
        const error = await failureOf(
          handle(
            process,
            async (given, context) => {
              await world.insert('1')
              afterCommit(context, () => void events.push('committed'))
              await given.ack()
              proxy.judge(cutAt('COMMIT', when))
              return [event('e1')]
            },
            message,
          ),
        )
        expect(error).toBeInstanceOf(CommitUnknownError)
        expect([events, verdicts, message.state]).toEqual([[], [], 'pending'])
        const committed = when === 'after' ? 1 : 0
        expect(await world.stored()).toEqual([committed, committed, committed])
        // The message is redelivered, and the inbox determines whether it was handled.
        proxy.judge()
        await handle(process, async () => {
          await world.insert('1')
          return [event('e1')]
        })
        expect(await world.stored()).toEqual([1, 1, 1])
      },
    )

    it('reports the first error when the connection is lost at ROLLBACK, and uses another connection', async () => {
      await using proxy = await startFaultProxy(mariadbUrl)
      await using world = await openWorld({ max: 1, port: proxy.port })
      const rejected = world.inTransaction(async () => {
        await world.insert('1')
        proxy.judge(cutAt('ROLLBACK', 'before'))
        throw failure
      })
      expect(await failureOf(rejected)).toBe(failure)
      proxy.judge()
      await world.inTransaction(() => world.insert('2'))
      expect(await world.ids()).toEqual(['2'])
    })

    it('is rejected with autocommit off', async () => {
      await using world = await openWorld({ max: 1 })
      await world.run(world.root, 'SET autocommit = 0', [])
      const error = await failureOf(world.inTransaction(() => world.insert('1')))
      expect(error).toMatchObject({ code: 'ACKORD_INVALID_OPTION', message: expect.stringMatching(/autocommit/) })
      expect(await world.orders()).toBe(0)
    })
  })
}

const questions = "SHOW SESSION STATUS LIKE 'Questions'"
