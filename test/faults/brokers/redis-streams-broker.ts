import { publishAll, silentLogger } from '@ackord/core'
import { fromIoredis } from '@ackord/redis'
import { streamPublisher, streamSource } from '@ackord/redis/streams'
import { startFaultProxy } from '@ackord/testkit'
import { Redis } from 'ioredis'
import { ownName } from '../../../scripts/test-run.mjs'
import { eventsName } from '../names.ts'
import type { FaultBrokerKind } from './broker.ts'

const url = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'

export const redisStreamsBroker: FaultBrokerKind = {
  name: 'Redis Streams',
  async open() {
    const name = `faults-${ownName()}`
    const [input, output] = [`${name}-commands`, `${name}-events`]
    const proxy = await startFaultProxy(url)
    // The socket timeout is the only way to detect a half-open connection.
    const client = quiet(new Redis(proxy.url, { socketTimeout: 1500, retryStrategy: () => 20 }))
    const door = quiet(new Redis(url))
    const redis = fromIoredis(client, { logger: silentLogger, deadline: 1000 })
    const sender = streamPublisher(fromIoredis(door, { logger: silentLogger }))
    const publisher = streamPublisher(redis, { stream: (destination) => (destination === eventsName ? output : destination) })
    const source = streamSource(redis, {
      stream: input,
      group: 'orders',
      prefetch: 8,
      block: 200,
      claimIdle: 1000,
      claimInterval: 100,
      backoff: () => 20,
    })
    const pending = async () => Number(((await door.xpending(input, 'orders')) as [number])[0])

    return {
      source,
      publisher,
      proxy: () => proxy,
      recognise: (moment) => (bytes) => (moment === 'ack' ? bytes.includes('\r\nack\r\n') : bytes.includes(`\r\n${output}\r\n`)),
      send: (commands) => publishAll(sender, input, commands),
      async published() {
        const entries = await door.xrange(output, '-', '+')
        return entries.map(([, fields]) => fields[fields.indexOf('id') + 1] ?? '')
      },
      async waiting() {
        const [group] = (await door.xinfo('GROUPS', input)) as [(string | number)[]]
        const lag = Number(group[group.indexOf('lag') + 1])
        return (await pending()) + lag
      },
      async [Symbol.asyncDispose]() {
        proxy.judge()
        await source[Symbol.asyncDispose]()
        await publisher[Symbol.asyncDispose]()
        client.disconnect()
        const keys = await door.keys(`*${name}*`)
        if (keys.length > 0) await door.del(...keys)
        door.disconnect()
        await proxy[Symbol.asyncDispose]()
      },
    }
  },
}

/** A cut connection is reported by the failing commands; without a listener the client also prints it. */
function quiet(client: Redis): Redis {
  return client.on('error', () => {})
}
