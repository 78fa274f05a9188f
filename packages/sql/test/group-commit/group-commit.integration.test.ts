import { AsyncLocalStorage } from 'node:async_hooks'
import {
  AckordError,
  afterCommit,
  afterRollback,
  type Context,
  commandHandler,
  currentContext,
  defineEvent,
  jsonMarshaler,
  MemoryBroker,
  Message,
  marshal,
  type Process,
  publishAll,
  RejectError,
  Router,
  rootContext,
  silentLogger,
} from '@ackord/core'
import { timeoutMiddleware } from '@ackord/core/middleware'
import { deferred, recordingLogger, VirtualRuntime } from '@ackord/testkit'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Database, sqlOutbox, type TransactionalOptions, transactional } from '../../src/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { command, event, failureOf, openPg, type TestHandle, type World, worldKinds } from '../support/world.ts'

const failure = new Error('failed')
const options = { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } }

/** Processes messages concurrently, as a router would: messages of one event-loop turn form a group. */
function together(
  database: Database<TestHandle>,
  process: Process,
  messages: readonly Message[],
  more: Partial<TransactionalOptions> = {},
): Promise<PromiseSettledResult<readonly Message[]>[]> {
  const run = transactional(database, { ...options, transaction: { logger: silentLogger }, groupCommit: { size: 50, groups: 1 }, ...more })(
    process,
  )
  return Promise.allSettled(messages.map((message) => run(message, message.context(rootContext()))))
}

function insertOrder(database: Database<TestHandle>): Process {
  return async (message) => {
    await database.executor().query('INSERT INTO orders VALUES ($1, $2)', [message.id, await transactionId(database)])
    return [event(`e-${message.id}`)]
  }
}

async function transactionId(database: Database<TestHandle>): Promise<unknown> {
  return (await database.executor().query('SELECT pg_current_xact_id()::text AS id')).rows[0]?.['id']
}

/** The number of transactions that wrote the orders. */
async function transactions(world: World): Promise<number> {
  return (await world.query('SELECT DISTINCT note FROM orders')).length
}

function commands(...ids: readonly string[]) {
  const made = ids.map((id) => command(id))
  return {
    messages: made.map(({ message }) => message),
    verdicts: () => made.map(({ verdicts }) => verdicts.map(({ verdict }) => verdict).join()),
  }
}

