import {
  afterCommit,
  afterRollback,
  type BatchFunction,
  type BatchMessage,
  batchHandler,
  currentContext,
  defineEvent,
  eventHandler,
  type Handler,
  jsonMarshaler,
  MemoryBroker,
  type Middleware,
  marshal,
  messageKey,
  RejectError,
  Router,
  type StandardSchema,
  silentLogger,
  systemRuntime,
} from '@ackord/core'
import { timeoutMiddleware } from '@ackord/core/middleware'
import { deferred, VirtualRuntime } from '@ackord/testkit'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sqlOutbox, transactional } from '../../src/index.ts'
import { createService } from '../../src/service.ts'
import { batchRouter, type Delivery, deliver, messageOf, type Order, routerWith } from '../support/batch-runner.ts'
import { type ClientWorld, type OpenClientWorld, onEachClient } from '../support/client-worlds.ts'
import { openPg } from '../support/world.ts'

const orderIndexed = defineEvent<Order>('order.indexed')
const ids = (count: number, prefix = 'm') => Array.from({ length: count }, (_, index) => `${prefix}${index}`)
const all = (count: number, verdict = 'ack') => Array<string>(count).fill(verdict)

/** What the handling of a message does, by its id. */
const behaviours = [
  'insert',
  'insert',
  'insert',
  'throw',
  'name',
  'nameReject',
  'swallow',
  'collide',
  'nothing',
  'manyEvents',
  'invalidEvent',
  'invalidData',
] as const
type Behaviour = (typeof behaviours)[number]

/** What each database reports when a transaction has lost a conflict: PostgreSQL, MySQL and MariaDB, SQLite. */
const lostConflict = Object.assign(new Error('database is locked'), { code: '40001', errno: 1213, errcode: 5 })

/** Inserts an order for each message, and returns an event for each. `calls` receives the ids of each call. */
function insertAll<Handle>(world: ClientWorld<Handle>, calls: (readonly string[])[] = []): BatchFunction<Order> {
  return async (messages) => {
    calls.push(messages.map(({ data }) => data.id))
    for (const { data } of messages) await world.insert(world.database.executor(), data.id)
    return eventsOf(messages)
  }
}

function eventsOf(messages: readonly BatchMessage<Order>[]) {
  return new Map(messages.map((message) => [message, [orderIndexed({ id: message.data.id })]]))
}

