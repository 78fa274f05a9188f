import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import {
  commandHandler,
  defineEvent,
  eventHandler,
  jsonMarshaler,
  type Logger,
  MemoryBroker,
  marshal,
  publishAll,
  type Source,
  silentLogger,
} from '@ackord/core'
import { fromIoredis } from '@ackord/redis'
import { luaOutbox } from '@ackord/redis/lua-outbox'
import { createService as createRedisService } from '@ackord/redis/service'
import { createSchema } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { createService, type SqlServiceOptions } from '@ackord/sql/service'
import { Redis as Ioredis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { openSchema, postgresUrl } from '../../packages/sql/test/support/own-schema.ts'
import { pg } from '../../packages/sql/test/support/pg.ts'
import { bundle } from '../../scripts/bundle.mjs'
import { ownName } from '../../scripts/test-run.mjs'
import { until } from '../pipeline/until.ts'

const placeOrder = defineEvent<{ id: string }>('order.place')
const orderPlaced = defineEvent<{ orderId: string }>('order.placed')

type Handle = Pick<InstanceType<typeof pg.Pool>, 'query'>

/** A service on PostgreSQL, with a broker in memory. */
async function openWorld(options: Partial<SqlServiceOptions<Handle>> = {}) {
  const own = await openSchema()
  const pool = new pg.Pool({ connectionString: postgresUrl, options: `-c search_path=${own.schema}` })
  const database = fromPg(pool, { logger: silentLogger })
  await createSchema(database)
  const broker = new MemoryBroker({ history: 100 })
  const placing = commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
    await database.executor().query('INSERT INTO orders (id) VALUES ($1)', [id])
    return [orderPlaced({ orderId: id })]
  })
  const service = createService<Handle>({
    database,
    consumer: 'orders',
    source: broker.source('orders'),
    handlers: [placing],
    publisher: broker,
    destination: 'order-events',
    eventSource: '/orders',
    relay: { pollInterval: 20 },
    logger: silentLogger,
    onClose: () => pool.end(),
    ...options,
  })
  return {
    database,
    broker,
    service,
    placing,
    rows: async () => (await own.query('SELECT id FROM orders ORDER BY id')).map(({ id }) => id),
    send: (id: string) => {
      const command = marshal(placeOrder({ id }, { id: `m-${id}`, source: '/shop' }), jsonMarshaler)
      return publishAll(broker, 'orders', [command, command])
    },
    events: () => broker.published('order-events').map(({ data }) => JSON.parse(new TextDecoder().decode(data)) as unknown),
    async [Symbol.asyncDispose]() {
      await service.close().catch(() => {})
      if (!pool.ended) await pool.end()
      await own[Symbol.asyncDispose]()
    },
  }
}

