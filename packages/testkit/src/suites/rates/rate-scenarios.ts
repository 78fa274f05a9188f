import assert from 'node:assert/strict'
import type { RateLimiter, RateRequest } from '@ackord/core'
import { granted, type RateScenario, request, take } from './rate-world.ts'

/** Keys that a careless limiter mistakes for each other, or cannot store. */
const oddKeys: readonly string[] = [
  'key',
  'KEY',
  'key ',
  ' key',
  'caf\u00e9',
  'cafe\u0301',
  'cafe',
  `it's "quoted"`,
  String.raw`back\slash \0`,
  '{braces}:colon:*',
  '{braces}',
  'nul\0nul',
  'nul',
  '\u{1f9fe}',
  '__proto__',
  'x'.repeat(5000),
  `${'x'.repeat(5000)}y`,
]

export const rateScenarios: readonly RateScenario[] = [
  {
    name: 'a new key has its burst, and no more',
    basic: true,
    async run(open) {
      await using world = await open()
      assert.deepEqual(await granted(world.limiter, request({ wanted: 4 })), [4])
      assert.deepEqual(await granted(world.limiter, request({ wanted: 4 })), [4])
      assert.deepEqual(await granted(world.limiter, request({ wanted: 4 })), [2])
      assert.deepEqual(await granted(world.limiter, request({ wanted: 4 })), [0])
    },
  },
  {
    name: 'the burst does not depend on the limit',
    async run(open) {
      await using world = await open()
      assert.deepEqual(
        await granted(world.limiter, request({ burst: 3, wanted: 5 }), request({ key: 'other', burst: 25, wanted: 30 })),
        [3, 25],
      )
    },
  },
  {
    name: 'tells when there is another permit',
    basic: true,
    async run(open) {
      await using world = await open()
      const cost = 360_000
      const [first] = await take(world.limiter, request({ wanted: 12 }))
      const [second] = await take(world.limiter, request({ wanted: 1 }))
      for (const found of [first, second]) {
        assert.ok(found !== undefined && found.retryAfter <= cost && found.retryAfter > cost - 10_000, `retryAfter is ${found?.retryAfter}`)
      }
    },
  },
  {
    name: 'permits are added at the rate of the key',
    basic: true,
    async run(open) {
      await using world = await open()
      const rate = { limit: 100, interval: 10_000, burst: 50 }
      assert.deepEqual(await granted(world.limiter, request({ ...rate, wanted: 50 })), [50])
      await world.elapse(250)
      const [added = 0] = await granted(world.limiter, request({ ...rate, wanted: 50 }))
      // The scenario itself takes time.
      assert.ok(added >= 2 && added <= 20, `${added} permits were added in about 250 ms, at one in 100 ms`)
    },
  },
  {
    name: 'fractions of permits add up',
    async run(open) {
      await using world = await open()
      const rate = { limit: 20, interval: 1000, burst: 20 }
      await granted(world.limiter, request({ ...rate, wanted: 20 }))
      let added = 0
      for (let turn = 0; turn < 10; turn += 1) {
        await world.elapse(25)
        const [one = 0] = await granted(world.limiter, request({ ...rate, wanted: 20 }))
        added += one
      }
      assert.ok(added >= 5, `${added} permits were added in 250 ms, at one in 50 ms`)
    },
  },
  {
    name: 'an unused key collects no more than its burst',
    async run(open) {
      await using world = await open()
      const rate = { limit: 1000, interval: 1000, burst: 5 }
      assert.deepEqual(await granted(world.limiter, request({ ...rate, wanted: 5 })), [5])
      await world.elapse(100)
      assert.deepEqual(await granted(world.limiter, request({ ...rate, wanted: 5 })), [5])
      const [more = 0] = await granted(world.limiter, request({ ...rate, limit: 10, interval: 3_600_000, wanted: 50 }))
      assert.ok(more <= 5, `another ${more} permits were granted`)
    },
  },
  {
    name: 'high rates are exact enough',
    async run(open) {
      await using world = await open()
      const rate = { limit: 100_000, interval: 1000, burst: 1000 }
      assert.deepEqual(await granted(world.limiter, request({ ...rate, wanted: 1000 })), [1000])
      await world.elapse(30)
      const [added = 0] = await granted(world.limiter, request({ ...rate, wanted: 1000 }))
      assert.ok(added >= 990, `${added} of 1000 permits were added in 30 ms`)
    },
  },
  {
    name: 'returned permits are granted again, within the burst',
    basic: true,
    async run(open) {
      await using world = await open()
      await granted(world.limiter, request({ wanted: 10 }))
      assert.deepEqual(await granted(world.limiter, request({ wanted: 5, returned: 3 })), [3])
      assert.deepEqual(await granted(world.limiter, request({ wanted: 0, returned: 2 })), [0])
      assert.deepEqual(await granted(world.limiter, request({ wanted: 5 })), [2])
      assert.deepEqual(await granted(world.limiter, request({ wanted: 20, returned: 1000 })), [10])
      assert.deepEqual(await granted(world.limiter, request({ key: 'unknown', wanted: 20, returned: 5 })), [10])
    },
  },
  {
    name: 'a request that wants nothing takes nothing',
    async run(open) {
      await using world = await open()
      assert.deepEqual(await granted(world.limiter, request({ wanted: 0 })), [0])
      assert.deepEqual(await granted(world.limiter, request({ wanted: 10 })), [10])
    },
  },
  {
    name: 'keys have buckets of their own, and grants are in the order of the requests',
    basic: true,
    async run(open) {
      await using world = await open()
      await granted(world.limiter, request({ key: 'b', wanted: 7 }))
      const requests = ['c', 'b', 'a'].map((key, index) => request({ key, wanted: 10 - index }))
      assert.deepEqual(await granted(world.limiter, ...requests), [10, 3, 8])
      assert.deepEqual(await granted(world.limiter, ...requests), [0, 0, 2])
    },
  },
  {
    name: 'odd and similar keys are different keys',
    async run(open) {
      await using world = await open()
      for (const key of oddKeys)
        assert.deepEqual(await granted(world.limiter, request({ key, wanted: 10 })), [10], JSON.stringify(key.slice(0, 50)))
      assert.deepEqual(
        await granted(world.limiter, ...oddKeys.map((key) => request({ key }))),
        oddKeys.map(() => 0),
      )
    },
  },
  {
    name: 'one call serves many keys, or none',
    async run(open) {
      await using world = await open()
      const requests = Array.from({ length: 300 }, (_, index) => request({ key: `key ${index}`, wanted: (index % 12) + 1 }))
      const expected = requests.map(({ wanted }) => Math.min(10, wanted))
      assert.deepEqual(await granted(world.limiter, ...requests), expected)
      assert.deepEqual(await granted(world.limiter), [])
    },
  },
  {
    name: 'the latest rate of a key applies',
    async run(open) {
      await using world = await open()
      await granted(world.limiter, request({ wanted: 1 }))
      assert.deepEqual(await granted(world.limiter, request({ burst: 3, wanted: 10 })), [2])
      const [grant] = await take(world.limiter, request({ limit: 3600, burst: 3, wanted: 1 }))
      assert.ok(grant !== undefined && grant.retryAfter <= 1000, `the next permit comes in ${grant?.retryAfter} ms, at one per second`)
    },
  },
  {
    name: 'processes share the buckets',
    basic: true,
    async run(open) {
      await using world = await open()
      const other = await world.another()
      assert.deepEqual(await granted(world.limiter, request({ wanted: 6 })), [6])
      assert.deepEqual(await granted(other, request({ wanted: 6 })), [4])
      assert.deepEqual(await granted(world.limiter, request({ wanted: 1, returned: 2 })), [1])
      assert.deepEqual(await granted(other, request({ wanted: 6 })), [1])
    },
  },
  {
    name: 'concurrent calls of several processes get no more than there is',
    async run(open) {
      await using world = await open()
      const limiters = await processes(world.limiter, world.another)
      const calls = Array.from({ length: 60 }, (_, index) =>
        granted(limiters[index % limiters.length] ?? world.limiter, request({ burst: 100, wanted: 2 })),
      )
      const total = (await Promise.all(calls)).flat().reduce((sum, count) => sum + count, 0)
      assert.equal(total, 100)
    },
  },
  {
    name: 'concurrent calls for the same keys in other orders all end',
    async run(open) {
      await using world = await open()
      const limiters = await processes(world.limiter, world.another)
      const keys = Array.from({ length: 20 }, (_, index) => `key ${index}`)
      const both = [keys, keys.toReversed()].map((sorted) => sorted.map((key): RateRequest => request({ key, burst: 30, wanted: 1 })))
      const calls = Array.from({ length: 40 }, (_, index) =>
        granted(limiters[index % limiters.length] ?? world.limiter, ...(both[index % 2] ?? [])),
      )
      const total = (await Promise.all(calls)).flat().reduce((sum, count) => sum + count, 0)
      assert.equal(total, 30 * keys.length)
    },
  },
  {
    name: 'an invalid request is rejected, and takes nothing',
    async run(open) {
      await using world = await open()
      const invalid: readonly Partial<RateRequest>[] = [
        { key: '' },
        { wanted: -1 },
        { wanted: 0.5 },
        { returned: -1 },
        { limit: 0 },
        { interval: 0 },
        { burst: 0 },
        { limit: 1_000_000, interval: 1 },
      ]
      for (const part of invalid) {
        await assert.rejects(
          () => take(world.limiter, request({ key: 'valid', wanted: 5 }), request(part)),
          { code: 'ACKORD_INVALID_OPTION' },
          JSON.stringify(part),
        )
      }
      await assert.rejects(() => take(world.limiter, request(), request()), { code: 'ACKORD_INVALID_OPTION' }, 'the same key twice')
      assert.deepEqual(await granted(world.limiter, request({ key: 'valid', wanted: 10 }), request({ wanted: 10 })), [10, 10])
    },
  },
]

async function processes(first: RateLimiter, another: () => Promise<RateLimiter>): Promise<readonly RateLimiter[]> {
  return [first, await another(), await another()]
}
