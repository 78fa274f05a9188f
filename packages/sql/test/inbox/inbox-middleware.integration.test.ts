import { compose, deterministicIds, Message, type Middleware, type Process, rootContext } from '@ackord/core'
import { installProbe, outputIdsKey } from '@ackord/core/internal'
import { describe, expect, it } from 'vitest'
import { cleanInbox, type Database, inboxMiddleware, outboxMiddleware, transactionMiddleware } from '../../src/index.ts'
import { command, event, failureOf, handle, openPg, type TestHandle, worldKinds } from '../support/world.ts'

const failure = new Error('failed')

function once(database: Database<TestHandle>, options: Partial<Parameters<typeof inboxMiddleware>[1]> = {}): Middleware {
  return compose(transactionMiddleware(database), inboxMiddleware(database, { consumer: 'orders', ...options }))
}

function saving(database: Database<TestHandle>): Process {
  return async (message) => {
    await database.executor().query('INSERT INTO orders (id) VALUES ($1)', [
      `${message.source} ${message.id} ${await database
        .executor()
        .query('SELECT count(*) AS n FROM orders')
        .then(({ rows }) => rows[0]?.['n'])}`,
    ])
    return []
  }
}

describe.each(worldKinds)('inboxMiddleware() on $name', ({ open }) => {
  it('handles a message once, and acks a duplicate without handling it', async () => {
    await using world = await open()
    const seen: unknown[] = []
    const counted: unknown[] = []
    const inbox = once(world.database, {
      onDuplicate: ({ id }) => void seen.push(id),
      metrics: { count: (...given) => void counted.push(given), observe() {}, gauge() {} },
    })
    const first = command('1')
    await handle(inbox, saving(world.database), first.message)
    expect(first.verdicts).toEqual([])
    // A6: under `manual` no other component would ack the duplicate. C1: it is counted in the metrics.
    const second = command('1')
    expect(await handle(inbox, saving(world.database), second.message)).toEqual([])
    expect(second.verdicts).toEqual([{ verdict: 'ack' }])
    expect([seen, counted]).toEqual([['1'], ['handled', 'duplicates'].map((name) => [`ackord.inbox.${name}`, 1, { consumer: 'orders' }])])
    expect([await world.orders(), await world.inbox()]).toEqual([1, 1])
  })

  it('does not ack a duplicate before the commit', async () => {
    await using world = await open()
    const inbox = once(world.database)
    await handle(inbox, saving(world.database), command('1').message)
    const { message, verdicts } = command('1')
    const remove = installProbe((point) => {
      if (point === 'transaction.beforeCommit') expect(verdicts).toEqual([])
    })
    await handle(inbox, saving(world.database), message)
    remove()
    expect(verdicts).toHaveLength(1)
  })

  it('counts a message as handled after the commit, and not if it was rolled back', async () => {
    await using world = await open()
    const counted: unknown[] = []
    const inbox = once(world.database, { metrics: { count: (name) => void counted.push(name), observe() {}, gauge() {} } })
    await failureOf(handle(inbox, () => Promise.reject(failure), command('1').message))
    expect(counted).toEqual([])
    const remove = installProbe((point) => {
      if (point === 'transaction.beforeCommit') expect(counted).toEqual([])
    })
    await handle(inbox, saving(world.database), command('1').message)
    remove()
    expect(counted).toEqual(['ackord.inbox.handled'])
  })

  it('does not remember a message whose handler failed', async () => {
    await using world = await open()
    const inbox = once(world.database)
    await failureOf(handle(inbox, () => Promise.reject(failure), command('1').message))
    expect(await world.inbox()).toBe(0)
    await handle(inbox, saving(world.database), command('1').message)
    expect([await world.orders(), await world.inbox()]).toEqual([1, 1])
  })

  it('distinguishes messages by consumer, source and id, byte for byte', async () => {
    await using world = await open()
    const { database } = world
    // A5
    const others = [
      command('1', { source: '/other' }),
      command('1', { source: '' }),
      command('2'),
      command('A'),
      command('a'),
      command('é'),
      command('e\u0301'),
      command('1 '),
      command("'; DROP TABLE orders --"),
    ]
    const inbox = once(database)
    for (const { message } of [command('1'), ...others]) await handle(inbox, saving(database), message)
    await handle(once(database, { consumer: 'billing' }), saving(database), command('1').message)
    expect(await world.orders()).toBe(others.length + 2)
  })

  it('rejects a message that it cannot identify, before any statement, and without a retry', async () => {
    await using world = await open()
    const { database } = world
    let handled = 0
    const next = async () => {
      handled += 1
      return []
    }
    const bad: [string, Message][] = [
      ['ACKORD_MISSING_ATTRIBUTE', new Message({}, { type: 'order.place', source: '/shop' })],
      ['ACKORD_MISSING_ATTRIBUTE', command('').message],
      ['ACKORD_INVALID_ATTRIBUTES', command('x'.repeat(10_000)).message],
      ['ACKORD_INVALID_ATTRIBUTES', command('ö'.repeat(600)).message],
      ['ACKORD_INVALID_ATTRIBUTES', command('a\0b').message],
      ['ACKORD_INVALID_ATTRIBUTES', command('\ud800').message],
      ['ACKORD_INVALID_ATTRIBUTES', command('1', { source: '/sh\0p' }).message],
      ['ACKORD_INVALID_ATTRIBUTES', new Message({}, { id: 7 as unknown as string, type: 'order.place' })],
    ]
    for (const [code, message] of bad) {
      const error = await failureOf(handle(once(database), next, message))
      expect(error).toMatchObject({ code, retryable: false })
      expect(error.message.length).toBeLessThan(400)
    }
    expect([handled, await world.inbox()]).toEqual([0, 0])
    await handle(once(database), next, command('x'.repeat(1024)).message)
    expect([handled, await world.inbox()]).toEqual([1, 1])
  })

  it('uses the configured key function', async () => {
    await using world = await open()
    const inbox = once(world.database, { key: ({ subject = '' }) => subject })
    await handle(inbox, saving(world.database), command('1', { subject: 'order/7' }).message)
    await handle(inbox, saving(world.database), command('2', { subject: 'order/7' }).message)
    expect(await world.orders()).toBe(1)
    expect(await failureOf(handle(inbox, saving(world.database), command('3').message))).toMatchObject({ code: 'ACKORD_MISSING_ATTRIBUTE' })
  })

  it('assigns outputs the same ids each time the message is handled', async () => {
    await using world = await open()
    // A32
    let given: string | undefined
    await handle(once(world.database), async (_, context) => {
      given = context.get(outputIdsKey)?.('order.placed')
      return []
    })
    expect(given).toBe(deterministicIds('orders', '/shop', '1')('order.placed'))
  })

  it('rejects outputs that no outbox stored, before the commit', async () => {
    await using world = await open()
    // A8
    const error = await failureOf(handle(once(world.database), async () => [event('e1')], command('1').message))
    expect(error).toMatchObject({ code: 'ACKORD_INVALID_OUTPUT', message: expect.stringMatching(/Add outboxMiddleware/) })
    expect(await world.inbox()).toBe(0)
    const withOutbox = compose(once(world.database), outboxMiddleware(world.database, { destination: 'events' }))
    await handle(withOutbox, async () => [event('e1')], command('1').message)
    expect([await world.inbox(), await world.outbox()]).toEqual([1, 1])
  })

  it('requires a transaction of its own database, and a consumer', async () => {
    await using world = await open()
    const error = await failureOf(handle(inboxMiddleware(world.database, { consumer: 'orders' }), async () => []))
    expect(error).toMatchObject({ code: 'ACKORD_TRANSACTION_REQUIRED' })
    expect(() => inboxMiddleware(world.database, { consumer: '' })).toThrow(/consumer must be/)
    expect(() => inboxMiddleware(world.database, { consumer: 'x'.repeat(300) })).toThrow(/consumer is longer/)
  })

  it('works in a transaction of the caller', async () => {
    await using world = await open()
    const { database } = world
    const { message } = command('1')
    await handle(
      transactionMiddleware(database),
      async (_, context) => {
        const handle = database.executor(context)
        const own = database.withTransaction(message.context(rootContext()), handle)
        return await inboxMiddleware(database, { consumer: 'orders' })(saving(database))(message, own)
      },
      command('outer').message,
    )
    expect(await world.inbox()).toBe(1)
  })

  it('remembers messages for its window and deletes them in bounded batches', async () => {
    await using world = await open()
    const inbox = once(world.database)
    for (const id of ['1', '2', '3', '4']) await handle(inbox, saving(world.database), command(id).message)
    await world.query("UPDATE ackord_inbox SET received_at = clock_timestamp() - interval '8 days' WHERE id <> '4'")
    // A28
    expect(await cleanInbox(world.database, { limit: 2 })).toBe(2)
    expect(await cleanInbox(world.database, { limit: 2 })).toBe(1)
    expect(await cleanInbox(world.database)).toBe(0)
    expect(await world.query('SELECT id FROM ackord_inbox')).toEqual([{ id: '4' }])
    await handle(inbox, saving(world.database), command('1').message)
    expect(await world.orders()).toBe(5)
    await failureOf(cleanInbox(world.database, { window: -1 }))
  })

  it('says how to create missing tables', async () => {
    await using world = await open({ empty: true })
    const error = await failureOf(handle(once(world.database), async () => []))
    expect(error).toMatchObject({ name: 'SchemaError', problem: 'missing', message: expect.stringMatching(/createSchema/) })
  })
})

