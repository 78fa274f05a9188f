import { jsonMarshaler, MemoryBroker, Message, type Middleware, marshal, type Publisher, Router } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { fromIoredis, transactional as redisTransactional, streamOutbox } from '@ackord/redis'
import { luaOutbox } from '@ackord/redis/lua-outbox'
import { createSchema, type Database, sqlOutbox, transactional } from '@ackord/sql'
import { fromMysql2 } from '@ackord/sql/mysql'
import { fromPg } from '@ackord/sql/postgres'
import { sourceOf, startFaultProxy, trackedMessage } from '@ackord/testkit'
import { connect } from 'amqplib'
import { Redis as Ioredis } from 'ioredis'
import { createPool } from 'mysql2/promise'
import { describe, expect, it, vi } from 'vitest'
import { openDoor, poolOptions } from '../../packages/sql/test/mysql/support/mysql-world.ts'
import { nodeKind } from '../../packages/sql/test/sqlite/support/sqlite-world.ts'
import { openSchema } from '../../packages/sql/test/support/own-schema.ts'
import { pg } from '../../packages/sql/test/support/pg.ts'
import { ownName } from '../../scripts/test-run.mjs'
import { expectNoSecrets, handleInVain, password, payload, type Telling, telling } from './secrets.ts'

vi.setConfig({ testTimeout: 120_000 })

const command = (id: string) => trackedMessage(id, { data: { secret: payload } })
const event = () => new Message({ secret: payload }, { type: 'order.placed' })

/** A publisher that refuses, with an error text that contains nothing of the message. */
const refusing: Publisher = {
  publish: async (_, messages) => messages.map(() => ({ ok: false, error: new Error('The broker says no.'), permanent: true })),
}

interface Subject {
  readonly middleware: Middleware
  readonly outbox: ConstructorParameters<typeof Relay>[0] & { list: NonNullable<ConstructorParameters<typeof Relay>[0]['list']> }
  /** Makes every later statement of the handler's transaction fail. */
  breakTables(): Promise<unknown>
  /** Whether the store accepts an event whose type has thousands of characters; stores with types in an index refuse it. */
  readonly takesLongTypes: boolean
}

/** Triggers every failure around a message with a store, and records the resulting errors and logs. */
async function failEverywhere({ middleware, outbox, breakTables, takesLongTypes }: Subject, told: Telling): Promise<void> {
  const { logger, hear } = told
  const routerOf = (handle: () => Promise<readonly Message[]>) =>
    new Router({ source: '/orders', logger }).use(middleware).handle({ type: 'order.place', handle })
  const deliver = async (router: Router, ...messages: ReturnType<typeof command>[]) => {
    await router.run(sourceOf(...messages))
    for (const { calls } of messages) hear(calls)
    hear(router.health())
  }
  // A handler that fails, a handler whose result cannot be serialized, an event with an attribute that cannot be sent, an event without a type.
  await deliver(
    routerOf(() => Promise.reject(new Error('out of stock'))),
    command('fails'),
  )
  await deliver(
    routerOf(async () => [new Message({ secret: payload, big: 1n }, { type: 'order.placed' })]),
    command('unwritable'),
  )
  await deliver(
    routerOf(async () => [new Message({ secret: payload }, { type: 'order.placed', 'Bad-Name': 'x' })]),
    command('bad attribute'),
  )
  await deliver(
    routerOf(async () => [new Message({ secret: payload }, {})]),
    command('no type'),
  )
  await deliver(
    routerOf(async () => [new Message({ secret: payload }, { type: 'a'.repeat(3000) })]),
    command('long type'),
  )
  // Data that is not JSON, and a message without a handler.
  const broken = trackedMessage('broken')
  const text = new Message(new TextEncoder().encode(`{"${payload}`), broken.message.attributes, {
    acking: { ack() {}, nack: (error) => void hear(error), reject: (error) => void hear(error) },
  })
  await routerOf(async () => []).run(sourceOf({ message: text }))
  await deliver(
    routerOf(async () => []),
    trackedMessage('unknown', { data: { secret: payload }, attributes: { type: 'order.other' } }),
  )
  // An event that is stored, then refused by the broker and parked.
  await deliver(
    routerOf(async () => [event()]),
    command('stored'),
  )
  const parked = new Promise<void>((resolve) => {
    const relay = new Relay(outbox, {
      publisher: refusing,
      logger,
      onEvent(happened) {
        hear({ ...happened, records: undefined, record: undefined })
        if (happened.type === 'parked') void relay.stop().then(resolve)
      },
    }).start()
  })
  await parked
  const { records } = await outbox.list({ state: 'parked' }, { limit: 10 })
  // That event, and the one whose attribute has an unusual name: it can be sent.
  const long = takesLongTypes ? ['a'.repeat(3000)] : []
  expect(records.map(({ message }) => message.type)).toEqual(['order.placed', ...long, 'order.placed'])
  hear(records.map(({ lastError }) => lastError))
  // From here on the tables are broken.
  await breakTables()
  await deliver(
    routerOf(async () => [event()]),
    command('after'),
  )
  hear(await outbox.claim({ limit: 1, lease: 1000 }).catch((error: unknown) => error))
}

