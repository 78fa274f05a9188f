import type { Setting } from './piece.ts'

/** Redis as a store and as a broker is the same server. */
export const redisUrl: Setting = { constant: 'redisUrl', variable: 'REDIS_URL', value: 'redis://127.0.0.1:6379', meaning: 'Redis.' }

export const redisServer: Readonly<Record<string, string>> = {
  redis: `image: redis:8
command: ["redis-server", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]
ports: ["127.0.0.1:6379:6379"]
healthcheck:
  test: redis-cli ping
  interval: 1s
  retries: 60`,
}