describe('inboxMiddleware() on a pg pool', () => {
  it.each(['read committed', 'repeatable read', 'serializable'] as const)(
    'lets the first of 50 concurrent duplicates win under %s',
    async (isolation) => {
      await using world = await openPg({ max: 20 })
      const { database } = world
      // A3
      const inbox = compose(transactionMiddleware(database, { isolation, retries: 50 }), inboxMiddleware(database, { consumer: 'orders' }))
      const commands = Array.from({ length: 50 }, () => command('1'))
      let handled = 0
      await Promise.all(
        commands.map(({ message }) =>
          handle(
            inbox,
            async () => {
              handled += 1
              await database.executor().query("INSERT INTO orders VALUES ('1')")
              return []
            },
            message,
          ),
        ),
      )
      expect([handled, await world.orders(), await world.inbox()]).toEqual([1, 1, 1])
      expect(commands.filter(({ verdicts }) => verdicts.length === 1)).toHaveLength(49)
    },
  )

  it('is not a duplicate of a message that is rolled back while it waits', async () => {
    await using world = await openPg()
    const { database } = world
    const inbox = once(database)
    let fail = () => {}
    const failing = new Promise<never>((_, reject) => {
      fail = () => reject(failure)
    })
    let begun = () => {}
    const recorded = new Promise<void>((resolve) => {
      begun = resolve
    })
    const first = failureOf(
      handle(
        inbox,
        async () => {
          begun()
          return await failing
        },
        command('1').message,
      ),
    )
    await recorded
    const second = handle(inbox, saving(database), command('1').message)
    for (let waiting = 0; waiting === 0; ) {
      waiting = (
        await world.query(`SELECT 1 FROM pg_stat_activity WHERE query LIKE $1 AND wait_event_type = 'Lock'`, [
          `%${world.schema}%ON CONFLICT%`,
        ])
      ).length
    }
    fail()
    expect(await first).toBe(failure)
    await second
    expect([await world.orders(), await world.inbox()]).toEqual([1, 1])
  })

  it('handles a redelivered message whose backend was terminated before the commit', async () => {
    await using world = await openPg()
    const { database } = world
    const inbox = once(database)
    const { message } = command('1')
    await failureOf(
      handle(
        inbox,
        async () => {
          const { rows } = await database.executor().query('SELECT pg_backend_pid() AS pid')
          await world.query('SELECT pg_terminate_backend($1)', [rows[0]?.['pid']])
          await database.executor().query('SELECT 1')
          return []
        },
        message,
      ),
    )
    expect(await world.inbox()).toBe(0)
    await handle(inbox, saving(database), message)
    expect([await world.orders(), await world.inbox()]).toEqual([1, 1])
  })
})

describe.each(worldKinds)('options on $name', ({ open }) => {
  it('are rejected if they are misspelt', async () => {
    await using world = await open({ empty: true })
    const inbox = { consumer: 'orders', onDuplicates() {} }
    expect(() => inboxMiddleware(world.database, inbox)).toThrow(/no option 'onDuplicates'/)
    const outbox = { destination: 'events', topic: 'events' }
    expect(() => outboxMiddleware(world.database, outbox)).toThrow(/no option 'topic'/)
    expect(() => transactionMiddleware(world.database, { retry: 3 } as object)).toThrow(/no option 'retry'/)
  })
})
