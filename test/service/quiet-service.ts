// A whole service whose parts were created without a logger. It provokes a failure in each of them, until all of the expected lines are logged, and closes. Whatever it
// writes besides JSON lines is a mistake.
import {
  AckordError,
  type Closable,
  commandHandler,
  constantBackoff,
  defineEvent,
  jsonMarshaler,
  type Logger,
  Message,
  marshal,
  type Publisher,
  publishAll,
  type Source,
} from '@ackord/core'
import { retryMiddleware } from '@ackord/core/middleware'
import { natsPublisher, natsSource } from '@ackord/nats'
import type { Service } from '@ackord/outbox/service'
import { declareTopology, rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { fromIoredis } from '@ackord/redis'
import { createService as createRedisService } from '@ackord/redis/service'
import { streamPublisher, streamSource } from '@ackord/redis/streams'
import { createSchema } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { createService } from '@ackord/sql/service'
import { type FaultProxy, startFaultProxy } from '@ackord/testkit'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectNats } from '@nats-io/transport-node'
import { connect as connectRabbitmq } from 'amqplib'
import { Redis as Ioredis } from 'ioredis'
import pg from 'pg'
import { pino } from 'pino'
import { until } from '../pipeline/until.ts'

const { QUIET_KIND = '', QUIET_NAME = '', QUIET_SCHEMA = '', QUIET_EXPECTED = '[]' } = process.env
const { POSTGRES_URL = 'postgres://postgres@127.0.0.1:5432/test', RABBITMQ_URL = 'amqp://guest:guest@127.0.0.1:5672' } = process.env
const { NATS_URL = 'nats://127.0.0.1:4222', REDIS_URL = 'redis://127.0.0.1:6379' } = process.env

const texts: string[] = []
const logger: Logger = pino(
  { level: 'info' },
  {
    write(line: string) {
      texts.push(JSON.parse(line).msg)
      process.stdout.write(line)
    },
  },
)

const placeOrder = defineEvent<{ id: string }>('order.place')
const orderPlaced = defineEvent<{ orderId: string }>('order.placed')
const attemptsOf = new Map<string, number>()

const handler = commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
  const attempt = (attemptsOf.get(id) ?? 0) + 1
  attemptsOf.set(id, attempt)
  if (id === 'fails at first' && attempt <= 3) throw new Error('not yet')
  if (id === 'makes no sense') throw new AckordError('ACKORD_INVALID_MESSAGE', 'It makes no sense.', { retryable: false })
  return [orderPlaced({ orderId: id })]
})

const common = {
  consumer: 'orders',
  handlers: [handler],
  concurrency: 4,
  use: [retryMiddleware({ attempts: 2, backoff: constantBackoff(10) })],
  relay: { pollInterval: 20 },
  router: { redeliveryDelay: constantBackoff(50) },
  logger,
}

/** The broker of the service, through a proxy, and what the test itself needs of it. */
interface Broker extends AsyncDisposable {
  readonly source: Source & Closable
  readonly publisher: Publisher & Closable
  /** Where nothing can be published. */
  readonly destination: string
  readonly proxy: FaultProxy
  send(...messages: readonly Message<Uint8Array>[]): Promise<void>
}

async function openRabbitmq(): Promise<Broker> {
  const proxy = await startFaultProxy(RABBITMQ_URL)
  const recovery = { initialDelay: 20, maxDelay: 200 }
  const [consuming, publishing] = await Promise.all([connectRabbitmq(proxy.url, { recovery }), connectRabbitmq(proxy.url, { recovery })])
  const own = await connectRabbitmq(RABBITMQ_URL)
  await declareTopology(own, { queues: { [QUIET_NAME]: { type: 'quorum' } } })
  const sender = rabbitmqPublisher(own, { logger })
  const destination = `${QUIET_NAME}-missing`
  return {
    // The queue of the dead letter is missing.
    source: rabbitmqSource(consuming, { queue: QUIET_NAME, deadLetter: { publisher: rabbitmqPublisher(publishing), destination } }),
    publisher: rabbitmqPublisher(publishing),
    destination,
    proxy,
    send: (...messages) => publishAll(sender, QUIET_NAME, messages),
    async [Symbol.asyncDispose]() {
      await sender.close()
      // The last cut may have been a moment ago. A connection that amqplib opens again during close() has no listener for errors until it is closed, and the end of the
      // proxy would end the process.
      for (const connection of [consuming, publishing]) await (await connection.createChannel()).close()
      await Promise.all([consuming.close(), publishing.close()])
      const channel = await own.createChannel()
      await channel.deleteQueue(QUIET_NAME)
      for (const level of ['1s', '10s', '1m', 'long']) await channel.deleteQueue(`${QUIET_NAME}.ackord.retry.${level}`)
      await own.close()
      await proxy[Symbol.asyncDispose]()
    },
  }
}

