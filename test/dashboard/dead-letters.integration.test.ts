import { Message, type Publisher, silentLogger } from '@ackord/core'
import { createReceiver } from '@ackord/core/broker'
import type { DeadLetterDetail, DeadLetterPort, Job, OperatorAction, ReplayPreview } from '@ackord/dashboard'
import { fromKafkaJs, kafkaDeadLetters, kafkaPublisher } from '@ackord/kafka'
import { natsDeadLetters, natsPublisher } from '@ackord/nats'
import { declareTopology, rabbitmqDeadLetters, rabbitmqPublisher } from '@ackord/rabbitmq'
import { fromIoredis } from '@ackord/redis'
import { streamDeadLetters, streamPublisher } from '@ackord/redis/streams'
import { deferred } from '@ackord/testkit'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectNats } from '@nats-io/transport-node'
import { connect } from 'amqplib'
import { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { openWorld } from '../../packages/dashboard/test/support/world.ts'
import { createClient, createTopics, deleteTopics } from '../../packages/kafka/test/support/connection.ts'
import { provideKafka } from '../../scripts/servers/index.mjs'
import { ownName } from '../../scripts/test-run.mjs'

const rabbitmqUrl = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'
const natsUrl = process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222'
const redisUrl = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'

const logger = silentLogger

/** A destination and its dead letters. What is in the destination itself can be looked at in the same way. */
interface Opened extends AsyncDisposable {
  readonly publisher: Publisher
  readonly dead: DeadLetterPort
  readonly origin: DeadLetterPort
}

type Open = (origin: string, dead: string) => Promise<Opened>

const openRabbitmq: Open = async (origin, dead) => {
  const connection = await connect(rabbitmqUrl)
  await declareTopology(connection, { queues: { [origin]: { type: 'classic' }, [dead]: { type: 'classic' } } })
  const publisher = rabbitmqPublisher(connection, { logger })
  return {
    publisher,
    dead: rabbitmqDeadLetters(connection, dead, { logger }),
    origin: rabbitmqDeadLetters(connection, origin, { logger }),
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      const channel = await connection.createChannel()
      for (const queue of [origin, dead]) await channel.deleteQueue(queue)
      await connection.close()
    },
  }
}

const openNats: Open = async (origin, dead) => {
  const connection = await connectNats({ servers: natsUrl })
  const manager = await jetstreamManager(connection)
  for (const name of [origin, dead]) await manager.streams.add({ name, subjects: [name] })
  const publisher = natsPublisher(connection)
  return {
    publisher,
    dead: natsDeadLetters(connection, manager, dead, { logger }),
    origin: natsDeadLetters(connection, manager, origin, { logger }),
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      for (const name of [origin, dead]) await manager.streams.delete(name)
      await connection.close()
    },
  }
}

const openKafka: Open = async (origin, dead) => {
  const { url, isReal, stop } = await provideKafka()
  const client = createClient(url)
  const kafka = fromKafkaJs(client, { consumer: { sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 100 } })
  const admin = client.admin()
  await admin.connect()
  await createTopics(admin, [origin, dead], { isReal })
  const publisher = kafkaPublisher(kafka)
  const portOf = (topic: string) => kafkaDeadLetters(kafka, admin, topic, { group: `${topic}-done`, logger })
  return {
    publisher,
    dead: portOf(dead),
    origin: portOf(origin),
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      await deleteTopics(admin, [origin, dead], { isReal })
      await admin.disconnect()
      await stop()
    },
  }
}

const openRedis: Open = async (origin, dead) => {
  const client = new Redis(redisUrl)
  const redis = fromIoredis(client, { logger })
  const publisher = streamPublisher(redis)
  return {
    publisher,
    dead: streamDeadLetters(redis, dead, { logger }),
    origin: streamDeadLetters(redis, origin, { logger }),
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      await client.del(origin, dead)
      client.disconnect()
    },
  }
}

/** Rejects a message that came from this destination, as a source does. */
async function reject(publisher: Publisher, { origin, dead, id }: { readonly origin: string; readonly dead: string; readonly id: string }) {
  const receive = createReceiver({ deadLetter: { publisher, destination: dead }, logger })
  const { data, attributes } = new Message(new TextEncoder().encode(`{"order":"${id}"}`), {
    id,
    type: 'order.place',
    source: '/shop',
    partitionkey: 'c1',
    specversion: '1.0',
    datacontenttype: 'application/json',
  })
  await receive({ data, attributes, origin, ack() {}, nack: (error) => Promise.reject(error) }).reject(new Error(`no customer for ${id}`))
}

it.concurrent.each([
  ['RabbitMQ', openRabbitmq],
  ['NATS', openNats],
  ['Kafka', openKafka],
  ['Redis Streams', openRedis],
])('a mounted dashboard shows the dead letters of %s, and replays them', { timeout: 60_000 }, async (broker, open) => {
  const name = `letters_${ownName()}`
  const [origin, dead] = [`${name}_orders`, `${name}_dead`]
  await using opened = await open(origin, dead)
  for (const id of ['a', 'b', 'c']) await reject(opened.publisher, { origin, dead, id })
  const ended = deferred<OperatorAction>()
  await using world = await openWorld({ deadLetters: { orders: opened.dead, origin: opened.origin }, onAction: ended.resolve })
  const { client } = world
  interface Letters {
    readonly letters: readonly DeadLetterDetail[]
    readonly count: number
  }
  const idsIn = async (place: string) => {
    const { letters, count } = (await client.get<Letters>(`dead-letters/${place}`)).body
    return [letters.map(({ messageId }) => messageId), count]
  }

  expect(await idsIn('orders')).toEqual([['a', 'b', 'c'], 3])
  const action = { ids: ['a', 'b'], reason: 'the customer is back' }
  // Not on Kafka: each look there takes seconds, because the emulator delays each member that joins a group.
  if (broker !== 'Kafka') {
    expect((await client.get<Letters>('dead-letters/orders/letters/b')).body.letters).toMatchObject([
      { origin, reason: 'no customer for b', payload: { kind: 'json', content: '{"order":"b"}' } },
    ])
    const preview = (await client.post<ReplayPreview>('dead-letters/orders/preview', action)).body
    expect(preview).toEqual({ count: 2, skipped: 0, destinations: [origin], capped: false })
  }
  const { body: job } = await client.post<Job>('dead-letters/orders/replay', action)
  expect(await ended.promise).toMatchObject({ action: 'replay', by: 'ann', count: 2, reason: action.reason })
  expect((await client.get<Job>(`jobs/${job.id}`)).body).toMatchObject({ state: 'done', count: 2 })
  if (broker !== 'Kafka') expect(await idsIn('origin')).toEqual([['a', 'b'], 2])
  expect(await idsIn('orders')).toEqual([['c'], 1])
})
