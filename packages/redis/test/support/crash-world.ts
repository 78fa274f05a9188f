import { createHash } from 'node:crypto'
import { deterministicIds, jsonMarshaler, Message, marshal, publishAll, silentLogger } from '@ackord/core'
import { rabbitmqPublisher } from '@ackord/rabbitmq'
import type { OpenCrashWorld } from '@ackord/testkit/suites'
import { connect } from 'amqplib'
import { Redis as Ioredis } from 'ioredis'
import { ownName } from '../../../../scripts/test-run.mjs'
import { fromIoredis, streamOutbox } from '../../src/index.ts'
import { luaOutbox } from '../../src/outbox/lua/index.ts'
import { batchSize, consumer, ordersKey } from './crash-rules.ts'
import { redisUrl } from './redis-clients.ts'

const rabbitmqUrl = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'

/** Redis, RabbitMQ and the service that uses them. */
export function crashWorld(service: string, mode: 'exclusive' | 'optimistic', store: 'stream' | 'lua' = 'stream'): OpenCrashWorld {
  return async () => {
    const tag = `crash-${ownName()}`
    const client = new Ioredis(redisUrl)
    const redis = fromIoredis(client, { logger: silentLogger })
    const outbox = store === 'lua' ? luaOutbox(redis, { tag }) : streamOutbox(redis, { tags: [tag] })
    const connection = await connect(rabbitmqUrl)
    const channel = await connection.createChannel()
    const publisher = rabbitmqPublisher(connection)
    const input = `${tag}.commands`
    const output = `${tag}.events`
    // Queues expire, so that an interrupted test run leaves none behind for long.
    for (const queue of [input, output]) await channel.assertQueue(queue, { expires: 600_000, arguments: { 'x-queue-type': 'quorum' } })
    const sent = new Set<string>()
    const published: string[] = []

    return {
      batchSize,
      program: {
        file: service,
        environment: {
          ...process.env,
          CRASH_REDIS: redisUrl,
          CRASH_RABBITMQ: rabbitmqUrl,
          CRASH_TAG: tag,
          CRASH_INPUT: input,
          CRASH_OUTPUT: output,
          CRASH_MODE: mode,
          CRASH_STORE: store,
        },
      },
      async send(ids) {
        for (const id of ids) sent.add(id)
        await publishAll(publisher, input, ids.map(placeOrder))
      },
      eventOf: (id) => deterministicIds(consumer, '/shop', id)('order.placed'),
      async observe() {
        // Read before the events: a record settled by now is at the broker, and is read below.
        const { destinations } = await outbox.stats()
        const sum = (state: 'ready' | 'waiting' | 'leased' | 'parked') => destinations.reduce((total, one) => total + one[state], 0)
        const { messageCount } = await channel.checkQueue(input)
        for (let event = await channel.get(output, { noAck: true }); event !== false; event = await channel.get(output, { noAck: true })) {
          published.push(String(event.properties.messageId))
        }
        return {
          applied: await client.lrange(ordersKey(tag), 0, -1),
          inbox: await doneIds(),
          published: [...published],
          waiting: messageCount,
          outbox: { ready: sum('ready'), waiting: sum('waiting'), leased: sum('leased'), parked: sum('parked') },
        }
      },
      async knowsOf(services) {
        return (await channel.checkQueue(input)).consumerCount === services
      },
      async [Symbol.asyncDispose]() {
        for (const queue of [input, output]) await channel.deleteQueue(queue)
        await connection.close()
        const keys = await client.keys(`{${tag}}*`)
        if (keys.length > 0) await client.del(...keys)
        client.disconnect()
      },
    }

    /** A marker contains only a hash of the message id, so each command is looked up. */
    async function doneIds(): Promise<string[]> {
      const ids = [...sent]
      if (ids.length === 0) return []
      const markers = await client.mget(ids.map((id) => markerOf(tag, id)))
      return ids.filter((_, index) => markers[index]?.startsWith('done:') === true)
    }
  }
}

function placeOrder(id: string) {
  const attributes = { id, type: 'order.place', source: '/shop', specversion: '1.0' }
  return marshal(new Message({ id }, attributes), jsonMarshaler)
}

/** Part of the format: `{tag}:inbox:consumer:hash`. */
function markerOf(tag: string, id: string): string {
  const digest = createHash('sha256')
    .update(JSON.stringify(['/shop', id]))
    .digest('base64url')
  return `{${tag}}:inbox:${consumer}:${digest.slice(0, 22)}`
}
