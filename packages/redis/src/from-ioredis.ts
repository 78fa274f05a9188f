import { type IoredisClient, ioredisPort } from './client/ioredis.ts'
import { Redis, type RedisOptions } from './transaction/redis.ts'

/** Redis on a client of ioredis 5 or 6, or on a cluster client. The caller closes the client. */
export function fromIoredis(client: IoredisClient, options: RedisOptions = {}): Redis {
  return new Redis(client, ioredisPort(client), options)
}
