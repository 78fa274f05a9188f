// @ts-check
import { randomUUID } from 'node:crypto'
import { silentLogger } from '@ackord/core'
import { fromIoredis } from '@ackord/redis'
import { streamPublisher, streamSource } from '@ackord/redis/streams'
// @ts-expect-error A dependency of the project in which this runs, and not of the workspace.
import { Redis } from 'ioredis'
import { testBroker } from './brokers.mjs'

/** @param {import('./checks.mjs').Checks} checks */
export async function register(checks) {
  /** @returns {Promise<import('@ackord/testkit/suites').BrokerWorld>} */
  async function open() {
    const client = new Redis(process.env['REDIS_URL'] ?? '')
    const redis = fromIoredis(client, { logger: silentLogger, deadline: 5000 })
    /** @type {AsyncDisposable[]} */
    const opened = []
    return {
      tooLarge: 3 * 1024 * 1024,
      async topic() {
        const stream = `${process.env['NAME']}-${randomUUID()}`
        return {
          destination: stream,
          source({ group = 'billing', deadLetter, prefetch } = {}) {
            const source = streamSource(redis, { stream, group, deadLetter, prefetch, block: 100 })
            opened.push(source)
            return source
          },
        }
      },
      publisher: () => streamPublisher(redis, { maxSize: 2 * 1024 * 1024 }),
      async [Symbol.asyncDispose]() {
        for (const each of opened) await each[Symbol.asyncDispose]()
        client.disconnect()
      },
    }
  }

  testBroker(checks, 'Redis Streams with ioredis', open, {
    competing: true,
    settlesEach: true,
    delay: true,
    deliveryCount: true,
    groups: true,
    replay: true,
    types: true,
    names: true,
    origin: true,
    sizeLimit: true,
  })
  return async () => {}
}
