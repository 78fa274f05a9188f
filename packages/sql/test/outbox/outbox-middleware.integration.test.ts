import type { EventEmitter } from 'node:events'
import { compose, defineEvent, Message, textMarshaler } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import type { PoolClient } from 'pg'
import { describe, expect, it } from 'vitest'
import { outboxMiddleware, sqlOutbox, transactional, transactionMiddleware } from '../../src/index.ts'
import { command, event, failureOf, handle, openPg, worldKinds } from '../support/world.ts'

const failure = new Error('failed')

describe.each(worldKinds)('outboxMiddleware() on $name', ({ open }) => {
  it('stores the outputs with the business writes and returns none', async () => {
    await using world = await open()
    const { database } = world
    const outbox = compose(transactionMiddleware(database), outboxMiddleware(database, { destination: ({ type }) => `topic.${type}` }))
    const outputs = await handle(outbox, async () => {
      await database.executor().query("INSERT INTO orders VALUES ('1')")
      return [event('e1', { partitionkey: 'k' }), event('e2', { type: 'order.paid' })]
    })
    expect(outputs).toEqual([])
    expect(
      await world.query('SELECT destination, id, type, content_type, ordering_key, state, attempts FROM ackord_outbox ORDER BY seq'),
    ).toEqual([
      {
        destination: 'topic.order.placed',
        id: 'e1',
        type: 'order.placed',
        content_type: 'application/json',
        ordering_key: 'k',
        state: 'ready',
        attempts: 0,
      },
      {
        destination: 'topic.order.paid',
        id: 'e2',
        type: 'order.paid',
        content_type: 'application/json',
        ordering_key: null,
        state: 'ready',
        attempts: 0,
      },
    ])
  })

  it('lets an output with a delay, or an instant, wait', async () => {
    await using world = await open()
    const { database } = world
    const outbox = compose(transactionMiddleware(database), outboxMiddleware(database, { destination: 'events' }))
    const overdue = defineEvent('order.overdue')
    const at = new Date(Date.now() + 60_000)
    await handle(outbox, async () => [
      event('now'),
      overdue({}, { id: 'delayed', source: '/orders', delay: 60_000 }),
      overdue({}, { id: 'at', source: '/orders', at }),
      overdue({}, { id: 'past', source: '/orders', at: new Date(0) }),
    ])
    const { records } = await sqlOutbox(database).list({}, { limit: 10 })
    expect(records.map(({ message, state }) => [message.id, state])).toEqual([
      ['now', 'ready'],
      ['delayed', 'waiting'],
      ['at', 'waiting'],
      ['past', 'ready'],
    ])
    for (const { state, createdAt, availableAt } of records) {
      if (state === 'waiting') expect(availableAt - createdAt).toBeGreaterThan(55_000)
    }
  })

  it('keeps the order of the outputs of one handler', async () => {
    await using world = await open()
    const outbox = compose(transactionMiddleware(world.database), outboxMiddleware(world.database, { destination: 'events' }))
    // A25
    const ids = Array.from({ length: 200 }, (_, index) => `e${index}`)
    await handle(outbox, async () => ids.map((id) => event(id)))
    const rows = await world.query('SELECT id FROM ackord_outbox ORDER BY seq')
    expect(rows.map(({ id }) => id)).toEqual(ids)
  })

  it('stores nothing when the handler or the commit fails', async () => {
    await using world = await open()
    const { database } = world
    const outbox = compose(transactionMiddleware(database), outboxMiddleware(database, { destination: 'events' }))
    await failureOf(handle(outbox, () => Promise.reject(failure)))
    await failureOf(
      handle(
        outbox,
        async (message) => {
          await message.nack(failure)
          return [event('e1')]
        },
        new Message('no acking'),
      ).then(() => Promise.reject(failure)),
    )
    const { message } = command('1')
    await handle(
      outbox,
      async (given) => {
        await given.nack(failure)
        return [event('e2')]
      },
      message,
    )
    expect(await world.query('SELECT id FROM ackord_outbox')).toEqual([{ id: 'e1' }])
  })

  it('checks for a transaction before it calls the handler', async () => {
    await using world = await open()
    let calls = 0
    const process = async () => {
      calls += 1
      return []
    }
    // A15
    const error = await failureOf(handle(outboxMiddleware(world.database, { destination: 'events' }), process))
    expect(error).toMatchObject({ code: 'ACKORD_TRANSACTION_REQUIRED' })
    expect(calls).toBe(0)
  })

  it('marshals all outputs before it stores one, with the given marshaler', async () => {
    await using world = await open()
    const { database } = world
    const make = (options = {}) =>
      compose(transactionMiddleware(database), outboxMiddleware(database, { destination: 'events', ...options }))
    let statements = 0
    // A17, B30: bytes are stored unchanged, and an output that cannot be marshalled fails the whole message.
    const remove = installProbe((point) => {
      if (point === 'outbox.appended') statements += 1
    })
    const bad = handle(make(), async () => [event('e1'), event('e2', {}, () => {})])
    expect(await failureOf(bad)).toMatchObject({ code: 'ACKORD_MARSHAL_FAILED' })
    expect(statements).toBe(0)
    await handle(make({ marshaler: textMarshaler }), async () => [event('t', {}, 'grüße'), event('b', {}, new Uint8Array([0, 255]))])
    remove()
    const [text, bytes] = await sqlOutbox(database).claim({ limit: 10, lease: 1000 })
    expect(text?.message.dataContentType).toBe('text/plain; charset=utf-8')
    expect(new TextDecoder().decode(text?.message.data)).toBe('grüße')
    expect(bytes?.message.data).toEqual(new Uint8Array([0, 255]))
    expect(statements).toBe(1)
  })

  it('rejects an invalid event before the statement, which would undo the business writes', async () => {
    await using world = await open()
    const outbox = compose(
      transactionMiddleware(world.database),
      outboxMiddleware(world.database, { destination: ({ subject = '' }) => subject }),
    )
    const bad: [string, Message][] = [
      ['ACKORD_NO_OUTPUT', event('e1')],
      ['ACKORD_INVALID_ATTRIBUTES', event('e1\0', { subject: 'events' })],
      ['ACKORD_INVALID_ATTRIBUTES', event('e1', { subject: 'ev\0nts' })],
      ['ACKORD_INVALID_ATTRIBUTES', event('e1', { subject: 'events', partitionkey: 'x'.repeat(5000) })],
      ['ACKORD_INVALID_OUTPUT', new Message(1, { id: 'e1', type: 'order.placed', subject: 'events' })],
    ]
    for (const [code, output] of bad) expect(await failureOf(handle(outbox, async () => [output]))).toMatchObject({ code })
    // NUL in other attributes is stored as data: the attributes are JSON in a text column.
    await handle(outbox, async () => [event('e2', { subject: 'events', note: 'a\0b\ud800' })])
    const [record] = await sqlOutbox(world.database).claim({ limit: 1, lease: 1000 })
    expect(record?.message.attributes['note']).toBe('a\0b\ud800')
  })

  it('completes outputs added by inner middleware', async () => {
    await using world = await open()
    const { database } = world
    const outbox = compose(transactionMiddleware(database), outboxMiddleware(database, { destination: 'events', source: '/audit' }))
    // A16
    await handle(outbox, async () => [event('e1'), new Message({ seen: true }, { type: 'order.seen' })])
    const [, added] = await sqlOutbox(database).claim({ limit: 10, lease: 1000 })
    expect(added?.message.attributes).toMatchObject({
      source: '/audit',
      specversion: '1.0',
      id: expect.any(String),
      time: expect.any(String),
    })
  })

  it('wakes listeners after the commit, not before and not after a rollback', async () => {
    await using world = await open()
    const { database } = world
    const store = sqlOutbox(database)
    const controller = new AbortController()
    let woken = 0
    const listening = (async () => {
      for await (const _ of store.wakeUps?.({ signal: controller.signal }) ?? []) woken += 1
    })()
    const outbox = compose(transactionMiddleware(database), outboxMiddleware(database, { destination: 'events' }))
    await failureOf(handle(outbox, () => Promise.reject(failure)))
    const remove = installProbe((point) => {
      if (point === 'transaction.beforeCommit') expect(woken).toBe(0)
    })
    // A29
    await handle(outbox, async () => [event('e1')])
    remove()
    await new Promise((resolve) => setImmediate(resolve))
    controller.abort()
    await listening
    expect(woken).toBe(1)
  })
})