onEachClient(<Handle>(name: string, open: OpenClientWorld<Handle>) => {
  describe(`a batch handler on ${name}`, () => {
    it('is called once with all messages that wait, without duplicates, and stores their events; all are acked', async () => {
      await using world = await open()
      const calls: (readonly string[])[] = []
      const sent = [...ids(20), 'm3', 'm3', 'm19']
      expect(await deliver(batchRouter(world.database, insertAll(world, calls), { size: 23, wait: 60_000 }), sent)).toEqual(all(23))
      expect(calls).toEqual([ids(20)])
      expect(await world.counts()).toEqual([20, 20, 20])
      // In the order of the messages.
      expect(await world.column('SELECT attributes FROM ackord_outbox ORDER BY seq')).toHaveLength(20)
      calls.length = 0
      const again = batchRouter(world.database, insertAll(world, calls), { size: 4, wait: 60_000 })
      expect(await deliver(again, ['m1', 'new', 'm2', 'm3'])).toEqual(all(4))
      expect(calls).toEqual([['new']])
      expect(await world.counts()).toEqual([21, 21, 21])
    })

    it('finds one poison message among 50: the others are handled together, and only the poison fails', async () => {
      await using world = await open()
      const calls: number[] = []
      const { router, logger } = batchRouter(world.database, async (messages, context) => {
        calls.push(messages.length)
        if (messages.some(({ data }) => data.id === 'm33')) throw new RejectError('poison')
        return await insertAll(world)(messages, context)
      })
      const verdicts = await deliver({ router }, ids(50))
      expect(verdicts.filter((verdict) => verdict !== 'ack')).toEqual(['reject ACKORD_REJECTED'])
      expect(verdicts[33]).toBe('reject ACKORD_REJECTED')
      expect(calls).toEqual([50, 25, 25, 13, 7, 6, 3, 2, 1, 1, 1, 3, 12])
      expect(await world.counts()).toEqual([49, 49, 49])
      expect(logger.lines.filter(({ level }) => level === 'error')).toHaveLength(1)
    })

    it('handles messages that the function names alone, and the others again together', async () => {
      await using world = await open()
      const calls: (readonly string[])[] = []
      const { router } = batchRouter(world.database, async (messages, context) => {
        const bad = messages.filter(({ data }) => data.id.startsWith('bad'))
        const indexed = await insertAll(world, calls)(messages, context)
        const reasons = bad.map((message) => message.failed(message.data.id === 'bad1' ? new RejectError('no') : new Error('later')))
        if (reasons.length === 1) throw reasons[0]
        if (reasons.length > 1) throw new Error('wrapped', { cause: new AggregateError(reasons) })
        return indexed
      })
      const verdicts = await deliver({ router }, ['a', 'bad1', 'b', 'bad2', 'c'])
      expect(verdicts).toEqual(['ack', 'reject ACKORD_REJECTED', 'ack', 'nack Error: later', 'ack'])
      expect(calls).toEqual([['a', 'bad1', 'b', 'bad2', 'c'], ['a', 'b', 'c'], ['bad1'], ['bad2']])
      expect(await world.counts()).toEqual([3, 3, 3])
    })

    it('rolls back what a message named after a failed statement has done, and handles a message alone that was delivered before', async () => {
      await using world = await open()
      await world.insertOutside('taken')
      const calls: (readonly string[])[] = []
      const { router } = batchRouter(world.database, async (messages) => {
        calls.push(messages.map(({ data }) => data.id))
        for (const message of messages) {
          try {
            await world.insert(world.database.executor(), message.data.id)
          } catch (error) {
            throw message.failed(error)
          }
        }
      })
      const verdicts = await deliver({ router }, ['a', 'taken', { id: 'old', deliveryCount: 2 }, 'b'])
      expect(verdicts.map((verdict) => verdict.split(' ')[0])).toEqual(['ack', 'nack', 'ack', 'ack'])
      expect(calls.map((call) => call.join()).sort()).toEqual(['a,b', 'a,taken,b', 'old', 'taken'])
      expect(await world.ids()).toEqual(['a', 'b', 'old', 'taken'])
    })

    it('waits for queries that the function has not awaited', async () => {
      await using world = await open()
      const { router } = batchRouter(world.database, async (messages) => {
        for (const { data } of messages) void world.insert(world.database.executor(), data.id)
        return eventsOf(messages)
      })
      expect(await deliver({ router }, ids(4))).toEqual(all(4))
      expect(await world.counts()).toEqual([4, 4, 4])
    })

    it('repeats the whole batch after a lost conflict, and handles smaller ones if it is lost again and again', async () => {
      await using world = await open()
      const calls: number[] = []
      let conflicts = 2
      const { router } = batchRouter(
        world.database,
        async (messages, context) => {
          calls.push(messages.length)
          const indexed = await insertAll(world)(messages, context)
          conflicts -= 1
          if (conflicts >= 0) throw new Error('saving', { cause: lostConflict })
          return indexed
        },
        { transactional: { transaction: { retries: 2 } } },
      )
      expect(await deliver({ router }, ids(4))).toEqual(all(4))
      expect(calls).toEqual([4, 4, 4])
      conflicts = 3
      calls.length = 0
      expect(await deliver({ router }, ids(4, 'n'))).toEqual(all(4))
      expect(calls).toEqual([4, 4, 4, 2, 2])
      expect(await world.counts()).toEqual([8, 8, 8])
    })

    it('has a savepoint in which a failure is undone alone, stores events that the function appends, and runs its callbacks once', async () => {
      await using world = await open()
      const { database } = world
      const outbox = sqlOutbox(database, { destination: 'events', source: '/orders', logger: silentLogger })
      const callbacks: string[] = []
      let calls = 0
      const { router } = batchRouter(database, async (messages, context) => {
        expect([currentContext(), context.get(messageKey)]).toEqual([context, undefined])
        afterCommit(context, () => void callbacks.push('committed'))
        afterRollback(context, () => void callbacks.push('rolled back'))
        await outbox.append(database.executor(), orderIndexed({ id: 'appended' }))
        await database
          .write(async (transaction) => {
            await world.insert(transaction, 'undone')
            await outbox.append(transaction, orderIndexed({ id: 'undone' }))
            throw new Error('undo')
          })
          .catch(() => {})
        await database.write((transaction) => world.insert(transaction, 'kept'))
        calls += 1
        if (calls === 1) throw lostConflict
        return eventsOf(messages)
      })
      expect(await deliver({ router }, ids(2))).toEqual(all(2))
      expect(await world.ids()).toEqual(['kept'])
      expect(await world.counts()).toEqual([1, 2, 3])
      expect([calls, callbacks]).toEqual([2, ['rolled back', 'committed']])
    })

    it('keeps what the function has committed early, tells so for each message, and does not call it again', async () => {
      if (!name.includes('sqlite')) return
      await using world = await open()
      let calls = 0
      const { router } = batchRouter(world.database, async (messages) => {
        calls += 1
        for (const { data } of messages) await world.insert(world.database.executor(), data.id)
        // On the client itself, past the check of statements.
        world.query('COMMIT')
        return eventsOf(messages)
      })
      expect(await deliver({ router }, ['a', 'b'])).toEqual(all(2, 'nack ACKORD_SCOPE_ENDED'))
      expect(await deliver({ router }, ['a', 'b'])).toEqual(all(2))
      expect([calls, await world.ids()]).toEqual([1, ['a', 'b']])
    })

    it('handles each message alone, and says so, if a middleware opens a savepoint around each of them', async () => {
      await using world = await open()
      const { database } = world
      const calls: (readonly string[])[] = []
      const inSavepoint: Middleware = (next) => (message, context) => database.write((_, inside) => next(message, inside), { context })
      const { router, logger } = batchRouter(database, insertAll(world, calls), { use: [inSavepoint] })
      expect(await deliver({ router }, ids(3))).toEqual(all(3))
      expect(calls).toEqual([['m0'], ['m1'], ['m2']])
      expect(logger.lines.filter(({ level }) => level === 'warn')).toHaveLength(1)
      expect(await world.counts()).toEqual([3, 3, 3])
    })

    it('passes each message through its middleware, which may answer instead of the function or add outputs', async () => {
      await using world = await open()
      const calls: (readonly string[])[] = []
      const passing: Middleware = (next) => async (message, context) => {
        if (message.id === 'skipped') return []
        const outputs = await next(message, context)
        return [...outputs, orderIndexed({ id: `${message.id}-more` })]
      }
      const outbox = { destination: 'events', source: '/more' }
      const { router } = batchRouter(world.database, insertAll(world, calls), { use: [passing], transactional: { outbox } })
      expect(await deliver({ router }, ['a', 'skipped', 'b'])).toEqual(all(3))
      expect(calls).toEqual([['a', 'b']])
      expect(await world.counts()).toEqual([2, 3, 4])
    })
  })
})

