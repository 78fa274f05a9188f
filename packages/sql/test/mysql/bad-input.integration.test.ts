import {
  commandHandler,
  defineEvent,
  jsonMarshaler,
  type Logger,
  MemoryBroker,
  Message,
  marshal,
  type Publisher,
  publishAll,
  Router,
  silentLogger,
} from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { deferred, recordingLogger } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { createSchema, sqlOutbox, transactional, transactionMiddleware } from '../../src/index.ts'
import { type Countdown, countdown } from '../support/countdown.ts'
import { event, failureOf, handle } from '../support/world.ts'
import { type MysqlWorld, mysqlKinds } from './support/mysql-world.ts'

const placeOrder = defineEvent<{ id: string }>('order.place')
const orderPlaced = defineEvent<{ id: string }>('order.placed')

/** Orders `1` to `total`, each delivered twice, on a broker that counts deliveries and delays redeliveries as real brokers do. */
async function brokerOf(total: number): Promise<MemoryBroker> {
  const broker = new MemoryBroker({ history: 1000, logger: silentLogger })
  const ids = Array.from({ length: total }, (_, index) => `${index + 1}`)
  const commands = [...ids, ...ids].map((id) => marshal(placeOrder({ id }, { id: `m-${id}`, source: '/shop' }), jsonMarshaler))
  await publishAll(broker, 'orders', commands)
  return broker
}

function routerOf(world: MysqlWorld, options: ConstructorParameters<typeof Router>[0] = {}): Router {
  const parts = { inbox: { consumer: 'orders' }, outbox: { destination: 'order-events' }, transaction: { logger: silentLogger } }
  return new Router({ logger: silentLogger, redeliveryDelay: () => 1, ...options }).use(transactional(world.database, parts)).handle(
    commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
      await world.run('INSERT INTO orders (id) VALUES (?)', [id])
      return [orderPlaced({ id })]
    }),
  )
}

/** A publisher that collects the ids of its messages. `all` resolves when it has `total` distinct ids. */
function collect(total: number): { readonly publisher: Publisher; readonly ids: ReadonlySet<string>; readonly all: Promise<void> } {
  const ids = new Set<string>()
  const { promise, resolve } = deferred()
  const publisher: Publisher = {
    async publish(_, messages) {
      for (const { id = '' } of messages) ids.add(id)
      if (ids.size === total) resolve()
      return messages.map(() => ({ ok: true }))
    },
  }
  return { publisher, ids, all: promise }
}

/** Passes lines to `logger`, and counts those that report a failure. */
function failuresOf(logger: Logger, failed: Countdown): Logger {
  return {
    ...logger,
    error(fields, text) {
      logger.error(fields, text)
      failed.hit()
    },
  }
}

describe.each(mysqlKinds)('append() on $name', ({ open }) => {
  it('rejects an event without type, with an id of 10 kB, with NUL, and with attributes that could not be read back', async () => {
    await using world = await open()
    const { database } = world
    const refusalOf = async (attributes: object) => {
      const message = new Message(new Uint8Array([1]), { ...event('e1').attributes, ...attributes })
      return await failureOf(
        handle(transactionMiddleware(database), async () => {
          await world.run("INSERT INTO orders (id) VALUES ('1')")
          await sqlOutbox(database, { logger: silentLogger }).append(database.executor(), [{ destination: 'events', message }])
          return []
        }),
      )
    }
    expect(await refusalOf({ type: undefined })).toMatchObject({
      code: 'ACKORD_MISSING_ATTRIBUTE',
      message: expect.stringMatching(/needs a type/),
    })
    expect(await refusalOf({ id: 'x'.repeat(10_000) })).toMatchObject({ code: 'ACKORD_INVALID_ATTRIBUTES' })
    expect(await refusalOf({ id: 'a\0b' })).toMatchObject({ code: 'ACKORD_INVALID_ATTRIBUTES', message: expect.stringMatching(/NUL/) })
    expect(await refusalOf({ nested: { a: 1 } })).toMatchObject({ code: 'ACKORD_INVALID_ATTRIBUTES' })
    expect([await world.outbox(), await world.orders()]).toEqual([0, 0])
  })

  it('parks records whose attributes are not JSON any more, and returns the others', async () => {
    await using world = await open()
    const { database } = world
    const store = sqlOutbox(database, { logger: silentLogger })
    await database.write(async (transaction) => {
      const messages = ['1', '2', '3'].map((id) => new Message(new Uint8Array(), event(id).attributes))
      await store.append(
        transaction,
        messages.map((message) => ({ destination: 'events', message })),
      )
    })
    // A24
    await world.query("UPDATE ackord_outbox SET attributes = '{\"id\": ' WHERE id = '1'")
    await world.query("UPDATE ackord_outbox SET attributes = '[1]' WHERE id = '2'")
    expect((await store.claim({ limit: 10, lease: 1000 })).map(({ message }) => message.id)).toEqual(['3'])
    const { records } = await store.list({ state: 'parked' }, { limit: 10 })
    expect(records).toMatchObject([
      { message: { id: '1' }, lastError: expect.stringMatching(/attributes are not/) },
      { message: { id: '2' } },
    ])
    expect(await store.discard([records[0]?.id ?? ''], 'broken')).toBe(1)
  })
})