describe('a service', () => {
  it('handles each message once, and publishes its events', async () => {
    await using world = await openWorld()
    world.service.start()
    await world.send('o-1')
    await until(async () => world.events().length === 1, 'the events are published')
    expect(await world.rows()).toEqual(['o-1'])
    expect(world.events()).toEqual([{ orderId: 'o-1' }])
    const { state, healthy, router, relay } = world.service.health()
    expect({ state, healthy, router: router?.state, relay: relay?.state }).toEqual({
      state: 'running',
      healthy: true,
      router: 'running',
      relay: 'running',
    })
  })

  it('publishes what is appended to its outbox, with its source and destination', async () => {
    await using world = await openWorld({ source: undefined, handlers: undefined, consumer: undefined })
    expect(world.service.router).toBeUndefined()
    world.service.start()
    await world.database.write((transaction) => world.service.outbox.append(transaction, orderPlaced({ orderId: 'o-2' })))
    await until(async () => world.events().length === 1, 'the events are published')
    expect(world.broker.published('order-events')[0]?.source).toBe('/orders')
  })

  it('stops, keeps what is not published, and can be started again', async () => {
    await using world = await openWorld()
    world.service.start().start()
    await world.send('o-1')
    await until(async () => world.events().length === 1, 'the events are published')
    await Promise.all([world.service.stop(), world.service.stop()])
    expect(world.service.health()).toMatchObject({ state: 'idle', healthy: false })
    await world.send('o-2')
    world.service.start()
    await until(async () => world.events().length === 2, 'the events are published')
    expect(await world.rows()).toEqual(['o-1', 'o-2'])
  })

  it('closes its source, its publishers and the rest, once, and cannot be started after that', async () => {
    const closed: string[] = []
    const source: Source = { messages: async function* () {}, close: async () => void closed.push('source') }
    const publisher = { publish: async () => [], [Symbol.asyncDispose]: async () => void closed.push('publisher') }
    await using world = await openWorld({
      source,
      publisher: { 'order-events': publisher, '*': publisher },
      onClose: () => closed.push('rest'),
    })
    world.service.start()
    await Promise.all([world.service.close(), world.service.close()])
    expect(closed).toEqual(['source', 'publisher', 'rest'])
    expect(world.service.health().state).toBe('closed')
    expect(() => world.service.start()).toThrow('The service is closed. Create another one.')
  })

  it('calls onClose also if its source cannot be closed, and rejects with the failure', async () => {
    let isClosed = false
    const source: Source = { messages: async function* () {}, close: () => Promise.reject(new Error('the channel is gone')) }
    await using world = await openWorld({
      source,
      onClose: () => {
        isClosed = true
      },
    })
    await expect(world.service.close()).rejects.toThrow('the channel is gone')
    expect(isClosed).toBe(true)
  })

  it('passes its logger and metrics to all parts, also to a source and a publisher that it creates', async () => {
    const lines: string[] = []
    const counted = new Set<string>()
    const logger: Logger = { ...silentLogger, error: (_, text) => lines.push(text), warn: (_, text) => lines.push(text) }
    const metrics = { count: (name: string) => void counted.add(name), observe() {}, gauge() {} }
    const ports: unknown[] = []
    const broker = new MemoryBroker()
    await using world = await openWorld({
      logger,
      metrics,
      source(given) {
        ports.push(given)
        return broker.source('orders')
      },
      publisher(given) {
        ports.push(given)
        return broker
      },
      handlers: [
        eventHandler({ type: 'order.place' }, () => {
          throw new Error('no stock')
        }),
      ],
    })
    expect(ports).toEqual([expect.objectContaining({ metrics: expect.anything() }), expect.objectContaining({ logger: expect.anything() })])
    world.service.start()
    await publishAll(broker, 'orders', [marshal(placeOrder({ id: 'o-1' }, { id: 'm-1', source: '/shop' }), jsonMarshaler)])
    await until(async () => lines.length > 0, 'the failure is logged')
    expect([...counted].some((name) => name.startsWith('ackord.'))).toBe(true)
  })

  it('reports a source that fails, and goes on publishing', async () => {
    const source: Source = {
      // biome-ignore lint/correctness/useYield: it fails before its first message.
      async *messages() {
        throw new Error('the queue does not exist')
      },
    }
    await using world = await openWorld({ source })
    world.service.start()
    await until(async () => world.service.health().error !== undefined, 'the source has failed')
    expect(world.service.health()).toMatchObject({
      healthy: false,
      error: { code: 'ACKORD_SOURCE_FAILED', cause: { message: 'the queue does not exist' } },
    })
    await world.database.write((transaction) => world.service.outbox.append(transaction, orderPlaced({ orderId: 'o-2' })))
    await until(async () => world.events().length === 1, 'the events are published')
    await expect(world.service.runUntilSignal()).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED' })
    expect(world.service.health().state).toBe('closed')
  })

  it('rejects the message of a handler that returns an event, where it has no destination, and says so', async () => {
    const problems: unknown[] = []
    const logger: Logger = { ...silentLogger, error: (fields) => problems.push(fields), warn: (fields) => problems.push(fields) }
    await using world = await openWorld({ destination: undefined, logger })
    world.service.start()
    await world.send('o-1')
    await until(async () => problems.length > 0, 'the failure is logged')
    expect(JSON.stringify(problems, (_, value: unknown) => (value instanceof Error ? value.message : value))).toContain(
      'Set it in createService()',
    )
    expect(problems).toContainEqual(expect.objectContaining({ verdict: 'reject' }))
    expect(await world.rows()).toEqual([])
  })
})