describe('the transaction of a batch', () => {
  it('has one statement for the inbox, and one for the events of all messages, on PostgreSQL', async () => {
    await using world = await openPg({ fresh: true })
    await world.query('CREATE TABLE statements (what text, transaction bigint)')
    await world.query(
      `CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO statements VALUES (TG_TABLE_NAME, txid_current()); RETURN NULL; END $$`,
    )
    for (const table of ['ackord_inbox', 'ackord_outbox', 'orders']) {
      await world.query(`CREATE TRIGGER note AFTER INSERT ON ${table} FOR EACH STATEMENT EXECUTE FUNCTION note()`)
    }
    const { database } = world
    const { router } = batchRouter(database, async (messages) => {
      await database.executor().query('INSERT INTO orders (id) SELECT unnest($1::text[])', [messages.map(({ id }) => id)])
      return eventsOf(messages)
    })
    expect(await deliver({ router }, ids(50))).toEqual(all(50))
    const statements = await world.query('SELECT what, count(*)::int AS count FROM statements GROUP BY what ORDER BY what')
    // 50 rows of the outbox are three prepared statements, sent together.
    expect(statements).toEqual([
      { what: 'ackord_inbox', count: 1 },
      { what: 'ackord_outbox', count: 3 },
      { what: 'orders', count: 1 },
    ])
    expect(await world.query('SELECT DISTINCT transaction FROM statements')).toHaveLength(1)
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([50, 50, 50])
  })

  it('is retried as a whole after a serialization failure of PostgreSQL', async () => {
    await using world = await openPg()
    await world.query("INSERT INTO orders VALUES ('shared', '')")
    const { database } = world
    const calls: number[] = []
    const { router } = batchRouter(
      database,
      async (messages) => {
        calls.push(messages.length)
        await database.executor().query("SELECT note FROM orders WHERE id = 'shared'")
        if (calls.length === 1) await world.query("UPDATE orders SET note = 'other'")
        await database.executor().query("UPDATE orders SET note = note || '+' WHERE id = 'shared'")
      },
      { transactional: { transaction: { isolation: 'repeatable read' } } },
    )
    expect(await deliver({ router }, ids(5))).toEqual(all(5))
    expect(calls).toEqual([5, 5])
    expect(await world.query('SELECT note FROM orders')).toEqual([{ note: 'other+' }])
  })

  it('is not shared by messages that another batch is handling: two processes with the same messages in opposite order handle each once', async () => {
    await using world = await openPg()
    const { database } = world
    const work: BatchFunction<Order> = async (messages) => {
      await database.executor().query('INSERT INTO orders (id) SELECT unnest($1::text[])', [messages.map(({ id }) => id)])
      return eventsOf(messages)
    }
    const routers = [batchRouter(database, work, { size: 20 }), batchRouter(database, work, { size: 13 })]
    const sent = ids(40)
    const verdicts = await Promise.all(routers.map((router, index) => deliver(router, index === 0 ? sent : sent.toReversed())))
    expect(verdicts).toEqual([all(40), all(40)])
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([40, 40, 40])
  })

  it('gives each event the id and the correlation of its own message, the same for each attempt', async () => {
    await using world = await openPg()
    const { database } = world
    const events = async () => await world.query('SELECT id, attributes FROM ackord_outbox ORDER BY seq')
    const sent = ids(3).map((id) => ({ id, attributes: { correlationid: `c-${id}` } }))
    let failures = 1
    await deliver(
      batchRouter(database, (messages) => {
        failures -= 1
        if (failures >= 0) throw new Error('once')
        return eventsOf(messages)
      }),
      sent,
    )
    const batched = await events()
    await world.query('DELETE FROM ackord_outbox; DELETE FROM ackord_inbox')
    const single = eventHandler<Order>({ type: 'order.place', source: '/orders' }, ({ id }) => [orderIndexed({ id })])
    await deliver(routerWith(database, single, { router: { concurrency: 1 } }), sent)
    const expected = await events()
    const seen = (rows: typeof batched) => rows.map(({ id, attributes }) => [id, (attributes as { correlationid?: string }).correlationid])
    expect(seen(batched)).toEqual(seen(expected))
    expect(batched).toHaveLength(3)
  })

  it.each(['processTimeout', 'timeoutMiddleware()'])(
    'ends with %s: the messages are then handled alone, each with a time limit of its own',
    async (limit) => {
      await using world = await openPg()
      const { database } = world
      const runtime = new VirtualRuntime()
      const calls: (readonly string[])[] = []
      let entered = deferred()
      const { router } = batchRouter(
        database,
        async (messages, { signal }) => {
          calls.push(messages.map(({ data }) => data.id))
          for (const { data } of messages) await database.executor().query('INSERT INTO orders (id) VALUES ($1)', [data.id])
          if (!messages.some(({ data }) => data.id === 'slow')) return
          entered.resolve()
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          throw signal.reason
        },
        {
          size: 3,
          router: { runtime, ...(limit === 'processTimeout' && { processTimeout: 1000 }) },
          use: limit === 'processTimeout' ? [] : [timeoutMiddleware(1000, { runtime })],
          transactional: { outbox: { destination: 'events', runtime } },
        },
      )
      const delivered = deliver({ router }, ['a', 'slow', 'b'])
      await entered.promise
      entered = deferred()
      await runtime.advance(1000)
      await entered.promise
      await runtime.advance(1000)
      expect(await delivered).toEqual(['ack', 'nack ACKORD_PROCESS_TIMEOUT', 'ack'])
      expect(calls).toEqual([['a', 'slow', 'b'], ['a'], ['slow'], ['b']])
      expect(await world.orders()).toBe(2)
    },
  )
})

