import { describe, expect, it } from 'vitest'
import { memoryRateLimiter } from '../../src/fairness/memory-rate-limiter.ts'
import { PermitLease, Permits } from '../../src/fairness/permits.ts'
import { silentLogger } from '../../src/ports/observability.ts'
import { sleep } from '../../src/ports/runtime.ts'
import type { RouterOptions } from '../../src/router/router-options.ts'
import { MemoryWorld } from '../broker/memory/memory-world.ts'
import { handling, openWorld, sourceOf } from '../support/router-world.ts'
import { settlePromises, VirtualRuntime } from '../support/virtual-runtime.ts'
import { ofTenants, rawOfTenant, TestLimiter } from './fairness-world.ts'

const by = ({ subject }: { readonly subject: string | undefined }) => subject

type Fairness = NonNullable<RouterOptions['fairness']>

/** A router, and when each of its messages began, with a limiter whose calls are counted. */
function limited(
  { concurrency = 16, ...fairness }: Partial<Omit<Fairness, 'concurrency'>> & { readonly concurrency?: number },
  duration = 1,
) {
  const runtime = new VirtualRuntime()
  const limiter = new TestLimiter(runtime)
  const world = openWorld({ runtime, concurrency, buffer: 1000, fairness: { by, limiter, maxWaiting: 1000, ...fairness } })
  const began: { readonly tenant: string; readonly at: number }[] = []
  world.router.handle(
    handling(async ({ subject = '' }) => {
      began.push({ tenant: subject, at: runtime.monotonic() })
      await sleep(runtime, duration)
    }),
  )
  return { ...world, runtime, limiter, began }
}

/** The largest number of messages that began in a period of this length. */
function most(times: readonly number[], period: number): number {
  return Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + period).length))
}

describe('the rate of a tenant', () => {
  it('is not exceeded, and is reached', async () => {
    const { router, runtime, began } = limited({ rate: { limit: 20, interval: 1000, burst: 5 } })
    const run = router.run(sourceOf(...ofTenants('a'.repeat(105) + 'b'.repeat(5))))
    await runtime.advance(5100)
    const times = began.filter(({ tenant }) => tenant === 'a').map(({ at }) => at)
    expect(times.length).toBeGreaterThanOrEqual(100)
    expect(most(times, 1000)).toBeLessThanOrEqual(25)
    expect(most(times, 3000)).toBeLessThanOrEqual(65)
    // Another tenant has its own rate.
    expect(began.filter(({ tenant, at }) => tenant === 'b' && at < 10)).toHaveLength(5)
    await runtime.advance(1000)
    await run
    expect(began).toHaveLength(110)
  })

  it('may depend on the tenant, and may be per minute', async () => {
    const rate = (tenant: string) => (tenant === 'a' ? { limit: 6, interval: 60_000, burst: 1 } : undefined)
    const { router, runtime, began } = limited({ rate })
    const run = router.run(sourceOf(...ofTenants('aaabbb')))
    await runtime.advance(30_000)
    await run
    const times = began.filter(({ tenant }) => tenant === 'a').map(({ at }) => Math.round(at / 1000))
    expect(times).toEqual([0, 10, 20])
  })

  it('takes effect when the function returns another one', async () => {
    let limit: number | undefined = 1
    const { router, runtime, began } = limited({ rate: () => limit })
    const run = router.run(sourceOf(...ofTenants('aaaaaaaaaa')))
    await runtime.advance(2500)
    expect(began).toHaveLength(3)
    limit = undefined
    // The limits are read when messages arrive, and the source has ended: this one keeps its rate.
    await runtime.advance(10_000)
    await run
    expect(began).toHaveLength(10)
  })

  it('takes permits in leases: one call of the limiter serves many messages', async () => {
    const { router, runtime, limiter, began } = limited({ rate: 1000 })
    const run = router.run(sourceOf(...ofTenants('abcdefghij'.repeat(200))))
    await runtime.advance(10_000)
    await run
    expect(began).toHaveLength(2000)
    expect(limiter.calls.length).toBeLessThan(100)
  })

  it('asks about ten times per second while tenants wait', async () => {
    const { router, runtime, limiter, began } = limited({ rate: { limit: 100, interval: 1000, burst: 100 } })
    const run = router.run(sourceOf(...ofTenants('abc'.repeat(300))))
    await runtime.advance(1000)
    expect(began.length).toBeGreaterThan(500)
    const before = limiter.calls.length
    await runtime.advance(1000)
    expect(limiter.calls.length - before).toBeLessThanOrEqual(22)
    await runtime.advance(2000)
    await run
  })

  it('returns the permits that are not used within a second', async () => {
    const runtime = new VirtualRuntime()
    const limiter = new TestLimiter(runtime)
    const permits = new Permits({
      limiter,
      limiterTimeout: 1000,
      onLimiterFailure: 'open',
      concurrency: 5,
      onGranted: () => {},
      runtime,
      logger: silentLogger,
      metrics: undefined,
    })
    const owner = { lease: new PermitLease('a'), rate: { limit: 10, interval: 3_600_000, burst: 10 }, waiting: 5 }
    expect(permits.take(owner)).toBe(false)
    await settlePromises()
    expect([permits.take(owner), permits.take(owner)]).toEqual([true, true])
    expect(permits.isIdle(owner)).toBe(false)
    await runtime.advance(1100)
    expect(limiter.calls.map((calls) => calls.map(({ wanted, returned }) => [wanted, returned]))).toEqual([[[5, 0]], [[0, 3]]])
    expect(permits.isIdle(owner)).toBe(true)
    expect(runtime.timers).toBe(0)
  })

  it('is shared by routers with the same limiter', async () => {
    const runtime = new VirtualRuntime()
    const limiter = memoryRateLimiter({ runtime })
    const times: number[] = []
    const runs = [0, 1].map(() => {
      const { router } = openWorld({
        runtime,
        concurrency: 8,
        fairness: { by, rate: { limit: 20, interval: 1000, burst: 4 }, limiter, maxWaiting: 100 },
      })
      router.handle(handling(() => void times.push(runtime.monotonic())))
      return router.run(sourceOf(...ofTenants('a'.repeat(40))))
    })
    await runtime.advance(3000)
    expect(times.length).toBeLessThanOrEqual(4 + 60)
    expect(times.length).toBeGreaterThanOrEqual(55)
    await runtime.advance(2000)
    await Promise.all(runs)
    expect(times).toHaveLength(80)
  })
})

