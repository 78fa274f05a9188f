import { Writable } from 'node:stream'
import { defineEvent, eventHandler, MemoryBroker, type RawMessage, silentLogger } from '@ackord/core'
import { httpSource } from '@ackord/http'
import { declareTopology, rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { fromNodeRedis } from '@ackord/redis'
import { createSchema } from '@ackord/sql'
import { fromPg, type PgDatabase } from '@ackord/sql/postgres'
import { createService } from '@ackord/sql/service'
import { deferred } from '@ackord/testkit'
import { connect } from 'amqplib'
import fastify, { type FastifyInstance, type FastifyPluginCallback } from 'fastify'
import type pg from 'pg'
import { createClient } from 'redis'
import { expect, it } from 'vitest'
import { ownName } from '../../../scripts/test-run.mjs'
import { openSchema } from '../../sql/test/support/own-schema.ts'
import { ackord } from '../src/index.ts'

interface Order {
  readonly id: string
}

const orderPlaced = defineEvent<Order>('order.placed')
const rabbitmqUrl = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'
const redisUrl = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'

type ShopDatabase = PgDatabase<pg.Pool>

interface World extends AsyncDisposable {
  readonly database: ShopDatabase
  count(table: string): Promise<number>
  /** Created by the test; closed at the end, if the test has not done so. */
  readonly app: FastifyInstance
  readonly log: readonly Record<string, unknown>[]
}

async function open({ tables = true }: { readonly tables?: boolean } = {}): Promise<World> {
  const own = await openSchema()
  const pool = own.createPool()
  pool.on('error', () => {})
  const database = fromPg(pool)
  if (tables) await createSchema(database)
  await own.query(`CREATE TABLE ${own.schema}.shipped (id text NOT NULL)`)
  const log: Record<string, unknown>[] = []
  const stream = new Writable({
    write(line, _encoding, done) {
      log.push(JSON.parse(String(line)))
      done()
    },
  })
  // A client may keep its connection after its last answer; the server waits for it.
  const app = fastify({ logger: { level: 'info', stream }, keepAliveTimeout: 1 })
  return {
    database,
    count: async (table) => Number((await own.query(`SELECT count(*) AS n FROM ${own.schema}.${table}`))[0]?.['n']),
    app,
    log,
    async [Symbol.asyncDispose]() {
      await app.close()
      await pool.end()
      await own[Symbol.asyncDispose]()
    },
  }
}

/** `POST /orders`, which stores an order and its event. */
function addOrders(app: FastifyInstance, database: ShopDatabase, during: () => Promise<void> = async () => {}): void {
  app.post<{ Body: Order }>('/orders', async (request, reply) => {
    await database.write(async (transaction) => {
      await transaction.query('INSERT INTO orders (id) VALUES ($1)', [request.body.id])
      await app.outbox.append(transaction, orderPlaced(request.body))
      await during()
    })
    return await reply.code(201).send(request.body)
  })
}

function shipping(database: ShopDatabase, onShipped: () => void = () => {}) {
  return eventHandler({ type: orderPlaced }, async ({ id }) => {
    await database.executor().query('INSERT INTO shipped VALUES ($1)', [id])
    onShipped()
  })
}

async function post(url: string, order: Order): Promise<number> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}/orders`, { method: 'POST', headers, body: JSON.stringify(order) })
  await response.arrayBuffer()
  return response.status
}

async function getJson(url: string): Promise<{ readonly status: number; readonly body: unknown }> {
  const response = await fetch(url)
  return { status: response.status, body: await response.json() }
}

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const limit = AbortSignal.timeout(30_000)
  while (!(await isSo())) {
    limit.throwIfAborted()
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Counts what is published, also when the service has closed its publisher. */
function openBroker() {
  const broker = new MemoryBroker({ history: 10 })
  return {
    publisher: { publish: (destination: string, messages: readonly RawMessage[]) => broker.publish(destination, messages) },
    published: () => broker.published('orders').length,
  }
}

it('publishes the events of requests and handles messages for as long as the application runs', async () => {
  await using world = await open()
  const { app, database } = world
  const queue = `ackord-test-${ownName()}`
  const connection = await connect(rabbitmqUrl)
  await declareTopology(connection, { queues: { [queue]: {} } })
  let isClosed = false
  await app.register(ackord, {
    database,
    source: rabbitmqSource(connection, { queue }),
    handlers: [shipping(database)],
    consumer: 'shipping',
    publisher: rabbitmqPublisher(connection),
    destination: queue,
    eventSource: '/orders',
    health: '/health',
    async onClose() {
      const channel = await connection.createChannel()
      await channel.deleteQueue(queue)
      await connection.close()
      isClosed = true
    },
  })
  addOrders(app, database)
  expect(app.ackord.health().state).toBe('idle')
  const url = await app.listen({ port: 0, host: '127.0.0.1' })

  expect(await Promise.all(['o-1', 'o-2', 'o-3'].map((id) => post(url, { id })))).toEqual([201, 201, 201])
  await until(async () => (await world.count('shipped')) === 3)
  expect(await getJson(`${url}/health`)).toEqual({
    status: 200,
    body: {
      state: 'running',
      healthy: true,
      router: { state: 'running', inFlight: expect.any(Number), paused: false, failed: false },
      relay: { state: 'running', store: 'up', downDestinations: [] },
    },
  })
  await app.close()

  expect([isClosed, app.ackord.health().state]).toEqual([true, 'closed'])
  expect([await world.count('orders'), await world.count('shipped')]).toEqual([3, 3])
  // Ackord's own lines are among those of Fastify, which has written nothing about the probe.
  expect(world.log.some((line) => (line['req'] as { url?: string } | undefined)?.url === '/health')).toBe(false)
})

it('answers requests that have begun before it closes the service', async () => {
  await using world = await open()
  const { app, database } = world
  const { publisher, published } = openBroker()
  const [begun, closing, gate] = [deferred(), deferred(), deferred()]
  const steps: string[] = []
  const onClose = () => steps.push('closed')
  await app.register(ackord, { database, publisher, destination: 'orders', eventSource: '/orders', onClose })
  app.addHook('onResponse', async () => void steps.push('answered'))
  app.addHook('preClose', async () => closing.resolve())
  addOrders(app, database, async () => {
    begun.resolve()
    await gate.promise
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const request = post(url, { id: 'o-1' })
  await begun.promise
  const closed = app.close()
  await closing.promise
  gate.resolve()

  expect(await request).toBe(201)
  await closed
  expect(steps).toEqual(['answered', 'closed'])
  expect(await world.count('orders')).toBe(1)
  // Published, or still in the outbox.
  expect(published() + (await world.count('ackord_outbox'))).toBe(1)
})

it('does not start without tables, unless they are not validated', async () => {
  await using world = await open({ tables: false })
  await world.app.register(ackord, { database: world.database, publisher: new MemoryBroker(), destination: 'orders' })
  await expect(world.app.listen({ port: 0, host: '127.0.0.1' })).rejects.toMatchObject({ code: 'ACKORD_SCHEMA' })
  expect(world.app.ackord.health().state).toBe('idle')

  await using other = await open({ tables: false })
  const { app, database } = other
  const options = { database, publisher: new MemoryBroker(), destination: 'orders', validateSchema: false, cleanup: false as const }
  await app.register(ackord, { ...options, logger: silentLogger })
  await app.ready()
  expect(app.ackord.health().state).toBe('running')
})

it('reports a service that is not healthy with 503, without the texts of errors', async () => {
  await using world = await open()
  const { app, database } = world
  const failing = {
    // biome-ignore lint/correctness/useYield: it fails before the first message.
    async *messages() {
      throw new Error('the password is secret')
    },
  }
  const options = { source: failing, handlers: [shipping(database)], consumer: 'shipping' }
  await app.register(ackord, { database, ...options, health: '/health' })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  await until(() => app.ackord.health().error !== undefined)
  const { status, body } = await getJson(`${url}/health`)

  expect([status, body]).toMatchObject([503, { healthy: false, router: { failed: true } }])
  expect(JSON.stringify(body)).not.toContain('secret')
  // By Fastify's logger, at its level.
  expect(world.log.filter(({ level }) => level === 50).map(({ msg }) => msg)).toEqual([
    expect.stringContaining('The source of the service has failed'),
  ])
})

it('mounts an HTTP source as a route, in the same server as other routes', async () => {
  await using world = await open()
  const { app, database } = world
  const source = httpSource()
  await app.register(ackord, { database, source, handlers: [shipping(database)], consumer: 'shipping', events: '/events' })
  app.post<{ Body: Order }>('/parsed', async ({ body }) => ({ id: body.id }))
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const event = { id: 'e-1', type: 'order.placed', source: '/orders', specversion: '1.0' }
  const send = () =>
    fetch(`${url}/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/cloudevents+json' },
      body: JSON.stringify({ ...event, data: { id: 'o-1' } }),
    })

  // The second one is a duplicate.
  expect([(await send()).status, (await send()).status]).toEqual([200, 200])
  expect(await world.count('shipped')).toBe(1)
  const headers = { 'content-type': 'application/json' }
  const parsed = await fetch(`${url}/parsed`, { method: 'POST', headers, body: '{"id":"o-2"}' })
  expect(await parsed.json()).toEqual({ id: 'o-2' })
})