describe('a router with a batch handler', () => {
  it('handles the gathered messages at once when it is stopped', async () => {
    await using world = await openPg()
    const calls: number[] = []
    const { router } = batchRouter(world.database, (messages) => void calls.push(messages.length), { wait: 60_000 })
    const broker = new MemoryBroker()
    const handling = router.run(broker.source('orders'))
    await broker.publish('orders', ids(3).map(rawOrder))
    while (router.health().inFlight < 3) await systemRuntime.yield?.()
    await router.stop()
    await handling
    expect(calls).toEqual([3])
    expect(await world.inbox()).toBe(3)
    expect((await broker.stats('orders')).waiting).toBe(0)
  })

  it('aborts a running batch when the shutdown is forced, and returns its messages to the broker', async () => {
    await using world = await openPg()
    const { database } = world
    const entered = deferred()
    const { router } = batchRouter(
      database,
      async (messages, { signal }) => {
        await database.executor().query('INSERT INTO orders (id) SELECT unnest($1::text[])', [messages.map(({ id }) => id)])
        entered.resolve()
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        throw signal.reason
      },
      { router: { shutdownTimeout: 0 } },
    )
    const delivering = deliver({ router }, ids(3))
    await entered.promise
    await router.stop()
    expect(await delivering).toEqual(all(3, 'nack ACKORD_SHUTDOWN'))
    expect([await world.orders(), await world.inbox()]).toEqual([0, 0])
  })

  it('handles messages of other types as before, and messages of one key in their order', async () => {
    await using world = await openPg()
    const { database } = world
    const calls: string[] = []
    const { router } = batchRouter(database, (messages) => void calls.push(messages.map(({ id }) => id).join()), {
      size: 2,
      wait: 60_000,
      router: { orderingKey: 'partitionkey' },
    })
    router.handle(eventHandler<Order>({ type: 'order.cancel' }, ({ id }) => void calls.push(`cancelled ${id}`)))
    const keyed = (id: string, partitionkey: string, type?: string): Delivery => ({
      id,
      attributes: { partitionkey },
      ...(type && { type }),
    })
    const sent = [keyed('a1', 'a'), keyed('a2', 'a'), keyed('c', 'c', 'order.cancel'), keyed('b1', 'b'), keyed('b2', 'b')]
    expect(await deliver({ router }, sent)).toEqual(all(5))
    expect(calls.filter((call) => !call.startsWith('cancelled'))).toEqual(['a1,b1', 'a2,b2'])
    expect(calls).toContain('cancelled c')
  })

  it('has groups for its other handlers', async () => {
    await using world = await openPg()
    const { database } = world
    const calls: string[] = []
    const { router } = batchRouter(database, (messages) => void calls.push(messages.map(({ id }) => id).join()), {
      transactional: { groupCommit: { size: 5, groups: 1 } },
    })
    const transactions = new Set<unknown>()
    router.handle(
      eventHandler<Order>({ type: 'order.cancel' }, async () => {
        transactions.add((await database.executor().query('SELECT pg_current_xact_id()::text AS id')).rows[0]?.['id'])
      }),
    )
    const cancelled = ids(5, 'c').map((id): Delivery => ({ id, type: 'order.cancel' }))
    expect(await deliver({ router }, [...ids(3), ...cancelled])).toEqual(all(8))
    expect([calls, transactions.size]).toEqual([['m0,m1,m2'], 1])
  })

  it('is what createService() makes of a service with a batch handler', async () => {
    await using world = await openPg()
    const { database } = world
    const broker = new MemoryBroker()
    const calls: number[] = []
    const handler = batchHandler<Order>({ type: 'order.place', size: 10, wait: 60_000 }, (messages) => {
      calls.push(messages.length)
      return eventsOf(messages)
    })
    await broker.publish('orders', ids(10).map(rawOrder))
    await using service = createService({
      database,
      consumer: 'orders',
      source: broker.source('orders'),
      handlers: [handler],
      concurrency: 10,
      publisher: broker,
      destination: 'events',
      eventSource: '/orders',
      cleanup: false,
      logger: silentLogger,
    }).start()
    await broker.idle('orders')
    await service.stop()
    expect([calls, await world.inbox()]).toEqual([[10], 10])
    await expect(
      new Router({ concurrency: 9 })
        .use(transactional(database, { inbox: { consumer: 'o' }, outbox: { destination: 'e' } }))
        .handle(handler)
        .run(broker.source('orders')),
    ).rejects.toThrow(/concurrency of the router is 9, and the batch handler 'order.place' has the size 10/)
  })
})

