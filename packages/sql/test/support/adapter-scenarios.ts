import { type Context, currentContext, jsonMarshaler, marshal, rootContext, silentLogger } from '@ackord/core'
import { deferred } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients } from '../../../../scripts/test-depth.mjs'
import {
  CommitUnknownError,
  cleanInbox,
  sqlOutbox,
  TransactionAbortedError,
  transactional,
  transactionMiddleware,
} from '../../src/index.ts'
import { type OneConnectionWorld, testCleanConnections } from './clean-connection.ts'
import type { ConformanceWorld } from './conformance.ts'
import type { View } from './own-schema.ts'
import { command, event, failureOf, handle } from './world.ts'

export interface AdapterWorld<Handle> extends ConformanceWorld<Handle> {
  /** The user's client outside any transaction. */
  readonly root: Handle
  /** Runs `work` in a transaction of the user, with the API of the client. */
  begin(work: (transaction: Handle) => Promise<void>): Promise<void>
  /** Opens a connection of the user whose transactions are begun and ended manually. Missing if the client supports only transactions with a callback. */
  openSession?(): Promise<AdapterSession<Handle>>
}

interface AdapterSession<Handle> extends AsyncDisposable {
  /** Resolves to the handle of the transaction, which the user keeps after its end. */
  begin(): Promise<Handle>
  commit(): Promise<unknown>
}

interface OpenAdapterOptions {
  readonly max?: number
  /** Whether a privilege will be revoked. Default: false. */
  readonly restricted?: boolean
}

export type OpenAdapterWorld<Handle> = (options?: OpenAdapterOptions) => Promise<AdapterWorld<Handle>>

const failure = new Error('failed')
const settings = { logger: silentLogger }

/** The differences between databases in the scenarios. */
export interface AdapterDialect {
  /** A statement that inserts an order with the id of its parameter. */
  readonly insert: string
  /** A query that returns the server's id of the connection as `pid`. */
  readonly pid: string
  /** Terminates a connection. Resolves when it is closed. */
  terminate(query: View['query'], pid: unknown): Promise<void>
  /** Creates a function `lose()` that fails as if the transaction had lost a conflict. */
  readonly createLose: string
  /** Makes all inbox rows 8 days older, except for message 1. */
  readonly ageInbox: string
  /** Revokes the INSERT privilege on the outbox for the only connection of a world that was opened as `restricted`. */
  refuseAppends<Handle>(world: AdapterWorld<Handle>): Promise<unknown>
}

