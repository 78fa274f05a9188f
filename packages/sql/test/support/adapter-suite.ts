import { afterCommit, jsonMarshaler, marshal, rootContext, silentLogger } from '@ackord/core'
import { deferred } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { CommitUnknownError, sqlOutbox, TransactionAbortedError, transactional, transactionMiddleware } from '../../src/index.ts'
import { type AdapterDialect, type OpenAdapterWorld, openAdapterWorld, testAdapterScenarios } from './adapter-scenarios.ts'
import { refuseAppends } from './own-schema.ts'
import { command, event, failureOf, handle } from './world.ts'

const settings = { logger: silentLogger }

const dialect: AdapterDialect = {
  insert: 'INSERT INTO orders (id) VALUES ($1)',
  pid: 'SELECT pg_backend_pid() AS pid',
  async terminate(query, pid) {
    await query('SELECT pg_terminate_backend($1)', [pid])
    while ((await query('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [pid])).length > 0);
  },
  createLose: `CREATE FUNCTION lose() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'lost' USING ERRCODE = '40001'; END $$`,
  ageInbox: "UPDATE ackord_inbox SET received_at = received_at - interval '8 days' WHERE id <> '1'",
  refuseAppends: (world) => refuseAppends(world, (statement) => world.run(world.root, statement, [])),
}

/** Tests the guarantees of every adapter for PostgreSQL beyond the conformance suites, on a real server. */
export function testAdapter<Handle>(name: string, open: OpenAdapterWorld<Handle>): void {
  testAdapterScenarios(name, open, dialect)
  const openWorld = () => openAdapterWorld(open, dialect)

  describe(`a transaction of PostgreSQL on ${name}`, () => {
    it('undoes the events appended after a savepoint when a handler in a group rolls back to it', async () => {
      await using world = await openWorld()
      const { database } = world
      const outbox = sqlOutbox(database, { logger: silentLogger })
      const middleware = transactional(database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: 'events' },
        transaction: { logger: silentLogger },
        groupCommit: { size: 8, groups: 1 },
      })
      const append = (id: string) =>
        outbox.append(database.executor(), [{ destination: 'events', message: marshal(event(id), jsonMarshaler) }])
      const process = middleware(async (given) => {
        await append(`${given.id}-before`)
        await world.run(database.executor(), 'SAVEPOINT mine', [])
        await append(`${given.id}-undone`)
        await world.run(database.executor(), 'ROLLBACK TO SAVEPOINT mine', [])
        await world.insert(String(given.id))
        return [event(`${given.id}-returned`)]
      })
      const results = await Promise.allSettled(
        ['1', '2'].map((id) => {
          const { message } = command(id)
          return process(message, message.context(rootContext()))
        }),
      )
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled'])
      expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([2, 2, 4])
      expect(await world.query("SELECT id FROM ackord_outbox WHERE id LIKE '%undone'")).toEqual([])
    })

    it('treats a COMMIT that answers ROLLBACK as a failure: a handler swallowed the error of a statement', async () => {
      await using world = await openWorld()
      const error = await failureOf(
        world.inTransaction(async () => {
          await world.insert('1')
          await world.insert('1').catch(() => {})
        }),
      )
      expect(error).toBeInstanceOf(TransactionAbortedError)
      expect(await world.orders()).toBe(0)
    })

    it('commits nothing when a handler swallows the error of a statement and tries again without a savepoint', async () => {
      await using world = await openWorld()
      const { message, verdicts } = command('1')
      const tried: unknown[] = []
      const middleware = transactional(world.database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: 'events' },
        transaction: settings,
      })
      const rejected = handle(
        middleware,
        async () => {
          await world.insert('1')
          for (const id of ['1', '2', '3']) {
            tried.push(
              await world.insert(id).then(
                () => 'done',
                () => 'failed',
              ),
            )
          }
          return []
        },
        message,
      )
      expect(await failureOf(rejected)).toBeInstanceOf(TransactionAbortedError)
      expect(tried).toEqual(['failed', 'failed', 'failed'])
      expect([await world.orders(), await world.inbox(), verdicts]).toEqual([0, 0, []])
    })

    it('knows that a COMMIT rejected by a deferred constraint committed nothing', async () => {
      await using world = await openWorld()
      await world.query('CREATE TABLE parents (n int PRIMARY KEY)')
      await world.query('CREATE TABLE children (n int REFERENCES parents DEFERRABLE INITIALLY DEFERRED)')
      const error = await failureOf(
        world.inTransaction(async () => {
          await world.insert('1')
          await world.run(world.database.executor(), 'INSERT INTO children VALUES (17)', [])
        }),
      )
      expect(error).not.toBeInstanceOf(CommitUnknownError)
      expect(await world.orders()).toBe(0)
      await world.inTransaction(() => world.insert('1'))
      expect(await world.orders()).toBe(1)
    })

    it('begins with its settings', async () => {
      await using world = await openWorld()
      const { database } = world
      const found: unknown[] = []
      const asked = { isolation: 'repeatable read', statementTimeout: 4321, lockTimeout: 1234, idleTimeout: 9000, ...settings } as const
      await database.write(async (transaction) => {
        for (const setting of ['transaction_isolation', 'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']) {
          const [row] = await world.run(transaction, 'SELECT current_setting($1) AS value', [setting])
          found.push(row?.['value'])
        }
      }, asked)
      expect(found).toEqual(['repeatable read', '4321ms', '1234ms', '9s'])
    })

    it('has an unknown outcome when the connection is lost during COMMIT', async () => {
      await using world = await openWorld()
      const { message, verdicts } = command('1')
      const events: string[] = []
      // A deferred trigger keeps the COMMIT running until the backend is terminated.
      await world.query('CREATE TABLE gate (n int)')
      await world.query(
        'CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN LOCK TABLE gate IN SHARE MODE; RETURN NULL; END $$',
      )
      await world.query(
        'CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()',
      )
      const closed = deferred()
      const opened = deferred()
      const holder = world.begin(async (transaction) => {
        await world.run(transaction, 'LOCK TABLE gate IN ACCESS EXCLUSIVE MODE', [])
        closed.resolve()
        await opened.promise
      })
      await closed.promise
      let pid: unknown
      const waiting = failureOf(
        handle(
          transactionMiddleware(world.database, settings),
          async (given, context) => {
            pid = await world.pid()
            await world.insert('1')
            afterCommit(context, () => void events.push('committed'))
            await given.ack()
            return []
          },
          message,
        ),
      )
      const commits = "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND lower(query) LIKE 'commit%' AND wait_event_type = 'Lock'"
      while ((await world.query(commits, [pid])).length === 0);
      await world.terminate(pid)
      const error = await waiting
      opened.resolve()
      await holder
      expect(error).toBeInstanceOf(CommitUnknownError)
      expect([events, verdicts, message.state]).toEqual([[], [], 'pending'])
      await world.query('DROP TRIGGER slow ON orders')
      await world.inTransaction(() => world.insert('2'))
    })

    it('fails if it is nested and an error was swallowed in it, and leaves the outer transaction usable', async () => {
      await using world = await openWorld()
      await world.inTransaction(async () => {
        await world.insert('before')
        await failureOf(world.inTransaction(() => world.insert('before').catch(() => {})))
        await world.insert('after')
      })
      expect(await world.orders()).toBe(2)
    })
  })
}
