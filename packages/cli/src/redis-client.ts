import { Redis } from 'ioredis'
import type { ServiceUrl } from './service-url.ts'

const connectTimeout = 5000

/** Connects once, and says why if it cannot; a connection that is lost later is made again. */
export async function connectRedis({ text }: ServiceUrl): Promise<Redis> {
  let connected = false
  let lastError: unknown
  const client = new Redis(text, {
    lazyConnect: true,
    connectTimeout,
    retryStrategy: (attempt) => (connected ? Math.min(100 * 2 ** Math.min(attempt, 8), 5000) : null),
  })
  client.on('error', (error) => {
    lastError = error
  })
  try {
    await client.connect()
    await client.ping()
  } catch (error) {
    client.disconnect()
    // It only says that the connection is closed; the event has the reason.
    throw lastError ?? error
  }
  connected = true
  return client
}

/** Removes every key that begins so. It walks through all keys, a few hundred at a time. */
export async function removeKeys(client: Redis, start: string): Promise<void> {
  const pattern = `${start.replaceAll(/[*?[\]\\]/g, '\\$&')}*`
  let cursor = '0'
  do {
    const [next, keys] = await client.scan(cursor, 'MATCH', pattern, 'COUNT', 500)
    if (keys.length > 0) await client.unlink(...keys)
    cursor = next
  } while (cursor !== '0')
}