describe('a limiter that fails', () => {
  const rate = { limit: 10, interval: 1000, burst: 10 }

  it.each(['fails', 'nonsense'] as const)('is replaced by the rates of this router, with one warning: %s', async (mode) => {
    const { router, runtime, limiter, began, logger } = limited({ rate })
    limiter.mode = mode
    const run = router.run(sourceOf(...ofTenants('a'.repeat(60))))
    await runtime.advance(3000)
    expect(began.length).toBeGreaterThanOrEqual(37)
    expect(began.length).toBeLessThanOrEqual(40)
    expect(logger.at('warn')).toHaveLength(1)
    limiter.mode = 'works'
    await runtime.advance(12_000)
    await run
    expect(logger.at('info')).toHaveLength(1)
    expect(began).toHaveLength(60)
  })

  it('delays no message for longer than its time limit, however often it hangs', async () => {
    const { router, runtime, limiter, began, logger } = limited({ rate, limiterTimeout: 500 })
    limiter.mode = 'hangs'
    const run = router.run(sourceOf(...ofTenants('a'.repeat(50))))
    await runtime.advance(600)
    expect(began.length).toBeGreaterThanOrEqual(10)
    await runtime.advance(4100)
    await run
    expect(began).toHaveLength(50)
    expect(logger.at('warn')).toHaveLength(1)
    expect(runtime.timers).toBe(0)
  })

  it('stops messages with a rate where asked, and others continue', async () => {
    const { router, runtime, limiter, began } = limited({
      rate: (tenant) => (tenant === 'a' ? rate : undefined),
      onLimiterFailure: 'closed',
    })
    limiter.mode = 'fails'
    const run = router.run(sourceOf(...ofTenants('aaabbb')))
    await runtime.advance(5000)
    expect(began.map(({ tenant }) => tenant)).toEqual(['b', 'b', 'b'])
    expect(limiter.calls.length).toBeLessThan(10)
    limiter.mode = 'works'
    await runtime.advance(11_000)
    await run
    expect(began).toHaveLength(6)
  })

  it('does not delay a stop', async () => {
    const { router, runtime, limiter } = limited({ rate })
    limiter.mode = 'hangs'
    const run = router.run(sourceOf(...ofTenants('aaa')))
    await settlePromises()
    const stopped = router.stop()
    await settlePromises()
    await Promise.all([run, stopped])
    expect(runtime.timers).toBe(0)
  })
})