/** Tests the guarantees of every adapter beyond the conformance suites, on a real server. */
export function testAdapterScenarios<Handle>(name: string, open: OpenAdapterWorld<Handle>, dialect: AdapterDialect): void {
  const openWorld = (options?: { readonly max?: number }) => openAdapterWorld(open, dialect, options)

  async function openOneConnection(): Promise<OneConnectionWorld<Handle>> {
    const world = await open({ max: 1, restricted: true })
    return {
      database: world.database,
      insert: (handle, id) => world.run(handle, dialect.insert, [id]),
      insertOutside: (id) => world.run(world.root, dialect.insert, [id]),
      refuseAppends: () => dialect.refuseAppends(world),
      query: (sql) => world.query(sql),
      ids: async () => (await world.query('SELECT id FROM orders ORDER BY id')).map(({ id }) => id),
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    }
  }

  testCleanConnections(name, openOneConnection, { depth: depthOfOtherClients })

  describe(`a transaction on ${name}`, () => {
    it('rejects queries on the handle after the end, and commits none of them', async () => {
      await using world = await openWorld()
      let kept: Handle | undefined
      await world.inTransaction(async () => {
        kept = world.database.executor()
        await world.insert('1')
      })
      const error = await failureOf(world.run(kept as Handle, "INSERT INTO orders (id) VALUES ('2')", []))
      expect(codeOf(error)).toBe('ACKORD_SCOPE_ENDED')
      expect(await world.orders()).toBe(1)
    })

    it('waits for queries that the handler did not await, and for those that they start', async () => {
      await using world = await openWorld()
      await world.inTransaction(async () => {
        const handle = world.database.executor()
        void world
          .run(handle, "INSERT INTO orders (id) VALUES ('1')", [])
          .then(() => world.run(handle, "INSERT INTO orders (id) VALUES ('2')", []))
      })
      expect(await world.orders()).toBe(2)
    })

    it('runs no un-awaited query of the handler after the rollback', async () => {
      await using world = await openWorld({ max: 1 })
      let forgotten: Promise<unknown>[] = []
      const rejected = world.inTransaction(async () => {
        forgotten = ['1', '2', '3', '4', '5'].map((id) => world.insert(id))
        throw failure
      })
      expect(await failureOf(rejected)).toBe(failure)
      await Promise.allSettled(forgotten)
      expect(await world.orders()).toBe(0)
    })

    it('accepts many concurrent queries', async () => {
      await using world = await openWorld()
      await world.inTransaction(async () => {
        await Promise.all(Array.from({ length: 20 }, (_, index) => world.insert(String(index))))
      })
      expect(await world.orders()).toBe(20)
    })

    it('fails when an un-awaited query failed', async () => {
      await using world = await openWorld()
      const error = await failureOf(
        world.inTransaction(async () => {
          await world.insert('1')
          void world.insert('1').catch(() => {})
        }),
      )
      expect(error).toBeInstanceOf(TransactionAbortedError)
      expect(await world.orders()).toBe(0)
    })

    it('rejects with the error of the handler, and the next transaction finds a clean connection', async () => {
      await using world = await openWorld({ max: 1 })
      const rejected = world.inTransaction(async () => {
        await world.insert('1')
        throw failure
      })
      expect(await failureOf(rejected)).toBe(failure)
      await world.inTransaction(() => world.insert('1'))
      expect(await world.orders()).toBe(1)
    })

    it('rolls back when the signal was aborted, and rejects further queries', async () => {
      await using world = await openWorld()
      const controller = new AbortController()
      let refused: Error | undefined
      const rejected = world.inTransaction(
        async () => {
          await world.insert('1')
          controller.abort(failure)
          refused = await failureOf(world.insert('2'))
        },
        rootContext({ signal: controller.signal }),
      )
      expect(await failureOf(rejected)).toBe(failure)
      expect(causes(refused)).toContain(failure)
      expect(await world.orders()).toBe(0)
    })

    it('stops waiting for a connection when the signal is aborted, and does not begin when one becomes free', async () => {
      await using world = await openWorld({ max: 1 })
      const controller = new AbortController()
      const holding = deferred()
      const release = deferred()
      const first = world.inTransaction(async () => {
        await world.insert('1')
        holding.resolve()
        await release.promise
      })
      await holding.promise
      let called = false
      const second = failureOf(
        world.inTransaction(
          async () => {
            called = true
          },
          rootContext({ signal: controller.signal }),
        ),
      )
      controller.abort(failure)
      expect(await second).toBe(failure)
      release.resolve()
      await first
      await world.inTransaction(() => world.insert('2'))
      expect([called, await world.orders()]).toEqual([false, 2])
    })

    it('rejects a statement that would begin or end the transaction', async () => {
      await using world = await openWorld()
      for (const statement of ['COMMIT', ' rollback', 'BEGIN']) {
        await world.inTransaction(async () => {
          const error = await failureOf(world.run(world.database.executor(), statement, []))
          expect(codeOf(error)).toBe('ACKORD_TRANSACTION_REQUIRED')
        })
      }
    })

    it('retries a transaction that lost a conflict, as a whole', async () => {
      await using world = await openWorld()
      await world.query(dialect.createLose)
      let attempts = 0
      await world.inTransaction(async () => {
        attempts += 1
        await world.insert(String(attempts))
        if (attempts < 3) await world.run(world.database.executor(), 'SELECT lose()', [])
      })
      expect([attempts, await world.orders()]).toEqual([3, 1])
    })

    it('rolls back when the connection is terminated during the transaction, however the handler reacts', async () => {
      await using world = await openWorld()
      const { message, verdicts } = command('1')
      const rejected = handle(
        transactionMiddleware(world.database, settings),
        async (given) => {
          await world.insert('1')
          await given.ack()
          await world.terminate(await world.pid())
          await world.insert('2').catch(() => {})
          await world.insert('3').catch(() => {})
          return []
        },
        message,
      )
      expect(await failureOf(rejected)).not.toBeInstanceOf(CommitUnknownError)
      expect([verdicts, message.state, await world.orders()]).toEqual([[], 'pending', 0])
      await world.inTransaction(() => world.insert('1'))
      expect(await world.orders()).toBe(1)
    })
  })

  describe(`a nested transaction on ${name}`, () => {
    it('is undone alone when a statement in it fails', async () => {
      await using world = await openWorld()
      await world.inTransaction(async () => {
        await world.insert('before')
        await failureOf(
          world.inTransaction(async () => {
            await world.insert('inside')
            await world.insert('before')
          }),
        )
        await world.insert('after')
      })
      expect(await world.query('SELECT id FROM orders ORDER BY id')).toEqual([{ id: 'after' }, { id: 'before' }])
    })

    it('has its own handle, which ends with it', async () => {
      await using world = await openWorld()
      await world.inTransaction(async () => {
        let inner: Handle | undefined
        await world.inTransaction(async () => {
          inner = world.database.executor()
        })
        const error = await failureOf(world.run(inner as Handle, "INSERT INTO orders (id) VALUES ('late')", []))
        expect(codeOf(error)).toBe('ACKORD_SCOPE_ENDED')
        await world.insert('1')
      })
      expect(await world.orders()).toBe(1)
    })

    it('is retried by a handler that caught its failure, and committed once', async () => {
      await using world = await openWorld()
      const { message, verdicts } = command('1')
      let attempts = 0
      const middleware = transactional(world.database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: 'events' },
        transaction: settings,
      })
      async function charge() {
        attempts += 1
        await world.insert(`charge ${attempts}`)
        // Fails like an ORM statement that violates a unique constraint.
        if (attempts < 3) await world.insert('order')
      }
      await handle(
        middleware,
        async (given) => {
          await world.insert('order')
          for (let done = false; !done; ) {
            done = await world.inTransaction(charge).then(
              () => true,
              () => false,
            )
          }
          await given.ack()
          return [event('e-1')]
        },
        message,
      )
      expect(attempts).toBe(3)
      expect(await world.query('SELECT id FROM orders ORDER BY id')).toEqual([{ id: 'charge 3' }, { id: 'order' }])
      expect([await world.inbox(), await world.outbox(), verdicts]).toEqual([1, 1, [{ verdict: 'ack' }]])
    })
  })

  describe(`the outbox on ${name}`, () => {
    const record = () => [{ destination: 'events', message: marshal(event('e-1'), jsonMarshaler) }] as const

    it('takes part in a transaction of the user, and in its rollback', async () => {
      await using world = await openWorld()
      const outbox = sqlOutbox(world.database, settings)
      await world.begin(async (transaction) => {
        await world.run(transaction, "INSERT INTO orders (id) VALUES ('1')", [])
        await outbox.append(transaction, record())
      })
      const rejected = world.begin(async (transaction) => {
        await world.run(transaction, "INSERT INTO orders (id) VALUES ('2')", [])
        await outbox.append(transaction, record())
        throw failure
      })
      expect(await failureOf(rejected)).toBe(failure)
      expect([await world.orders(), await world.outbox()]).toEqual([1, 1])
    })

    it('can be read inside a transaction before it commits, in one of the library and one of the user', async () => {
      await using world = await openWorld()
      const outbox = sqlOutbox(world.database, settings)
      const idsSeen = async (transaction: Handle) => (await outbox.readAppended(transaction)).map(({ message }) => message.id)
      const seen: unknown[] = []
      const rejected = world.begin(async (transaction) => {
        seen.push(await idsSeen(transaction))
        await outbox.append(transaction, record())
        seen.push(await idsSeen(transaction))
        throw failure
      })
      expect(await failureOf(rejected)).toBe(failure)
      const written = world.database.write(async (transaction) => {
        seen.push(await idsSeen(transaction))
        await outbox.append(transaction, record())
        seen.push(await idsSeen(transaction))
        throw failure
      }, settings)
      expect(await failureOf(written)).toBe(failure)
      const [{ message }] = record()
      expect(seen).toEqual([[], [message.id], [], [message.id]])
      expect((await failureOf(outbox.readAppended(world.root))).message).toContain('readAppended() needs a running transaction')
    })

    it('lets repositories find the transaction of the user through withTransaction()', async () => {
      await using world = await openWorld()
      const { database } = world
      const rejected = world.begin(async (transaction) => {
        const context = database.withTransaction(rootContext(), transaction)
        expect(database.executor(context)).toBe(transaction)
        await world.run(database.executor(context), "INSERT INTO orders (id) VALUES ('1')", [])
        throw failure
      })
      expect(await failureOf(rejected)).toBe(failure)
      expect(await world.orders()).toBe(0)
    })

    it('rejects the root client, and a transaction that has ended', async () => {
      await using world = await openWorld()
      const outbox = sqlOutbox(world.database, settings)
      const error = await failureOf(outbox.append(world.root, record()))
      expect([error.code, error.message]).toEqual(['ACKORD_TRANSACTION_REQUIRED', expect.stringContaining('needs a running transaction')])
      let ended: Handle | undefined
      await world.begin(async (transaction) => {
        ended = transaction
      })
      await failureOf(outbox.append(ended as Handle, record()))
      expect(await world.outbox()).toBe(0)
    })

    it('refuses a handle whose transaction has ended, whatever withTransaction() was given', async () => {
      await using world = await openWorld()
      const { database } = world
      const outbox = sqlOutbox(database, settings)
      const events = (id: string) => [{ destination: 'events', message: marshal(event(id), jsonMarshaler) }] as const
      const useEnded = (handle: Handle) => {
        const reference = { destination: 'events', source: `${event('in a callback').attributes.source}`, id: 'in a callback' }
        const calls: (() => Promise<unknown>)[] = [
          () => outbox.append(handle, events('outside')),
          () => outbox.cancel(handle, [reference]),
          () => outbox.readAppended(handle),
        ]
        return calls.map((call) => failureOf(Promise.resolve().then(call)))
      }
      let ended: Handle | undefined
      await world.begin(async (transaction) => {
        database.withTransaction(rootContext(), transaction)
        await outbox.append(transaction, events('in a callback'))
        ended = transaction
      })
      await Promise.all(useEnded(ended as Handle))
      const expected = ['in a callback']
      if (world.openSession !== undefined) {
        await using session = await world.openSession()
        for (const id of ['by hand', 'by hand again']) {
          const handle = await session.begin()
          database.withTransaction(rootContext(), handle)
          await outbox.append(handle, events(id))
          await session.commit()
          for (const error of await Promise.all(useEnded(handle))) expect(error.code).toBe('ACKORD_TRANSACTION_REQUIRED')
          expected.push(id)
        }
      }
      expect((await world.query('SELECT id FROM ackord_outbox ORDER BY seq')).map(({ id }) => String(id))).toEqual(expected)
    })

    it('stores more records than fit into one statement', async () => {
      await using world = await openWorld()
      const outbox = sqlOutbox(world.database, settings)
      const [one] = record()
      const many = Array.from({ length: 5100 }, () => ({ destination: 'events', message: one.message }))
      await world.database.write((transaction) => outbox.append(transaction, many), settings)
      expect(await world.outbox()).toBe(5100)
    })

    it('reports that its table is missing', async () => {
      await using world = await openWorld()
      await world.query('ALTER TABLE ackord_outbox RENAME TO gone')
      await world.query('DROP TABLE ackord_inbox')
      const outbox = sqlOutbox(world.database, settings)
      expect((await failureOf(outbox.claim({ limit: 1, lease: 1000 }))).code).toBe('ACKORD_SCHEMA')
      expect((await failureOf(world.database.write((transaction) => outbox.append(transaction, record()), settings))).code).toBe(
        'ACKORD_SCHEMA',
      )
    })

    it('stores the outputs of several messages of a group, skips those handled before, and deletes inbox rows received long ago', async () => {
      await using world = await openWorld()
      const { database } = world
      const middleware = transactional(database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: 'events' },
        transaction: settings,
        groupCommit: { size: 8, groups: 1 },
      })
      const process = middleware(async (given) => {
        await world.insert(String(given.id))
        return [event(`e-${given.id}`)]
      })
      const deliver = (id: string) => {
        const { message } = command(id)
        return process(message, message.context(rootContext()))
      }
      await Promise.all(['1', '2', '2', '3', '4'].map(deliver))
      expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([4, 4, 4])
      // Those that were handled before are recognised by what the adapter reads from the inbox.
      await Promise.all(['2', '5', '3', '6'].map(deliver))
      expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([6, 6, 6])
      await world.query(dialect.ageInbox)
      expect([await cleanInbox(database, { limit: 2 }), await cleanInbox(database), await world.inbox()]).toEqual([2, 3, 1])
    })
  })
}

