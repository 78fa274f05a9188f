import { MemoryBroker, type Publisher, type Source, silentLogger } from '@ackord/core'
import { natsPublisher, natsSource } from '@ackord/nats'
import { rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { fromIoredis } from '@ackord/redis'
import { streamPublisher, streamSource } from '@ackord/redis/streams'
import { AckPolicy, jetstreamManager } from '@nats-io/jetstream'
import { connect as connectNats } from '@nats-io/transport-node'
import { connect as connectRabbitmq } from 'amqplib'
import { Redis } from 'ioredis'
import type { BrokerName } from './protocol.ts'

const rabbitmqUrl = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'
const natsUrl = process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222'
const redisUrl = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
const prefetch = 100
const group = 'pipeline'
const topics = ['orders', 'order-events'] as const

type Topic = (typeof topics)[number]

/** A queue, subject or stream. */
export function destinationOf(prefix: string, topic: Topic): string {
  return `${prefix}-${topic}`
}

/** The connections of one process. */
export interface Broker extends AsyncDisposable {
  readonly publisher: Publisher
  source(topic: Topic): Source
}

interface BrokerKind {
  /** Creates the queues or streams of a measurement; the disposal removes them. */
  declare(prefix: string): Promise<AsyncDisposable>
  connect(prefix: string): Promise<Broker>
}

export const brokerKinds: Record<BrokerName, BrokerKind> = {
  rabbitmq: {
    async declare(prefix) {
      const connection = await connectRabbitmq(rabbitmqUrl)
      const channel = await connection.createChannel()
      for (const topic of topics) await channel.assertQueue(destinationOf(prefix, topic), { durable: true })
      return {
        async [Symbol.asyncDispose]() {
          for (const topic of topics) await channel.deleteQueue(destinationOf(prefix, topic))
          await connection.close()
        },
      }
    },
    async connect(prefix) {
      const [consuming, publishing] = await Promise.all([
        connectRabbitmq(rabbitmqUrl, { recovery: true }),
        connectRabbitmq(rabbitmqUrl, { recovery: true }),
      ])
      const publisher = rabbitmqPublisher(publishing, { logger: silentLogger })
      return {
        publisher,
        source: (topic) => rabbitmqSource(consuming, { queue: destinationOf(prefix, topic), prefetch, logger: silentLogger }),
        async [Symbol.asyncDispose]() {
          await publisher.close()
          await Promise.all([consuming.close(), publishing.close()])
        },
      }
    },
  },
  nats: {
    async declare(prefix) {
      const connection = await connectNats({ servers: natsUrl })
      const manager = await jetstreamManager(connection)
      await manager.streams.add({ name: prefix, subjects: topics.map((topic) => destinationOf(prefix, topic)) })
      for (const topic of topics) {
        await manager.consumers.add(prefix, {
          durable_name: topic,
          filter_subject: destinationOf(prefix, topic),
          ack_policy: AckPolicy.Explicit,
        })
      }
      return {
        async [Symbol.asyncDispose]() {
          await manager.streams.delete(prefix)
          await connection.close()
        },
      }
    },
    async connect(prefix) {
      const connection = await connectNats({ servers: natsUrl })
      const publisher = natsPublisher(connection)
      return {
        publisher,
        source: (topic) => natsSource(connection, { stream: prefix, consumer: topic, prefetch, logger: silentLogger }),
        async [Symbol.asyncDispose]() {
          await publisher.close()
          await connection.close()
        },
      }
    },
  },
  redis: {
    async declare(prefix) {
      const client = new Redis(redisUrl)
      await client.ping()
      return {
        async [Symbol.asyncDispose]() {
          const left = await client.keys(`*${prefix}*`)
          if (left.length > 0) await client.unlink(left)
          client.disconnect()
        },
      }
    },
    async connect(prefix) {
      const client = new Redis(redisUrl)
      const redis = fromIoredis(client, { logger: silentLogger })
      const publisher = streamPublisher(redis)
      return {
        publisher,
        source: (topic) => streamSource(redis, { stream: destinationOf(prefix, topic), group, prefetch }),
        async [Symbol.asyncDispose]() {
          await publisher.close()
          client.disconnect()
        },
      }
    },
  },
  memory: {
    declare: async () => ({ async [Symbol.asyncDispose]() {} }),
    async connect(prefix) {
      const broker = new MemoryBroker({ logger: silentLogger })
      return {
        publisher: broker,
        source: (topic) => broker.source(destinationOf(prefix, topic), { prefetch }),
        [Symbol.asyncDispose]: () => broker.close(),
      }
    },
  },
}