describe('messages beyond the window', () => {
  it('are returned with a delay until about their turn, so that tenants behind them are handled', async () => {
    await using world = new MemoryWorld()
    const { runtime } = world
    const counts = new Map<string, number>()
    const { router } = openWorld({
      runtime,
      concurrency: 8,
      metrics: { count: (name, amount) => void counts.set(name, (counts.get(name) ?? 0) + amount), observe() {}, gauge() {} },
      fairness: { by, rate: { limit: 20, interval: 1000, burst: 20 } },
    })
    const began: { readonly tenant: string; readonly at: number }[] = []
    router.handle(handling(({ subject = '' }) => void began.push({ tenant: subject, at: runtime.monotonic() })))
    await world.broker.publish('orders', [...rawOfTenant('a', 2000), ...rawOfTenant('b', 10)])
    const run = router.run(world.broker.source('orders', { prefetch: 200 }))
    await runtime.advance(1000)
    expect(began.filter(({ tenant }) => tenant === 'b')).toHaveLength(10)
    expect(began.filter(({ tenant }) => tenant === 'a').length).toBeLessThanOrEqual(41)

    await runtime.advance(104_000)
    await world.broker.idle('orders')
    expect(began.filter(({ tenant }) => tenant === 'a')).toHaveLength(2000)
    // Each comes back at about its turn, and hardly any a second time.
    expect(counts.get('ackord.fairness.returned')).toBeLessThanOrEqual(2500)
    await router.stop()
    await run
    expect(runtime.timers).toBe(0)
  })

  it('are returned at a limit of the concurrency, too, once it shows that they would wait for long', async () => {
    await using world = new MemoryWorld()
    const { runtime } = world
    const { router } = openWorld({ runtime, concurrency: 8, buffer: 20, fairness: { by, concurrency: 2 } })
    const began: { readonly tenant: string; readonly at: number }[] = []
    router.handle(
      handling(async ({ subject = '' }) => {
        began.push({ tenant: subject, at: runtime.monotonic() })
        await sleep(runtime, subject === 'a' ? 2000 : 1)
      }),
    )
    await world.broker.publish('orders', [...rawOfTenant('a', 200), ...rawOfTenant('b', 10)])
    const run = router.run(world.broker.source('orders', { prefetch: 100 }))
    await runtime.advance(1500)
    expect(began.filter(({ tenant }) => tenant === 'b')).toHaveLength(10)
    await runtime.advance(400_000)
    await world.broker.idle('orders')
    expect(began.filter(({ tenant }) => tenant === 'a')).toHaveLength(200)
    await router.stop()
    await run
  })

  it('are kept if they would wait for less than a second', async () => {
    await using world = new MemoryWorld()
    const { runtime } = world
    const { router } = openWorld({ runtime, concurrency: 8, fairness: { by, concurrency: 4 } })
    const deliveries: unknown[] = []
    router.handle(
      handling(async ({ deliveryCount }) => {
        deliveries.push(deliveryCount)
        await sleep(runtime, 10)
      }),
    )
    await world.broker.publish('orders', rawOfTenant('a', 1000))
    const run = router.run(world.broker.source('orders', { prefetch: 200 }))
    await runtime.advance(3000)
    expect(deliveries).toEqual(Array(1000).fill(1))
    await router.stop()
    await run
  })

  it('wait where asked, and when they were returned often', async () => {
    for (const fairness of [{ excess: 'wait' }, { maxReturns: 2 }] as const) {
      await using world = new MemoryWorld()
      const { runtime } = world
      const { router } = openWorld({
        runtime,
        concurrency: 8,
        buffer: 20,
        fairness: { by, rate: { limit: 1, interval: 60_000, burst: 1 }, ...fairness },
      })
      const most = new Map<unknown, number>()
      router.handle(handling(() => {}))
      await world.broker.publish('orders', rawOfTenant('a', 60))
      const source = world.broker.source('orders')
      const counting = {
        async *messages(options: { readonly signal: AbortSignal }) {
          for await (const message of source.messages(options)) {
            most.set(message.id, message.deliveryCount ?? 0)
            yield message
          }
        },
      }
      const run = router.run(counting)
      await runtime.advance(3_600_000)
      expect(Math.max(...most.values())).toBeLessThanOrEqual('excess' in fairness ? 1 : 3)
      await router.stop()
      await run
    }
  })

  it('wait for a minute when it shows that the broker has no delays, so that there is no hot loop', async () => {
    await using world = new MemoryWorld()
    const { runtime } = world
    const { router, logger } = openWorld({
      runtime,
      concurrency: 8,
      buffer: 20,
      fairness: { by, rate: { limit: 1, interval: 60_000, burst: 1 }, maxReturns: Infinity },
    })
    router.handle(handling(() => {}))
    await world.broker.publish('orders', rawOfTenant('a', 30))
    const source = world.broker.source('orders')
    let read = 0
    const ignoring = {
      async *messages(options: { readonly signal: AbortSignal }) {
        for await (const message of source.messages(options)) {
          read += 1
          const nack = message.nack.bind(message)
          yield Object.assign(message, { nack: (error: unknown) => nack(error) })
        }
      },
    }
    const run = router.run(ignoring)
    await runtime.advance(600_000)
    expect(read).toBeGreaterThan(50)
    expect(read).toBeLessThan(1000)
    expect(logger.at('warn')).toHaveLength(1)
    await router.stop()
    await run
  })
})