describe.each(worldKinds)('groupCommit on $name', ({ open }) => {
  it('counts each message that was handled and committed once, and no other', async () => {
    await using world = await open()
    const { messages } = commands('1', '2', '3', '1')
    const insert = insertOrder(world.database)
    const counted: string[] = []
    const inbox = { consumer: 'orders', metrics: { count: (name: string) => void counted.push(name), observe() {}, gauge() {} } }
    const process: Process = (message, context) => (message.id === '2' ? Promise.reject(failure) : insert(message, context))
    await together(world.database, process, messages, { inbox })
    expect(counted.filter((name) => name === 'ackord.inbox.handled')).toHaveLength(2)
    expect(await world.inbox()).toBe(2)
  })

  it('handles messages that wait at the same time in one transaction, one after another', async () => {
    await using world = await open()
    const { database } = world
    const { messages } = commands('1', '2', '3', '4')
    let running = 0
    const results = await together(
      database,
      async (message, context) => {
        running += 1
        expect(running).toBe(1)
        const outputs = await insertOrder(database)(message, context)
        running -= 1
        return outputs
      },
      messages,
    )
    expect(results).toEqual(messages.map(() => ({ status: 'fulfilled', value: [] })))
    expect([await world.orders(), await world.inbox(), await world.outbox(), await transactions(world)]).toEqual([4, 4, 4, 1])
    expect(await world.query('SELECT id FROM ackord_outbox ORDER BY seq')).toEqual(['e-1', 'e-2', 'e-3', 'e-4'].map((id) => ({ id })))
  })

  it('handles a message that is in the group twice only once, and acks both', async () => {
    await using world = await open()
    const { database } = world
    const { messages, verdicts } = commands('1', '2', '1')
    const handled: unknown[] = []
    await together(
      database,
      async (message) => {
        handled.push(message.id)
        return []
      },
      messages,
    )
    expect(handled).toEqual(['1', '2'])
    // The inbox settles the duplicate. The router would settle the others, but this test has none.
    expect(verdicts()).toEqual(['', '', 'ack'])
    expect(await world.inbox()).toBe(2)
  })

  it('skips messages that were handled before', async () => {
    await using world = await open()
    const { database } = world
    await together(database, insertOrder(database), commands('1', '2').messages)
    const { messages, verdicts } = commands('1', '3', '2')
    await together(database, insertOrder(database), messages)
    expect(verdicts()).toEqual(['ack', '', 'ack'])
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([3, 3, 3])
  })

  it('handles each message alone when one fails: the others are applied, and only the failed one fails', async () => {
    await using world = await open()
    const { database } = world
    const { messages } = commands('1', 'bad', '3')
    const calls: unknown[] = []
    const results = await together(
      database,
      async (message, context) => {
        calls.push(message.id)
        if (message.id === 'bad') throw failure
        return await insertOrder(database)(message, context)
      },
      messages,
    )
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(results[1]).toEqual({ status: 'rejected', reason: failure })
    expect(calls).toEqual(['1', 'bad', '1', 'bad', '3'])
    expect([await world.orders(), await world.inbox(), await world.outbox(), await transactions(world)]).toEqual([2, 2, 2, 2])
  })

  it('handles messages alone from the start if they failed in a group before or were delivered before', async () => {
    await using world = await open()
    const { database } = world
    let broken = true
    const calls: string[] = []
    const process = transactional(database, { ...options, groupCommit: { size: 50, groups: 1 } })(async (message, context) => {
      calls.push(`${message.id}`)
      if (message.id === 'bad' && broken) throw failure
      return await insertOrder(database)(message, context)
    })
    const run = (...messages: readonly Message[]) =>
      Promise.allSettled(messages.map((message) => process(message, message.context(rootContext()))))
    await run(...commands('bad', '2').messages)
    expect(calls).toEqual(['bad', 'bad', '2'])
    broken = false
    const again = new Message({}, command('again').message.attributes, { deliveryCount: 2 })
    await run(...commands('bad', '3', '4').messages, again)
    expect(calls).toHaveLength(7)
    // 2 alone, bad alone, again alone, 3 and 4 together.
    expect([await world.orders(), await transactions(world)]).toEqual([5, 4])
  })

  it('rolls back the changes of a nacked or rejected message, and keeps its verdict', async () => {
    await using world = await open()
    const { database } = world
    const { messages, verdicts } = commands('1', 'nack', 'reject', '4')
    await together(
      database,
      async (message, context) => {
        const outputs = await insertOrder(database)(message, context)
        if (message.id === 'nack') await message.nack(failure)
        if (message.id === 'reject') await message.reject(failure)
        return outputs
      },
      messages,
    )
    expect(verdicts()).toEqual(['', 'nack', 'reject', ''])
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([2, 2, 2])
  })

  it('determines which handler swallowed an error', async () => {
    await using world = await open()
    const { database } = world
    const results = await together(
      database,
      async (message, context) => {
        if (message.id === 'bad')
          await database
            .executor()
            .query('SELECT 1 / 0')
            .catch(() => {})
        return await insertOrder(database)(message, context)
      },
      commands('1', 'bad', '3').messages,
    )
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(await world.orders()).toBe(2)
  })

  it('provides each message with its own handle, which ends with its handler', async () => {
    await using world = await open()
    const { database } = world
    const handles: TestHandle[] = []
    const errors: unknown[] = []
    await together(
      database,
      async (message) => {
        const [before] = handles
        if (before !== undefined) errors.push(await failureOf(before.query('SELECT 1')))
        handles.push(database.executor())
        await database.executor().query('INSERT INTO orders VALUES ($1)', [message.id])
        return []
      },
      commands('1', '2').messages,
    )
    expect(handles[0]).not.toBe(handles[1])
    expect(errors).toEqual([expect.objectContaining({ code: 'ACKORD_SCOPE_ENDED' })])
    expect(await world.orders()).toBe(2)
  })

  it('has a context and a scope per message: callbacks run once, after the commit of the group or of the message alone', async () => {
    await using world = await open()
    const { database } = world
    const calls: string[] = []
    const contexts: (Context | undefined)[] = []
    const { messages } = commands('1', '2')
    await together(
      database,
      async (message, context) => {
        contexts.push(currentContext())
        expect(currentContext()).toBe(context)
        afterCommit(context, async () => void calls.push(`${message.id} of ${await world.inbox()}`))
        return []
      },
      messages,
    )
    expect(calls.sort()).toEqual(['1 of 2', '2 of 2'])
    expect(contexts[0]).not.toBe(contexts[1])
  })

  it('runs afterRollback callbacks of a group that was dissolved', async () => {
    await using world = await open()
    const { database } = world
    const calls: string[] = []
    await together(
      database,
      async (message, context) => {
        afterRollback(context, () => void calls.push(`${message.id}`))
        if (message.id === 'bad') throw failure
        return []
      },
      commands('1', 'bad').messages,
    )
    expect(calls).toEqual(['1', 'bad', 'bad'])
  })

  it('undoes a savepoint alone, with its events', async () => {
    await using world = await open()
    const { database } = world
    const outbox = sqlOutbox(database, { logger: silentLogger })
    const results = await together(
      database,
      async (message) => {
        await database
          .write(async (transaction) => {
            await outbox.append(transaction, [
              { destination: 'events', message: new Message(new Uint8Array(), event(`s-${message.id}`).attributes) },
            ])
            if (message.id === '1') throw failure
          })
          .catch(() => {})
        return [event(`e-${message.id}`)]
      },
      commands('1', '2').messages,
    )
    expect(results.every(({ status }) => status === 'fulfilled')).toBe(true)
    expect((await world.query('SELECT id FROM ackord_outbox')).map(({ id }) => id).sort()).toEqual(['e-1', 'e-2', 's-2'])
  })

  it('rejects a message without id, and handles the others', async () => {
    await using world = await open()
    const { database } = world
    const nameless = new Message({}, { type: 'order.place', source: '/shop' })
    const results = await together(database, insertOrder(database), [...commands('1', '2').messages, nameless])
    expect(results[2]).toMatchObject({ status: 'rejected', reason: { code: 'ACKORD_MISSING_ATTRIBUTE' } })
    expect([await world.orders(), await transactions(world)]).toEqual([2, 1])
  })

  it('starts handler timeouts with the handlers: waiting for others does not count', async () => {
    await using world = await open()
    const { database } = world
    const runtime = new VirtualRuntime()
    const first = deferred()
    const inside = deferred()
    const process = transactional(database, { ...options, groupCommit: { size: 2, groups: 1 } })(async (message, context) => {
      if (message.id === '1') {
        inside.resolve()
        await first.promise
      }
      expect(context.signal.aborted).toBe(false)
      return await insertOrder(database)(message, context)
    })
    const limited = timeoutMiddleware(1000, { runtime })(process)
    const running = commands('1', '2', '3').messages.map((message) => {
      const context = message.context(rootContext())
      return message.id === '1' ? process(message, context) : limited(message, context)
    })
    await inside.promise
    await runtime.advance(5000)
    first.resolve()
    await Promise.all(running)
    expect(await world.orders()).toBe(3)
  })

  it('does not count the time that messages of a failed group wait for each other to be handled alone', async () => {
    await using world = await open()
    const { database } = world
    const runtime = new VirtualRuntime()
    let failed = false
    const process = transactional(database, {
      ...options,
      transaction: { logger: silentLogger },
      groupCommit: { size: 3, groups: 1 },
    })(async (message, context) => {
      if (message.id === '3' && !failed) {
        failed = true
        throw failure
      }
      // Each message takes most of its timeout, and so do the messages before it.
      if (failed) await runtime.advance(800)
      expect(context.signal.aborted).toBe(false)
      return await insertOrder(database)(message, context)
    })
    const limited = timeoutMiddleware(1000, { runtime })(process)
    await Promise.all(commands('1', '2', '3').messages.map((message) => limited(message, message.context(rootContext()))))
    expect(await world.orders()).toBe(3)
  })

  it('releases a message that is aborted while it waits', async () => {
    await using world = await open()
    const { database } = world
    const first = deferred()
    const inside = deferred()
    const process = transactional(database, { ...options, groupCommit: { size: 2, groups: 1 } })(async (message, context) => {
      inside.resolve()
      await first.promise
      return await insertOrder(database)(message, context)
    })
    const controller = new AbortController()
    const [one, two, three] = commands('1', '2', '3').messages.map((message) =>
      process(message, message.context(rootContext(message.id === '3' ? { signal: controller.signal } : {}))),
    )
    await inside.promise
    controller.abort(failure)
    expect(await failureOf(three as Promise<unknown>)).toBe(failure)
    first.resolve()
    await Promise.all([one, two])
    expect(await world.orders()).toBe(2)
  })

  it('has the same result as handling messages one by one, with any failures and duplicates', async () => {
    const message = fc.record({
      id: fc.integer({ min: 0, max: 12 }),
      does: fc.constantFrom('insert', 'insert', 'insert', 'throw', 'nack', 'reject', 'swallow', 'collide', 'nothing', 'manyEvents'),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 30 }), fc.integer({ min: 2, max: 10 }), async (plan, size) => {
        // The behaviour of a message depends on its id: the second delivery does the same.
        const does = new Map(plan.map((one) => [String(one.id), one.does]))
        const grouped = await outcome(plan, does, { size, groups: 2 })
        const single = await outcome(plan, does, undefined)
        expect(grouped).toEqual(single)
      }),
      { numRuns: 12, seed: 20_261_115 },
    )

    async function outcome(
      plan: readonly { readonly id: number }[],
      does: ReadonlyMap<string, string>,
      groupCommit: TransactionalOptions['groupCommit'],
    ): Promise<unknown> {
      await using world = await open()
      const { database } = world
      await world.query("INSERT INTO orders VALUES ('taken')")
      const process = transactional(database, { ...options, transaction: { logger: silentLogger }, groupCommit })(async (message) => {
        const insert = (id: unknown) => database.executor().query('INSERT INTO orders VALUES ($1)', [id])
        const what = does.get(message.id ?? '')
        if (what === 'nothing') return []
        await insert(message.id)
        if (what === 'throw') throw new RejectError('no')
        if (what === 'nack') await message.nack(failure)
        if (what === 'reject') await message.reject(failure)
        if (what === 'swallow') await insert('taken').catch(() => {})
        if (what === 'collide') await insert('taken')
        const count = what === 'manyEvents' ? 3 : 1
        return Array.from({ length: count }, (_, index) => event(`e-${message.id}-${index}`))
      })
      const delivered = plan.map(({ id }) => command(String(id)))
      const results: string[] = []
      const deliver = async ({ message, verdicts }: (typeof delivered)[number]) => {
        const result = await process(message, message.context(rootContext())).then(
          () => 'handled',
          (error: unknown) => (error instanceof AckordError ? error.code : String((error as { code?: unknown }).code ?? error)),
        )
        return `${message.id} ${result} ${verdicts.map(({ verdict }) => verdict).join()}`
      }
      if (groupCommit === undefined) for (const one of delivered) results.push(await deliver(one))
      else results.push(...(await Promise.all(delivered.map(deliver))))
      const ids = async (table: string) => (await world.query(`SELECT id FROM ${world.schema}.${table}`)).map(({ id }) => String(id)).sort()
      return { results: results.sort(), orders: await ids('orders'), inbox: await ids('ackord_inbox'), outbox: await ids('ackord_outbox') }
    }
  })
})

