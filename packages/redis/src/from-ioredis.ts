import { type IoredisClient, ioredisPort } from './client/ioredis.ts'
import { Redis, type RedisOptions } from './transaction/redis.ts'

/** On a client of ioredis 5 or 6, or on its cluster's. It stays the caller's: to be closed by whoever made it. */
export function fromIoredis(client: IoredisClient, options: RedisOptions = {}): Redis {
  return new Redis(client, ioredisPort(client), options)
}