function rawOrder(id: string) {
  return marshal(messageOf(id), jsonMarshaler)
}

onEachClient(<Handle>(name: string, open: OpenClientWorld<Handle>) => {
  it(`batches on ${name} have the same outcome as handling messages one by one, with any failures and duplicates`, async () => {
    const message = fc.record({ id: fc.integer({ min: 0, max: 12 }), does: fc.constantFrom(...behaviours) })
    const limits = fc.record({ size: fc.integer({ min: 2, max: 10 }), batches: fc.integer({ min: 1, max: 2 }) })
    await fc.assert(
      fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 30 }), limits, async (plan, { size, batches }) => {
        // The behaviour of a message depends on its id: the second delivery does the same.
        const does = new Map(plan.map((one) => [String(one.id), one.does]))
        const input = { type: 'order.place', source: '/orders', schema: orders(does) }
        const inBatches = await outcome(plan, 200, (world) =>
          batchHandler<Order>({ ...input, size, batches, wait: 1 }, async (messages) => {
            const events = new Map<BatchMessage<Order>, readonly object[]>()
            for (const one of messages) {
              try {
                events.set(one, await place(world, one.data, does))
              } catch (error) {
                throw does.get(one.data.id)?.startsWith('name') ? one.failed(error) : error
              }
            }
            return events
          }),
        )
        const single = await outcome(plan, 1, (world) => eventHandler<Order>(input, (order) => place(world, order, does)))
        expect(inBatches).toEqual(single)
      }),
      { numRuns: 8, seed: 20_261_119 },
    )
  })

  async function place(world: ClientWorld<Handle>, { id }: Order, does: ReadonlyMap<string, Behaviour>): Promise<object[]> {
    const insert = (row: string) => world.insert(world.database.executor(), row)
    const what = does.get(id)
    if (what === 'nothing') return []
    await insert(id)
    if (what === 'throw' || what === 'nameReject') throw new RejectError('no')
    if (what === 'name') throw new Error('later')
    if (what === 'swallow') await insert('taken').catch(() => {})
    if (what === 'collide') await insert('taken')
    if (what === 'invalidEvent') return [{}]
    return Array.from({ length: what === 'manyEvents' ? 3 : 1 }, () => orderIndexed({ id }))
  }

  async function outcome(
    plan: readonly { readonly id: number }[],
    concurrency: number,
    handlerOn: (world: ClientWorld<Handle>) => Handler,
  ): Promise<unknown> {
    await using world = await open()
    await world.insertOutside('taken')
    const delivered = plan.map(({ id }) => String(id))
    const verdicts = await deliver(routerWith(world.database, handlerOn(world), { router: { concurrency } }), delivered)
    const rows = async (table: string) => (await world.column(`SELECT id FROM ${table}`)).map(String).sort()
    return {
      verdicts: verdicts.map((verdict, index) => `${delivered[index]} ${verdict}`).sort(),
      orders: await rows('orders'),
      inbox: await rows('ackord_inbox'),
      outbox: await rows('ackord_outbox'),
    }
  }
})

function orders(does: ReadonlyMap<string, Behaviour>): StandardSchema<Order> {
  const validate = (value: unknown) =>
    does.get((value as Order).id) === 'invalidData' ? { issues: [{ message: 'is invalid' }] } : { value: value as Order }
  return { '~standard': { version: 1, vendor: 'test', validate } } as StandardSchema<Order>
}
