import type { Logger } from '@ackord/core'
import { fromIoredis } from '@ackord/redis'
import { streamDeadLetters, streamPublisher, streamSource } from '@ackord/redis/streams'
import type { ServiceUrl } from '../settings/urls.ts'
import { connectRedis, removeKeys } from '../stores/redis-client.ts'
import type { Broker } from './broker.ts'

/** A server or a cluster. A destination is a stream, which is created with its first message. */
export async function openRedisStreams(url: ServiceUrl, logger: Logger): Promise<Broker> {
  const client = await connectRedis(url)
  const redis = fromIoredis(client, { logger })
  const publisher = streamPublisher(redis)
  return {
    address: url.address,
    publisher,
    source: (topic) => streamSource(redis, { stream: topic, group: 'demo', block: 200 }),
    createTopic: () => Promise.resolve(),
    async removeTopic(topic) {
      // The other keys of its group have the topic as their hash tag.
      await removeKeys(client, `{${topic}}`)
      await client.unlink(topic)
    },
    deadLetters: (stream) => streamDeadLetters(redis, stream, { publisher, logger }),
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      client.disconnect()
    },
  }
}
