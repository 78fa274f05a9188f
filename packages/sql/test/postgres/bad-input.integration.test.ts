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
import { fromPg } from '../../src/postgres/index.ts'
import { type Countdown, countdown } from '../support/countdown.ts'
import { event, failureOf, handle, openPg, type World } from '../support/world.ts'

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

function routerOf({ database }: World, options: ConstructorParameters<typeof Router>[0] = {}): Router {
  return new Router({ logger: silentLogger, redeliveryDelay: () => 1, ...options })
    .use(transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'order-events' } }))
    .handle(
      commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
        await database.executor().query('INSERT INTO orders (id) VALUES ($1)', [id])
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

describe('append()', () => {
  async function refusalOf(attributes: object) {
    await using world = await openPg()
    const { database } = world
    const message = new Message(new Uint8Array([1]), { ...event('e1').attributes, ...attributes })
    const error = await failureOf(
      handle(transactionMiddleware(database), async () => {
        await database.executor().query("INSERT INTO orders VALUES ('1')")
        await sqlOutbox(database, { logger: silentLogger }).append(database.executor(), [{ destination: 'events', message }])
        return []
      }),
    )
    // append() rejects the event before its statement, so the handler could have continued. It did not, so nothing is stored.
    expect([await world.outbox(), await world.orders()]).toEqual([0, 0])
    return error
  }

  it('rejects an event without type, with an id of 10 kB and with NUL', async () => {
    expect(await refusalOf({ type: undefined })).toMatchObject({
      code: 'ACKORD_MISSING_ATTRIBUTE',
      message: expect.stringMatching(/needs a type/),
    })
    const long = await refusalOf({ id: 'x'.repeat(10_000) })
    expect(long).toMatchObject({ code: 'ACKORD_INVALID_ATTRIBUTES', message: expect.stringMatching(/longer than 1024 bytes/) })
    expect(long.message.length).toBeLessThan(400)
    expect(await refusalOf({ id: 'a\0b' })).toMatchObject({ code: 'ACKORD_INVALID_ATTRIBUTES', message: expect.stringMatching(/NUL/) })
  })
})

describe('a router and a relay', () => {
  it.each([1, 2])('share a pool of %i connections, smaller than the concurrency', async (max) => {
    await using world = await openPg({ max })
    const total = 50
    const broker = await brokerOf(total)
    const events = collect(total)
    await using relay = new Relay(sqlOutbox(world.database), {
      logger: silentLogger,
      batchSize: 7,
      publisher: events.publisher,
    }).start()
    const router = routerOf(world, { concurrency: 16 })
    const running = router.run(broker.source('orders'))
    await broker.idle('orders')
    await events.all
    await relay.stop()
    await router.stop()
    await running
    expect([await world.orders(), await world.inbox(), await world.outbox(), events.ids.size]).toEqual([total, total, 0, total])
    expect([world.pool.totalCount, world.pool.waitingCount]).toEqual([world.pool.idleCount, 0])
  })

  it('lose nothing while the schema is missing, and continue once it exists', async () => {
    await using world = await openPg({ empty: true })
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
      expect(text).toMatch(/ackord_inbox" does not exist.*Run createSchema/)
    expect(logs.relay.at('error')).toMatchObject([{ fields: { err: { problem: 'missing' } } }])
    expect(logs.relay.at('info')).toHaveLength(1)
  })

  it('report that the schema is older when a column is missing, and nack', async () => {
    await using world = await openPg()
    await world.query('ALTER TABLE ackord_outbox DROP COLUMN ordering_key')
    await world.query('ALTER TABLE ackord_outbox DROP COLUMN lease_until CASCADE')
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
    expect(await failureOf(sqlOutbox(world.database).claim({ limit: 1, lease: 1000 }))).toMatchObject({ code: 'ACKORD_SCHEMA' })
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([0, 0, 0])
    expect(broker.stats('orders').acked).toBe(0)
  })
})

it('finds its tables under names with quotes, also for a router and a relay', async () => {
  await using world = await openPg({ empty: true })
  const names = { inbox: 'in"box', outbox: `out"; DROP TABLE orders; --`, meta: "m'eta" }
  const database = fromPg(world.pool, { schema: world.schema, names, logger: silentLogger })
  await createSchema(database)
  const broker = await brokerOf(1)
  const router = routerOf({ ...world, database } as unknown as World)
  const running = router.run(broker.source('orders'))
  await broker.idle('orders')
  await router.stop()
  await running
  const [record] = await sqlOutbox(database).claim({ limit: 10, lease: 1000 })
  expect(record).toMatchObject({ destination: 'order-events', message: { type: 'order.placed' } })
  expect(await world.orders()).toBe(1)
})

it('creates its tables and functions under names with the tag of a dollar-quoted string, and appends with the function', async () => {
  await using world = await openPg({ empty: true })
  const kinds = ['inbox', 'outbox', 'meta', 'append', 'valid', 'relays', 'partitions', 'hands', 'keep'] as const
  const names = Object.fromEntries(kinds.map((kind) => [kind, `$ackord$ $ackord1$ $$ ${kind}`]))
  const database = fromPg(world.pool, { schema: world.schema, names, logger: silentLogger })
  await createSchema(database)
  await world.query(`SELECT ${world.schema}."${names['append']}"(destination => 'events', type => 't', source => '/s', data => 'x')`)
  expect(await sqlOutbox(database, { logger: silentLogger }).claim({ limit: 10, lease: 1000 })).toHaveLength(1)
})