function sqlSubject<Handle>(database: Database<Handle>, told: Telling, breakTables: Subject['breakTables']): Subject {
  const { logger } = told
  return {
    middleware: transactional(database, {
      inbox: { consumer: 'orders', logger },
      outbox: { destination: 'order-events' },
      transaction: { logger },
    }),
    outbox: sqlOutbox(database, { logger }),
    breakTables,
    takesLongTypes: false,
  }
}

describe('errors, logs and stored error texts hold neither payloads nor passwords', () => {
  it('on PostgreSQL', async () => {
    const told = telling()
    const own = await openSchema()
    const pool = own.createPool()
    const database = fromPg(pool, { logger: told.logger })
    await createSchema(database)
    await failEverywhere(
      sqlSubject(database, told, () => own.query('ALTER TABLE ackord_outbox DROP COLUMN data CASCADE')),
      told,
    )
    await pool.end()
    await own[Symbol.asyncDispose]()
    expectNoSecrets(told.heard())
  })

  it('on MariaDB', async () => {
    const told = telling()
    const door = await openDoor()
    const pool = createPool(poolOptions(door.schema, 5))
    const database = fromMysql2(pool)
    await createSchema(database)
    await failEverywhere(
      sqlSubject(database, told, () => door.query('ALTER TABLE ackord_outbox DROP COLUMN data')),
      told,
    )
    await pool.end()
    await door.close()
    expectNoSecrets(told.heard())
  })

  it('on SQLite', async () => {
    const told = telling()
    await using world = await nodeKind.open({ logger: told.logger })
    const breakTables = async () => world.client.exec('ALTER TABLE ackord_outbox RENAME COLUMN data TO other')
    await failEverywhere(sqlSubject(world.database, told, breakTables), told)
    expectNoSecrets(told.heard())
  })

  it.each(['streams', 'Lua'] as const)('on Redis (%s)', async (kind) => {
    const told = telling()
    const { logger } = told
    const client = new Ioredis(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379')
    const tag = `secrets-${ownName()}`
    const redis = fromIoredis(client, { logger })
    const outbox = kind === 'streams' ? streamOutbox(redis, { tags: [tag], logger }) : luaOutbox(redis, { tag, logger })
    const middleware = redisTransactional(redis, {
      inbox: { consumer: 'orders', tag, logger },
      outbox: { outbox, destination: 'order-events' },
      transaction: { logger },
    })
    const breakTables = async () => {
      for (const key of await client.keys(`{${tag}*`))
        if (!key.includes(':inbox:')) await client.del(key).then(() => client.set(key, 'of another kind'))
    }
    await failEverywhere({ middleware, outbox, breakTables, takesLongTypes: true }, told)
    for (const key of await client.keys(`{${tag}*`)) await client.del(key)
    client.disconnect()
    expectNoSecrets(told.heard())
  })

  it('when a server with a password cannot be reached, or ends the connection', async () => {
    const told = telling()
    const { logger, hear } = told
    const withPassword = (url: string) => url.replace(/^(\w+:\/\/)(?:[^@]*@)?/, `$1user:${password}@`)
    const proxy = await startFaultProxy(process.env['POSTGRES_URL'] ?? 'postgres://127.0.0.1:5432/test')
    proxy.refuse(true)
    const url = withPassword(proxy.url)

    const pool = new pg.Pool({ connectionString: url })
    const database = fromPg(pool, { logger })
    const mysql = createPool({ ...poolOptions('test', 1), port: proxy.port, user: 'user', password })
    const client = new Ioredis(url.replace('postgres', 'redis'), { maxRetriesPerRequest: 0, retryStrategy: null, enableOfflineQueue: true })
    client.on('error', hear)
    const redis = fromIoredis(client, { logger, deadline: 1000 })
    const attempts: readonly (() => Promise<unknown>)[] = [
      () => createSchema(database),
      () => createSchema(fromMysql2(mysql)),
      () => sqlOutbox(database, { logger }).claim({ limit: 1, lease: 1000 }),
      () => sqlOutbox(fromMysql2(mysql), { logger }).claim({ limit: 1, lease: 1000 }),
      () => streamOutbox(redis, { logger }).claim({ limit: 1, lease: 1000 }),
      () => luaOutbox(redis, { logger }).claim({ limit: 1, lease: 1000 }),
      () => connect(url.replace('postgres', 'amqp')),
    ]
    for (const attempt of attempts) {
      const error = await attempt().then(
        () => expect.unreachable('It was reached.'),
        (reason: unknown) => reason,
      )
      hear(error)
    }
    await pool.end()
    await mysql.end()
    client.disconnect()
    await proxy[Symbol.asyncDispose]()
    expectNoSecrets(told.heard())
  })

  it('on RabbitMQ, for a message that is rejected and a queue that was deleted', async () => {
    const told = telling()
    const { logger, hear } = told
    const connection = await connect(process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672')
    const channel = await connection.createChannel()
    const queue = `secrets-${ownName()}`
    await channel.assertQueue(queue, { expires: 600_000 })
    const publisher = rabbitmqPublisher(connection, { logger })
    const attributes = { id: 'm-1', type: 'order.place', source: '/shop', specversion: '1.0' }
    const message = marshal(new Message({ secret: payload }, attributes), jsonMarshaler)
    const signal = new AbortController().signal
    hear(await publisher.publish(queue, [message], { signal }))
    const [{ ok, ...failure } = { ok: true }] = await publisher.publish(`${queue}-missing`, [message], { signal })
    expect(ok).toBe(false)
    hear(failure)
    await handleInVain(rabbitmqSource(connection, { queue, logger }), told)
    await channel.deleteQueue(queue)
    await connection.close()
    expectNoSecrets(told.heard())
  })

  it('on the memory broker, with a dead letter', async () => {
    const told = telling()
    const { logger, hear } = told
    const broker = new MemoryBroker({ logger, history: 10 })
    await broker.publish('orders', [command('m-1').message, new Message({ secret: payload } as never, { id: 'x', type: 'y' })]).then(hear)
    const router = new Router({ logger, maxDeliveries: 2, redeliveryDelay: () => 1 }).handle({
      type: 'order.place',
      handle: () => Promise.reject(new Error('out of stock')),
    })
    const running = router.run(broker.source('orders', { deadLetter: 'dead' }))
    await broker.idle('orders')
    await router.stop()
    await running
    hear(router.health())
    hear(broker.published('dead').map(({ attributes }) => attributes))
    expectNoSecrets(told.heard())
  })

  it('and would be found if they did', () => {
    const bytes = new TextEncoder().encode(`{"a":"${payload}"}`)
    const padding = 'x'.repeat(100)
    for (const leak of [
      payload,
      { deep: { url: `redis://user:${password}@host` } },
      { authorization: `Basic ${Buffer.from(`user:${password}`).toString('base64')}` },
      { authorization: `Basic ${Buffer.from(`us:${password}`).toString('base64')}` },
      bytes,
      Buffer.from(bytes),
      new Error('a', { cause: payload }),
    ]) {
      const { hear, heard } = telling()
      hear(padding)
      hear(leak)
      expect(() => expectNoSecrets(heard())).toThrow()
    }
  })
})
