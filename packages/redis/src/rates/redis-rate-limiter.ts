import { hash } from 'node:crypto'
import { type RateLimiter, StoreRefusesWritesError } from '@ackord/core'
import { checkName, checkRateRequests, rejectUnknownOptions } from '@ackord/core/internal'
import { defaultTag, redisKey } from '../client/keys.ts'
import { asList, callFailureOf } from '../client/reply.ts'
import { internalsOf, type Redis } from '../transaction/redis.ts'
import { takeScript } from './take-script.ts'

export interface RedisRateLimiterOptions {
  /** Routers with the same name share the rates of their tenants. Default: 'default'. */
  readonly name?: string | undefined
  /** The hash tag of all keys, so that one call serves several tenants; they are in one slot of a cluster. Default: `'ackord'`. */
  readonly tag?: string | undefined
}

/**
 * Counts the permits of rates in Redis, for all processes that use the same server or cluster and name.
 *
 *     const limiter = redisRateLimiter(redis, { name: 'orders' })
 *     new Router({ fairness: { by: ({ subject }) => subject, rate: 100, limiter } })
 *
 * One call of a script serves several tenants. A tenant whose bucket is not full has one key, `{tag}:rate:name:hash`, which expires when the bucket is full. Rates use the clock of
 * the server. They are as durable as the server: after a failover or an eviction a tenant may begin again with `burst`.
 */
export function redisRateLimiter(redis: Redis, options: RedisRateLimiterOptions = {}): RateLimiter {
  const { name = 'default', tag = defaultTag, ...unknown } = options
  rejectUnknownOptions('redisRateLimiter()', unknown)
  checkName('name', name)
  checkName('tag', tag)
  const { port } = internalsOf(redis)
  // Hashed, because others may choose the names of tenants.
  const keyOf = (tenant: string) => redisKey(tag, 'rate', name, hash('sha256', tenant, 'base64url'))

  return {
    async take(requests, { signal }) {
      checkRateRequests(requests)
      signal.throwIfAborted()
      const args = requests.flatMap(({ limit, interval, burst, wanted, returned }) =>
        [limit, interval, burst, wanted, returned].map(String),
      )
      const keys = requests.map(({ key }) => keyOf(key))
      const reply = await port.evaluate(takeScript, keys, args).catch((error: unknown) => {
        const { kind, text } = callFailureOf(error)
        throw kind === 'refusesWrites' ? new StoreRefusesWritesError('Redis', text, { cause: error }) : error
      })
      const numbers = asList(reply).map(Number)
      return requests.map((_, index) => ({ granted: numbers[2 * index] ?? 0, retryAfter: numbers[2 * index + 1] ?? 0 }))
    },
  }
}