describe('groupCommit on a pg pool', () => {
  it('uses one transaction for all messages that wait while others run', async () => {
    await using world = await openPg({ max: 2 })
    const { database } = world
    const placeOrder = defineEvent<{ id: string }>('order.place')
    const logger = recordingLogger()
    const router = new Router({ concurrency: 100, logger })
      .use(transactional(database, { ...options, groupCommit: { size: 25, groups: 2 } }))
      .handle(
        commandHandler({ type: placeOrder, source: '/orders' }, async (order) => {
          await database.executor().query('INSERT INTO orders VALUES ($1, $2)', [order.id, await transactionId(database)])
          return [event(`e-${order.id}`)]
        }),
      )
    const broker = new MemoryBroker()
    const running = router.run(broker.source('orders'))
    const ids = Array.from({ length: 300 }, (_, index) => `o-${index}`)
    await publishAll(
      broker,
      'orders',
      ids.map((id) => marshal(placeOrder({ id }, { id, source: '/shop' }), jsonMarshaler)),
    )
    await broker.idle('orders')
    await router.stop()
    await running
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([300, 300, 300])
    expect(await transactions(world)).toBeLessThan(100)
    expect(logger.lines.filter(({ level }) => level === 'warn')).toEqual([])
  })

  it('handles two groups with overlapping messages in opposite order', async () => {
    await using world = await openPg()
    const { database } = world
    const other = fromPg(world.pool, { schema: world.schema, logger: silentLogger }) as unknown as Database<TestHandle>
    const ids = Array.from({ length: 40 }, (_, index) => `m-${index}`)
    const results = await Promise.all([
      together(database, insertOrder(database), commands(...ids).messages),
      together(other, insertOrder(other), commands(...ids.toReversed()).messages),
    ])
    expect(results.flat().every(({ status }) => status === 'fulfilled')).toBe(true)
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([40, 40, 40])
  })

  it('reports an unknown outcome to every member when the connection is lost during COMMIT, and retries none', async () => {
    await using world = await openPg({ max: 1 })
    const { database } = world
    const client = await world.client()
    const { connection } = client as unknown as { connection: { stream: { destroy(): void; write: (...given: unknown[]) => unknown } } }
    client.release()
    let calls = 0
    const results = await together(
      database,
      async (message, context) => {
        calls += 1
        const outputs = await insertOrder(database)(message, context)
        if (message.id === '2') connection.stream.write = () => connection.stream.destroy()
        return outputs
      },
      commands('1', '2').messages,
    )
    expect(results).toMatchObject([1, 2].map(() => ({ status: 'rejected', reason: { code: 'ACKORD_COMMIT_UNKNOWN' } })))
    expect(calls).toBe(2)
  })

  it('is not dissolved by a rejected append whose error the handler caught', async () => {
    await using world = await openPg()
    const { database } = world
    const outbox = sqlOutbox(database, { maxSize: 1000, logger: silentLogger })
    const calls: (string | undefined)[] = []
    const large = new Message(new Uint8Array(2000), event('e1').attributes)
    await together(
      database,
      async (message) => {
        calls.push(message.id)
        if (message.id === '2') {
          const appending = outbox.append(database.executor(), [{ destination: 'events', message: large }])
          expect(await failureOf(appending)).toMatchObject({ code: 'ACKORD_INVALID_OUTPUT' })
        }
        return []
      },
      commands('1', '2', '3').messages,
    )
    expect(calls).toEqual(['1', '2', '3'])
  })

  it('reports a timeout in the context of the message that timed out', async () => {
    await using world = await openPg()
    const { database } = world
    const storage = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const process: Process = async (message, { signal }) => {
      if (message.id === '1') return []
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => {
          seen.push(storage.getStore())
          resolve()
        })
      })
      throw signal.reason
    }
    const grouped = transactional(database, { ...options, transaction: { logger: silentLogger }, groupCommit: { size: 50, groups: 1 } })
    // Uses the real clock: a timer keeps the async context in which it was set.
    const run = timeoutMiddleware(50)(grouped(process))
    const { messages } = commands('1', '2')
    await Promise.allSettled(messages.map((message) => storage.run(`m${message.id}`, () => run(message, message.context(rootContext())))))
    expect(seen).toEqual(['m2'])
  })

  it('makes a router that cannot fill the groups log a warning, and rejects invalid options', async () => {
    await using world = await openPg()
    const { database } = world
    const logger = recordingLogger()
    const router = new Router({ concurrency: 10, logger })
      .use(transactional(database, { ...options, groupCommit: {} }))
      .handle(commandHandler({ type: defineEvent('order.place'), source: '/orders' }, async () => []))
    const broker = new MemoryBroker()
    const running = router.run(broker.source('orders'))
    await router.stop()
    await running
    expect(logger.lines).toEqual([expect.objectContaining({ level: 'warn', fields: { concurrency: 10, wanted: 200 } })])
    for (const groupCommit of [{ size: 1 }, { groups: 0 }, { sizes: 3 }]) {
      expect(() => transactional(database, { ...options, groupCommit: groupCommit as object })).toThrow(/groupCommit/)
    }
  })
})
