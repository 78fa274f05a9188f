import { type NodeRedisClient, type NodeRedisCluster, nodeRedisPort } from './client/node-redis.ts'
import { Redis, type RedisOptions } from './transaction/redis.ts'

/** On a client of node-redis, or on its cluster's. It stays the caller's: connected and closed by whoever made it. */
export function fromNodeRedis(client: NodeRedisClient | NodeRedisCluster, options: RedisOptions = {}): Redis {
  return new Redis(client, nodeRedisPort(client), options)
}