it('runs a service that was created elsewhere, and gives its plugins the outbox', async () => {
  await using world = await open()
  const { app, database } = world
  const { publisher, published } = openBroker()
  const service = createService({ database, publisher, destination: 'orders', eventSource: '/orders', logger: silentLogger })
  await app.register(ackord, { service })
  const orders: FastifyPluginCallback = (inner, _options, done) => {
    addOrders(inner, database)
    done()
  }
  await app.register(orders, { prefix: '/shop' })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })

  expect(await post(`${url}/shop`, { id: 'o-1' })).toBe(201)
  await until(() => published() === 1)
  await app.close()
  expect(service.health().state).toBe('closed')
})

it('runs a service on Redis', async () => {
  await using world = await open()
  const { app } = world
  const tag = `ackord-test-${ownName()}`
  const client = await createClient({ url: redisUrl }).connect()
  const redis = fromNodeRedis(client)
  const { publisher, published } = openBroker()
  await app.register(ackord, { redis, outbox: { tags: [tag] }, publisher, destination: 'orders', eventSource: '/orders' })
  app.post<{ Body: Order }>('/orders', async (request, reply) => {
    await redis.write(async (transaction) => {
      await redis.commands().set(redis.key(tag, request.body.id), 'placed')
      await app.outbox.append(transaction, orderPlaced(request.body))
    })
    return await reply.code(201).send()
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })

  expect(await post(url, { id: 'o-1' })).toBe(201)
  await until(() => published() === 1)
  await app.close()
  const keys = await client.keys(`{${tag}}*`)
  if (keys.length > 0) await client.del(keys)
  client.destroy()
})

it.each([
  ['database', {}],
  ['service', { service: {} }],
  ['health', { health: '' }],
  ['events', { events: '/events' }],
  ['createService()', { misspelt: true }],
])('refuses a wrong option %s', async (name, options) => {
  await using world = await open()
  const { app, database } = world
  const valid = { database, publisher: new MemoryBroker(), destination: 'orders' }
  const given = name === 'database' || name === 'service' ? options : { ...valid, ...options }

  await expect(async () => await app.register(ackord, given as never)).rejects.toMatchObject({
    code: 'ACKORD_INVALID_OPTION',
    message: expect.stringContaining(name),
  })
})
