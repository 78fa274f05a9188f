import { silentLogger } from '@ackord/core'
import { fromIoredis } from '@ackord/redis'
import { streamPublisher, streamSource } from '@ackord/redis/streams'
import { Redis } from 'ioredis'
import { startRedis } from '../../scripts/servers/index.mjs'
import type { CarrierKind } from './carrier.ts'

export const redisStreamsCarrier: CarrierKind = {
  name: 'Redis Streams',
  fault: 'is killed',
  async open(destination) {
    const server = await startRedis({ args: ['--appendfsync', 'always'] })
    const client = new Redis(server.url)
    // The test closes the connection on purpose.
    client.on('error', () => {})
    const redis = fromIoredis(client, { logger: silentLogger })
    const publisher = streamPublisher(redis)
    const source = streamSource(redis, { stream: destination, group: 'billing', claimIdle: 2000, claimInterval: 500 })
    return {
      publisher,
      source,
      async crash() {
        await server.kill()
        await server.restart()
      },
      async [Symbol.asyncDispose]() {
        await source[Symbol.asyncDispose]?.()
        await publisher[Symbol.asyncDispose]()
        client.disconnect()
        await server.stop()
      },
    }
  },
}
