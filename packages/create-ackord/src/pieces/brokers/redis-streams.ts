import type { BrokerPiece, PieceContext } from '../piece.ts'
import { redisServer, redisUrl } from '../redis-server.ts'
import { connectedBroker } from './connected-broker.ts'

/** With Redis as the store, the broker uses its connection. */
export function redisStreams({ choices, prefix }: PieceContext): BrokerPiece {
  const onStore = choices.store === 'redis'
  const [file, kind] = ['redis-streams', 'Stream'] as const
  const streams = [
    { constant: 'ordersStream', value: `${prefix}-orders`, meaning: 'The stream of this service: commands, and events of other services.' },
    { constant: 'eventsStream', value: `${prefix}-order-events`, meaning: 'The stream of the events of this service.' },
  ]
  if (onStore) {
    const needs = {
      imports: { './adapters/redis.ts': ['openRedis'] },
      open: 'const { redis, close: closeRedis } = await openRedis()',
      close: 'closeRedis()',
    }
    return {
      ...connectedBroker({ file, kind, connect: 'connectBroker(redis)', close: '', needs }),
      title: 'Redis Streams',
      dependencies: ['@ackord/redis'],
      files: { 'src/adapters/redis-streams.ts': sharedAdapter },
      settings: streams,
    }
  }
  return {
    ...connectedBroker({ file, kind, close: 'broker.close()' }),
    title: 'Redis Streams',
    dependencies: ['@ackord/redis', 'redis'],
    files: { 'src/adapters/redis-streams.ts': ownAdapter },
    settings: [redisUrl, ...streams],
    servers: redisServer,
  }
}

const sources = `publisher: streamPublisher(redis),
    /** The messages for this service. Those that could not be handled go to the stream \`{…}:dead\`. */
    messages: () => streamSource(redis, { stream: ordersStream, group: 'orders', trimInterval: 60_000 }),
    /** The events of this service, as another service would read them. */
    events: () => streamSource(redis, { stream: eventsStream, group: 'send' }),`

const sharedAdapter = `import type { Redis } from '@ackord/redis'
import { streamPublisher, streamSource } from '@ackord/redis/streams'
import { eventsStream, ordersStream } from '../settings.ts'

export function connectBroker(redis: Redis) {
  return {
    ${sources}
  }
}
`

const ownAdapter = `import { fromNodeRedis } from '@ackord/redis'
import { streamPublisher, streamSource } from '@ackord/redis/streams'
import { createClient } from 'redis'
import { eventsStream, ordersStream, redisUrl } from '../settings.ts'

/** Connects to Redis. */
export async function connectBroker() {
  const client = createClient({ url: redisUrl })
  client.on('error', (error: Error) => console.warn('The connection to Redis has a problem:', error.message))
  await client.connect()
  const redis = fromNodeRedis(client)
  return {
    ${sources}
    close: () => client.destroy(),
  }
}
`