describe.each(mysqlKinds)('a router and a relay on $name', ({ open }) => {
  it.each([1, 2])('share a pool of %i connections, smaller than the concurrency', async (max) => {
    await using world = await open({ max })
    const total = 50
    const broker = await brokerOf(total)
    const events = collect(total)
    await using relay = new Relay(sqlOutbox(world.database), { logger: silentLogger, batchSize: 7, publisher: events.publisher }).start()
    const router = routerOf(world, { concurrency: 16 })
    const running = router.run(broker.source('orders'))
    await broker.idle('orders')
    await events.all
    await relay.stop()
    await router.stop()
    await running
    expect([await world.orders(), await world.inbox(), await world.outbox(), events.ids.size]).toEqual([total, total, 0, total])
    const { all, free } = world.connections()
    expect(all).toBe(free)
  })

  it('lose nothing while the schema is missing, and continue once it exists', async () => {
    await using world = await open({ empty: true })
    const total = 20
    const broker = await brokerOf(total)
    const logs = { router: recordingLogger(), relay: recordingLogger() }
    const failed = { router: countdown(total), relay: countdown(1) }
    const events = collect(total)
    await using relay = new Relay(sqlOutbox(world.database), {
      logger: failuresOf(logs.relay, failed.relay),
      publisher: events.publisher,
    }).start()
    const router = routerOf(world, { concurrency: 4, logger: failuresOf(logs.router, failed.router) })
    const running = router.run(broker.source('orders', { deadLetter: 'orders.dead' }))
    await failed.router.reached
    await failed.relay.reached
    await createSchema(world.database)
    await broker.idle('orders')
    await events.all
    await relay.stop()
    await router.stop()
    await running
    expect([await world.orders(), await world.inbox(), await world.outbox(), events.ids.size]).toEqual([total, total, 0, total])
    expect(broker.published('orders.dead')).toEqual([])
    for (const { text } of logs.router.lines.filter(({ level }) => level !== 'debug'))
      expect(text).toMatch(/does not exist.*Run createSchema/)
  })

  it('report that the schema is older when a column is missing, and nack', async () => {
    await using world = await open()
    await world.query('ALTER TABLE ackord_outbox DROP COLUMN ordering_key')
    const broker = await brokerOf(1)
    const logger = recordingLogger()
    const failed = countdown(2)
    const router = routerOf(world, { logger: failuresOf(logger, failed) })
    const running = router.run(broker.source('orders'))
    await failed.reached
    await router.stop()
    await running
    expect(logger.lines[0]).toMatchObject({
      text: expect.stringMatching(/or lacks a column. Run createSchema/),
      fields: { verdict: 'nack' },
    })
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([0, 0, 0])
  })

  it('neither lose nor duplicate messages while connections are killed', async () => {
    await using world = await open({ max: 5 })
    const total = 60
    const broker = await brokerOf(total)
    const events = collect(total)
    await using relay = new Relay(sqlOutbox(world.database), { logger: silentLogger, batchSize: 7, publisher: events.publisher }).start()
    const router = routerOf(world, { concurrency: 4 })
    const running = router.run(broker.source('orders'))
    const [door] = await world.query('SELECT CONNECTION_ID() AS id')
    for (let round = 0; round < 5; round += 1) {
      const open = await world.query(
        "SELECT ID AS id FROM information_schema.PROCESSLIST WHERE DB = ? AND (INFO IS NULL OR INFO LIKE '%ackord_inbox%')",
        [world.schema],
      )
      for (const { id } of open) if (id !== door?.['id']) await world.query(`KILL ${Number(id)}`).catch(() => {})
    }
    await broker.idle('orders')
    await events.all
    await relay.stop()
    await router.stop()
    await running
    expect([await world.orders(), await world.inbox(), await world.outbox(), events.ids.size]).toEqual([total, total, 0, total])
  })
})
