// @ts-check
import { Redis } from 'ioredis'
import { sessionName } from './contestant.mjs'

export const redisUrl = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'

/**
 * Keys of one hash tag. The business keeps requests and orders in a hash each.
 *
 * @typedef {object} RedisWorld
 * @property {string} tag
 * @property {Redis} client
 * @property {(name: string) => string} key
 * @property {() => Promise<void>} close
 */

/** @returns {Promise<RedisWorld>} */
export async function openRedis() {
  const tag = sessionName()
  // BullMQ requires the option; the others do not mind.
  const client = new Redis(redisUrl, { maxRetriesPerRequest: null })
  await client.ping()
  return {
    tag,
    client,
    key: (name) => `{${tag}}:${name}`,
    async close() {
      for await (const keys of client.scanStream({ match: `{${tag}}*`, count: 1000 })) {
        if (keys.length > 0) await client.unlink(...keys)
      }
      client.disconnect()
    },
  }
}