describe('createService() rejects', () => {
  const database = fromPg(new pg.Pool(), { logger: silentLogger })
  const source = new MemoryBroker().source('orders')
  const handlers = [eventHandler({ type: 'order.place' }, () => {})]

  it.each([
    ['nothing to do', {}, 'needs a `source` with `handlers`, a `publisher`, or both'],
    ['handlers without a consumer', { handlers }, 'consumer is required with `handlers`'],
    ['a source without handlers', { source, consumer: 'orders' }, 'handlers is required with `source`'],
    ['a source without a consumer', { source, handlers }, 'consumer is required with `handlers`'],
    ['an unknown option', { source, handlers, consumer: 'orders', handler: 1 }, "createService() has no option 'handler'"],
    ['a wrong option of a part', { source, handlers, consumer: 'orders', router: { buffer: -1 } }, 'buffer'],
  ])('%s', (_, options, text) => {
    expect(() => createService({ database, ...options })).toThrow(text)
  })

  it('a start with handlers and without a source', () => {
    const service = createService({ database, handlers, consumer: 'orders' })
    expect(() => service.start()).toThrow('source is required to start a service with `handlers`')
  })
})

describe('on Redis', () => {
  it.each(['a stream outbox', 'a Lua outbox'])('a service with %s handles each message once, and publishes its events', async (kind) => {
    const client = new Ioredis(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379')
    const redis = fromIoredis(client, { logger: silentLogger })
    const tag = `test-${ownName()}`
    const broker = new MemoryBroker({ history: 10 })
    const handler = commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
      await redis.commands().hset(redis.key(tag, 'order', id), { state: 'placed' })
      return [orderPlaced({ orderId: id })]
    })
    const options = {
      redis,
      consumer: 'orders',
      inbox: { tag },
      source: broker.source('orders'),
      handlers: [handler],
      publisher: broker,
      destination: 'order-events',
      relay: { pollInterval: 20 },
      logger: silentLogger,
    }
    await using service =
      kind === 'a Lua outbox'
        ? createRedisService({ ...options, outbox: luaOutbox(redis, { tag, logger: silentLogger }) })
        : createRedisService({ ...options, outbox: { tags: [tag] } })
    try {
      service.start()
      const command = marshal(placeOrder({ id: 'o-1' }, { id: 'm-1', source: '/shop' }), jsonMarshaler)
      await publishAll(broker, 'orders', [command, command])
      await until(async () => broker.published('order-events').length === 1, 'the event is published')
      await service.close()
      expect(await client.hgetall(redis.key(tag, 'order', 'o-1'))).toEqual({ state: 'placed' })
    } finally {
      const keys = await client.keys(`{${tag}}*`)
      if (keys.length > 0) await client.del(...keys)
      client.disconnect()
    }
  })
})

describe('runUntilSignal()', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)(
    'on %s finishes the message in flight, closes everything and lets the process end',
    async (signal) => {
      const program = fileURLToPath(new URL('signalled-service.ts', import.meta.url))
      const file = fileURLToPath(new URL(`../../.cache/service/${process.pid}-${signal}.mjs`, import.meta.url))
      await bundle(program, file)
      const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] })
      let output = ''
      child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
        output += chunk
      })
      await until(async () => output.includes('handling'), 'the message is being handled')
      child.kill(signal)
      const [code] = (await once(child, 'exit')) as [number | null]
      expect(output.trim().split('\n')).toEqual(['handling', 'handled', 'closed with 1 event'])
      expect(code).toBe(0)
    },
  )
})
