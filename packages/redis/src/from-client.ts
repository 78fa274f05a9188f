import { type IoredisClient, ioredisPort } from './client/ioredis.ts'
import { type NodeRedisClient, type NodeRedisCluster, nodeRedisPort } from './client/node-redis.ts'
import { Redis, type RedisOptions } from './transaction/redis.ts'

/** Redis on a client of ioredis 5 or 6, or on a cluster client. The caller closes the client. */
export function fromIoredis(client: IoredisClient, options: RedisOptions = {}): Redis {
  return new Redis(client, ioredisPort(client), options)
}

/** Redis on a client of node-redis, or on a cluster client. The caller connects and closes the client. */
export function fromNodeRedis(client: NodeRedisClient | NodeRedisCluster, options: RedisOptions = {}): Redis {
  return new Redis(client, nodeRedisPort(client), options)
}
