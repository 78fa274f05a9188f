import type { RateGrant, RateLimiter } from '@ackord/core'
import { ResultTable, testRateLimiter } from '@ackord/testkit/suites'
import { afterAll, describe, expect, it } from 'vitest'
import { measureSharedRate } from '../../../testkit/test/support/rate-process.ts'
import { redisRateLimiter } from '../../src/index.ts'
import { crashProgram } from '../support/crash-program.ts'
import { openHandlingWorld, quiet } from '../support/handling-world.ts'
import { type RedisKind, type TestRedis, typicalKinds } from '../support/redis-clients.ts'

const program = crashProgram('rate-process')
const results = new ResultTable()

afterAll(() => console.log(results.format()))

const sleep = (duration: number) => new Promise<void>((resolve) => void setTimeout(resolve, duration))
const perHour = { limit: 10, interval: 3_600_000, burst: 10, wanted: 4, returned: 0 }

async function take(limiter: RateLimiter, ...keys: readonly string[]): Promise<readonly RateGrant[]> {
  return await limiter.take(
    keys.map((key) => ({ key, ...perHour })),
    { signal: new AbortController().signal },
  )
}

async function open(kind: RedisKind) {
  const world = await openHandlingWorld(kind)
  const others: TestRedis[] = []
  return {
    ...world,
    limiter: redisRateLimiter(world.redis, { tag: world.tag }),
    async another() {
      const other = await kind.open({ options: quiet })
      others.push(other)
      return redisRateLimiter(other.redis, { tag: world.tag })
    },
    elapse: sleep,
    async [Symbol.asyncDispose]() {
      for (const other of others) await other[Symbol.asyncDispose]()
      await world[Symbol.asyncDispose]()
    },
  }
}

for (const kind of typicalKinds) {
  testRateLimiter({ describe, it }, { name: kind.name, open: () => open(kind), depth: kind.cluster ? 'basic' : 'whole', results })
}

const [single] = typicalKinds as [RedisKind]

describe('redisRateLimiter()', () => {
  it('keeps the buckets of other names apart, in one slot', async () => {
    await using world = await open(single)
    const limiters = ['orders', 'invoices'].map((name) => redisRateLimiter(world.redis, { tag: world.tag, name }))
    for (const limiter of limiters) expect((await take(limiter, 'a')).map(({ granted }) => granted)).toEqual([4])
    expect((await world.keys()).map((key) => key.replace(/[^:]*$/, '')).toSorted()).toEqual(['rate:invoices:', 'rate:orders:'])
  })

  it('has no key for a full bucket', async () => {
    await using world = await open(single)
    const { limiter } = world
    await limiter.take([{ key: 'a', limit: 1000, interval: 1000, burst: 10, wanted: 10, returned: 0 }], {
      signal: new AbortController().signal,
    })
    await take(limiter, 'b')
    await limiter.take([{ key: 'b', ...perHour, wanted: 0, returned: 4 }], { signal: new AbortController().signal })
    // Redis removes an expired key within milliseconds when it is looked for.
    await expect.poll(() => world.keys(), { timeout: 5000 }).toEqual([])
  })

  it('recovers when the clock of the server is set back', async () => {
    await using world = await open(single)
    await take(world.limiter, 'a')
    const [key = ''] = await world.keys()
    // A day later than the bucket can be full.
    await world.command('SET', `{${world.tag}}:${key}`, String((Date.now() + 86_400_000) * 1000))
    expect((await take(world.limiter, 'a')).map(({ granted }) => granted)).toEqual([0])
    const [grant] = await take(world.limiter, 'a')
    expect(grant?.retryAfter).toBeLessThanOrEqual(360_000)
  })

  it('rejects a key of another type with an error of Redis', async () => {
    await using world = await open(single)
    await take(world.limiter, 'a')
    const [key = ''] = await world.keys()
    await world.command('DEL', `{${world.tag}}:${key}`)
    await world.command('RPUSH', `{${world.tag}}:${key}`, 'x')
    await expect(take(world.limiter, 'a')).rejects.toThrow(/WRONGTYPE/)
  })

  it('rejects invalid options', async () => {
    await using world = await open(single)
    for (const options of [{ name: '' }, { tag: '' }, { prefix: 'x' }]) {
      expect(() => redisRateLimiter(world.redis, options)).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION' }))
    }
  })

  it('bounds the rate over processes, also when one is killed with permits', async () => {
    await using world = await open(single)
    const { total, excess, allowed } = await measureSharedRate(program, { RATE_TAG: world.tag })
    expect(excess).toBeLessThanOrEqual(0)
    expect(total).toBeGreaterThanOrEqual(allowed * 0.6)
  })
})