describe.each(worldKinds)('an output with its own acking, on $name', ({ open }) => {
  /** A message forwarded from another broker, which needs its verdict. */
  function foreign(id: string) {
    const verdicts: string[] = []
    const acking = {
      ack: () => void verdicts.push('ack'),
      nack: () => void verdicts.push('nack'),
      reject: () => void verdicts.push('reject'),
    }
    return { output: new Message({ id }, event(id).attributes, { acking }), verdicts }
  }

  it('is acked after the commit', async () => {
    await using world = await open()
    const { output, verdicts } = foreign('e1')
    const { message, verdicts: own } = command('1')
    const outbox = compose(
      transactionMiddleware(world.database),
      (next) => async (given, context) => {
        const outputs = await next(given, context)
        expect(verdicts).toEqual([])
        return outputs
      },
      outboxMiddleware(world.database, { destination: 'events' }),
    )
    await handle(outbox, async () => [output, event('e2')], message)
    expect([verdicts, own, await world.outbox()]).toEqual([['ack'], [], 2])
  })

  it('is nacked when the transaction is rolled back', async () => {
    await using world = await open()
    const { output, verdicts } = foreign('e1')
    const outbox = compose(
      transactionMiddleware(world.database),
      (next) => async (given, context) => {
        await next(given, context)
        throw failure
      },
      outboxMiddleware(world.database, { destination: 'events' }),
    )
    expect(await failureOf(handle(outbox, async () => [output]))).toBe(failure)
    expect([verdicts, await world.outbox()]).toEqual([['nack'], 0])
  })
})

describe('transactional() on a pg pool', () => {
  it('takes three round trips: BEGIN with its settings and the inbox, the handler, the outbox with COMMIT', async () => {
    await using world = await openPg({ max: 1 })
    const { database } = world
    const trips = await countRoundTrips(world)
    const process = transactional(database, {
      transaction: { isolation: 'read committed', statementTimeout: 10_000, idleTimeout: 10_000 },
      inbox: { consumer: 'orders' },
      outbox: { destination: 'events' },
    })
    const { message } = command('1')
    const place = async () => {
      await database.executor().query("INSERT INTO orders VALUES ('1')")
      return [event('e1'), event('e2'), event('e3')]
    }
    expect(await handle(process, place, message)).toEqual([])
    expect(trips.count()).toBe(3)
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([1, 1, 3])
    // A duplicate has neither business writes nor outbox records.
    await handle(process, place, command('1').message)
    expect(trips.count()).toBe(2)
  })
})

/** Counts round trips on the wire: the server sends ReadyForQuery once per round trip. */
async function countRoundTrips(world: { readonly client: () => Promise<PoolClient> }): Promise<{ count: () => number }> {
  let trips = 0
  const client = await world.client()
  const { connection } = client as unknown as { connection: EventEmitter }
  connection.on('readyForQuery', () => {
    trips += 1
  })
  client.release()
  return {
    count() {
      const counted = trips
      trips = 0
      return counted
    },
  }
}