/** Opens a world with helper functions for the scenarios. */
export async function openAdapterWorld<Handle>(
  open: OpenAdapterWorld<Handle>,
  dialect: AdapterDialect,
  options?: { readonly max?: number },
) {
  const world = await open(options)
  const { database } = world
  const run = transactionMiddleware(database, settings)
  return {
    ...world,
    /** Inserts an order in the current transaction of the caller. */
    insert: (id: string) => world.run(database.executor(), dialect.insert, [id]),
    async pid() {
      return (await world.run(database.executor(), dialect.pid, []))[0]?.['pid']
    },
    /** Resolves when the connection is closed. */
    terminate: (pid: unknown) => dialect.terminate(world.query, pid),
    /** Runs `work` in an ambient transaction. Inside another transaction it is a savepoint. */
    async inTransaction(work: () => Promise<unknown>, context: Context = currentContext() ?? rootContext()): Promise<void> {
      const { message } = command('1')
      await run(async () => {
        await work()
        return []
      })(message, currentContext() ?? message.context(context))
    },
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
}

/** The first Ackord error code among an error and its causes: ORMs wrap errors. */
export function codeOf(error: unknown): string | undefined {
  return causes(error)
    .map((cause) => (cause as { readonly code?: string }).code)
    .find((code) => code?.startsWith('ACKORD_'))
}

/** The error and its causes. Sequelize stores the cause in `original`. */
function causes(error: unknown): unknown[] {
  return error instanceof Error ? [error, ...causes('original' in error ? error.original : error.cause)] : []
}