async function openNats(): Promise<Broker> {
  const proxy = await startFaultProxy(NATS_URL)
  const patient = { maxReconnectAttempts: -1, reconnectTimeWait: 50, reconnectJitter: 0 }
  const [consuming, publishing] = await Promise.all([
    connectNats({ ...patient, servers: proxy.url }),
    connectNats({ ...patient, servers: proxy.url }),
  ])
  const own = await connectNats({ ...patient, servers: NATS_URL })
  const manager = await jetstreamManager(own)
  await manager.streams.add({ name: QUIET_NAME, subjects: [QUIET_NAME] })
  const sender = natsPublisher(own)
  return {
    // Without a dead letter.
    source: natsSource(consuming, { stream: QUIET_NAME, consumer: 'orders', declare: {} }),
    publisher: natsPublisher(publishing),
    destination: `${QUIET_NAME}-missing`,
    proxy,
    send: (...messages) => publishAll(sender, QUIET_NAME, messages),
    async [Symbol.asyncDispose]() {
      await sender.close()
      await Promise.all([consuming.close(), publishing.close()])
      await manager.streams.delete(QUIET_NAME)
      await own.close()
      await proxy[Symbol.asyncDispose]()
    },
  }
}

async function onPostgres(broker: Broker): Promise<void> {
  await using proxy = await startFaultProxy(POSTGRES_URL)
  const pool = new pg.Pool({ connectionString: proxy.url, options: `-c search_path=${QUIET_SCHEMA}` })
  const database = fromPg(pool)
  await createSchema(database)
  const { source, publisher, destination } = broker
  const service = createService({ ...common, database, source, publisher, destination, onClose: () => pool.end() })
  await provoke(service, broker, async () => {
    // An idle connection, which breaks.
    await pool.query('SELECT 1')
    proxy.cut()
  })
}

async function onRedis(): Promise<void> {
  const proxy = await startFaultProxy(REDIS_URL)
  const client = new Ioredis(proxy.url)
  // Its errors belong to the application: without a listener ioredis prints them itself.
  client.on('error', (err) => logger.warn({ err }, 'The connection to Redis has a problem.'))
  const own = new Ioredis(REDIS_URL)
  const tag = QUIET_NAME
  const redis = fromIoredis(client)
  const stream = `{${tag}}:orders`
  // No stream, so that nothing can be added to it.
  const destination = `{${tag}}:string`
  await own.set(destination, 'no stream')
  const source = streamSource(redis, { stream, group: 'orders', deadLetter: { publisher: streamPublisher(redis), destination } })
  const publisher = streamPublisher(redis)
  const service = createRedisService({ ...common, redis, inbox: { tag }, outbox: { tags: [tag] }, source, publisher, destination })
  const sender = streamPublisher(fromIoredis(own, { logger }))
  const send: Broker['send'] = (...messages) => publishAll(sender, stream, messages)
  await provoke(service, { source, publisher, destination, proxy, send, async [Symbol.asyncDispose]() {} }, async () => {})
  await sender.close()
  const keys = await own.keys(`*{${tag}}*`)
  if (keys.length > 0) await own.del(...keys)
  client.disconnect()
  own.disconnect()
  await proxy[Symbol.asyncDispose]()
}

async function provoke(service: Service, broker: Broker, breakStore: () => Promise<void>): Promise<void> {
  service.start()
  const order = (id: string) => marshal(placeOrder({ id }, { id: `m-${id}`, source: '/shop' }), jsonMarshaler)
  const poison = new Message(Buffer.from('no JSON'), { ...order('poison').attributes })
  await broker.send(order('fails at first'), order('makes no sense'), order('is fine'), poison)
  const expected = JSON.parse(QUIET_EXPECTED) as string[]
  const missing = () => expected.filter((text) => !texts.some((logged) => logged.startsWith(text)))
  let rounds = 0
  await until(async () => {
    rounds += 1
    // Not at once: a connection that is lost again and again brings no message.
    if (rounds % 20 === 10) {
      broker.proxy.cut()
      await breakStore().catch(() => {})
    }
    return missing().length === 0
  }, 'all lines are logged').catch((error: unknown) => {
    throw new Error(`These lines are missing: ${missing().join(' | ')}`, { cause: error })
  })
  await service.close()
}

if (QUIET_KIND === 'Redis and Redis Streams') await onRedis()
else {
  await using broker = await (QUIET_KIND === 'PostgreSQL and RabbitMQ' ? openRabbitmq() : openNats())
  await onPostgres(broker)
}
