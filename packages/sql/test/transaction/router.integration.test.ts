import { commandHandler, jsonMarshaler, MemoryBroker, Message, type RawMessage, Router, type Source, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { type Database, inboxMiddleware, outboxMiddleware, sqlOutbox, transactional, transactionMiddleware } from '../../src/index.ts'
import { failureOf, openPg, type TestHandle, worldKinds } from '../support/world.ts'

interface PlaceOrder {
  readonly id: string
}

/** A repository that depends on the database but not on messages. */
class Orders {
  readonly #database: Database<TestHandle>

  constructor(database: Database<TestHandle>) {
    this.#database = database
  }

  async save(order: PlaceOrder): Promise<void> {
    await this.#database.executor().query('INSERT INTO orders (id) VALUES ($1)', [order.id])
  }
}

function sourceOf(...ids: readonly string[]): Source & { readonly verdicts: string[] } {
  const verdicts: string[] = []
  const note = (id: string, verdict: string) => () => void verdicts.push(`${verdict} ${id}`)
  return {
    verdicts,
    async *messages() {
      for (const id of ids) {
        const attributes = { id, type: 'order.place', source: '/shop', specversion: '1.0', datacontenttype: 'application/json' }
        const acking = { ack: note(id, 'ack'), nack: note(id, 'nack'), reject: note(id, 'reject') }
        yield new Message(jsonMarshaler.marshal({ id }), attributes, { acking }) as RawMessage
      }
    },
  }
}

describe.each(worldKinds)('a router on $name', ({ open }) => {
  it.each(['onSuccess', 'forward', 'manual'] as const)('handles each message once, with its events, under %s', async (ackStrategy) => {
    await using world = await open()
    const { database } = world
    const orders = new Orders(database)
    const router = new Router({ source: '/orders', ackStrategy, concurrency: 8, logger: silentLogger })
      .use(transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: ({ type = '' }) => `topic.${type}` } }))
      .handle(
        commandHandler({ type: 'order.place', source: '/orders' }, async (command: PlaceOrder) => {
          await orders.save(command)
          return [new Message({ placed: command.id }, { type: 'order.placed', partitionkey: command.id })]
        }),
      )
    const source = sourceOf('1', '2', '1', '3', '2', '1')
    await router.run(source)
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([3, 3, 3])
    const acked = source.verdicts.filter((verdict) => verdict.startsWith('ack'))
    expect(acked).toHaveLength(ackStrategy === 'manual' ? 3 : 6)
    const records = await sqlOutbox(database).claim({ limit: 10, lease: 1000 })
    expect(records.map(({ destination, message }) => [destination, message.partitionKey, message.source]).sort()).toEqual(
      ['1', '2', '3'].map((id) => ['topic.order.placed', id, '/orders']),
    )
    for (const { message } of records) expect(message.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5/)
  })

  it('nacks a failed message, leaves no trace of it, and emits the same event ids when it is redelivered', async () => {
    await using world = await open()
    const { database } = world
    const orders = new Orders(database)
    const run = async (fails: boolean) => {
      const router = new Router({ source: '/orders', logger: silentLogger })
        .use(transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } }))
        .handle(
          commandHandler({ type: 'order.place', source: '/orders' }, async (command: PlaceOrder) => {
            await orders.save(command)
            if (fails) throw new Error('not today')
            return [new Message({}, { type: 'order.placed' })]
          }),
        )
      const source = sourceOf('1')
      await router.run(source)
      return source.verdicts
    }
    expect(await run(true)).toEqual(['nack 1'])
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([0, 0, 0])
    expect(await run(false)).toEqual(['ack 1'])
    const [first] = await world.query('SELECT id FROM ackord_outbox')
    await world.query('DELETE FROM ackord_inbox')
    await world.query('DELETE FROM ackord_outbox')
    await world.query('DELETE FROM orders')
    await run(false)
    expect(await world.query('SELECT id FROM ackord_outbox')).toEqual([first])
  })

  it('rejects a message without id', async () => {
    await using world = await open()
    const router = new Router({ source: '/orders', logger: silentLogger })
      .use(transactional(world.database, { inbox: { consumer: 'orders' }, outbox: { destination: 'events' } }))
      .handle(commandHandler({ type: 'order.place', source: '/orders' }, async () => []))
    const source = sourceOf('')
    await router.run(source)
    expect(source.verdicts).toEqual(['reject '])
  })

  it('rejects parts in the wrong order, or of different databases, when it starts', async () => {
    await using world = await open()
    await using other = await openPg()
    const { database } = world
    const wrong = [
      [outboxMiddleware(database, { destination: 'events' }), transactionMiddleware(database)],
      [inboxMiddleware(database, { consumer: 'c' })],
      [transactionMiddleware(other.database), inboxMiddleware(database, { consumer: 'c' })],
      [
        transactionMiddleware(database),
        inboxMiddleware(database, { consumer: 'c' }),
        outboxMiddleware(other.database, { destination: 'events' }),
      ],
    ]
    for (const parts of wrong) {
      const router = new Router({ source: '/orders' })
        .use(...parts)
        .handle(commandHandler({ type: 'order.place', source: '/orders' }, async () => []))
      expect(await failureOf(router.run(new MemoryBroker().source('orders')))).toMatchObject({ code: 'ACKORD_MIDDLEWARE_ORDER' })
    }
  })
})
