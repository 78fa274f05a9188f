import { describe, expect, it } from 'vitest'
import { sleep } from '../../src/ports/runtime.ts'
import type { RouterOptions } from '../../src/router/router-options.ts'
import { MemoryWorld } from '../broker/memory/memory-world.ts'
import { deferred, FedSource, handling, openWorld, sourceOf, tracked, verdicts } from '../support/router-world.ts'
import { settlePromises } from '../support/virtual-runtime.ts'
import { ofTenants, rawOfTenant } from './fairness-world.ts'

const by = ({ subject }: { readonly subject: string | undefined }) => subject

/** A router whose handlers take `duration` milliseconds, and when each message began. */
function timed(options: RouterOptions, duration: (id: string) => number) {
  const world = openWorld(options)
  const began = new Map<string, number>()
  const order: string[] = []
  world.router.handle(
    handling(async ({ id = '' }) => {
      began.set(id, world.runtime.monotonic())
      order.push(id)
      await sleep(world.runtime, duration(id))
    }),
  )
  return { ...world, began, order }
}

describe('the shares of tenants', () => {
  it('lets tenants take turns within what was read', async () => {
    const { router, runtime, order } = timed({ fairness: { by } }, () => 10)
    const run = router.run(sourceOf(...ofTenants('aaaabbc')))
    await runtime.advance(100)
    await run
    expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4'])
  })

  it('handles ten messages among ten thousand of another tenant as they are read', async () => {
    const position = (index: number) => 50 + 10 * index
    const messages = [...'a'.repeat(10_000)]
    for (let index = 0; index < 10; index += 1) messages[position(index)] = 'b'
    async function lastOfB(fairness: RouterOptions['fairness']): Promise<number> {
      const { router, runtime, began } = timed({ concurrency: 4, fairness }, () => 100)
      const run = router.run(new FedSource(ofTenants(messages.join(''))))
      await runtime.advance(4000)
      const last = began.get('b10') ?? Infinity
      const stopped = router.stop()
      await runtime.advance(200)
      await Promise.all([run, stopped])
      return last
    }
    // The last one is the 141st message; 104 are read at once, and then one for each that ends.
    expect(await lastOfB({ by })).toBeLessThanOrEqual(1000)
    expect(await lastOfB(undefined)).toBeGreaterThanOrEqual(3400)
  })

  it('starts the message of the tenant with the fewest running ones, so that slow handlers do not fill the slots', async () => {
    const { router, runtime, began } = timed({ concurrency: 4, fairness: { by } }, (id) => (id.startsWith('a') ? 10_000 : 10))
    const source = new FedSource(ofTenants('a'.repeat(50)))
    const run = router.run(source)
    await runtime.advance(5000)
    source.push(...ofTenants('b'.repeat(20)))
    source.end()
    await runtime.advance(5200)
    // From when the first slot is free, one of the four is for the fast tenant.
    expect(began.get('b20')).toBeLessThanOrEqual(10_200)
    await runtime.advance(200_000)
    await run
  })

  it('treats messages without a tenant as those of one more tenant, without limits', async () => {
    const { router, runtime, order } = timed({ fairness: { by, concurrency: 1, rate: 1 } }, () => 10)
    const run = router.run(sourceOf(...ofTenants('aab'), tracked('x1'), tracked('x2'), tracked('x3')))
    await runtime.advance(100)
    expect(order.toSorted()).toEqual(['a1', 'b1', 'x1', 'x2', 'x3'])
    await runtime.advance(2000)
    await run
  })

  it('keeps the order of each tenant with a concurrency of 1', async () => {
    const { router, runtime, order } = timed({ fairness: { by } }, () => 1)
    const run = router.run(sourceOf(...ofTenants('abcabcccbbaa')))
    await runtime.advance(100)
    await run
    for (const tenant of 'abc') {
      const own = order.filter((id) => id.startsWith(tenant))
      expect(own).toEqual(own.toSorted((one, other) => Number(one.slice(1)) - Number(other.slice(1))))
    }
  })

  it('reports the waiting tenants', async () => {
    const { router, runtime } = timed({ concurrency: 2, fairness: { by } }, () => 10)
    const run = router.run(sourceOf(...ofTenants('aaabbbcd')))
    await settlePromises()
    expect(router.health()).toMatchObject({ inFlight: 2, queued: 6, waitingTenants: 4 })
    await runtime.advance(100)
    await run
    expect(router.health()).toMatchObject({ inFlight: 0, queued: 0, waitingTenants: 0 })
  })

  it('reads no more than the slots and the buffer', async () => {
    const { router, runtime } = timed({ concurrency: 2, buffer: 3, fairness: { by } }, () => 10)
    const source = new FedSource(ofTenants('aaaaaaaaaa'))
    const run = router.run(source)
    await settlePromises()
    expect(source.pulls).toBe(5)
    source.end()
    await runtime.advance(100)
    await run
  })

  it('nacks a message whose tenant cannot be determined, and continues', async () => {
    const { router, runtime, order } = timed(
      {
        fairness: {
          by({ subject }) {
            if (subject === 'x') throw new Error('no tenant')
            return subject === 'y' ? '' : subject
          },
        },
      },
      () => 10,
    )
    const inputs = ofTenants('axya')
    const run = router.run(sourceOf(...inputs))
    await runtime.advance(100)
    await run
    expect(inputs.map(verdicts)).toEqual([['ack'], ['nack'], ['nack'], ['ack']])
    expect(order).toEqual(['a1', 'a2'])
  })
})

describe('the concurrency of a tenant', () => {
  it('is limited, and others use the other slots', async () => {
    const { router, runtime, began } = timed({ concurrency: 4, fairness: { by, concurrency: 2 } }, () => 100)
    const run = router.run(sourceOf(...ofTenants('aaaabb')))
    await runtime.advance(50)
    expect([...began.keys()]).toEqual(['a1', 'a2', 'b1', 'b2'])
    await runtime.advance(1000)
    await run
    expect([began.get('a3'), began.get('a4')]).toEqual([100, 100])
  })

  it('may depend on the tenant', async () => {
    const concurrency = (tenant: string) => (tenant === 'a' ? 1 : undefined)
    const { router, runtime, began } = timed({ concurrency: 4, fairness: { by, concurrency } }, () => 100)
    const run = router.run(sourceOf(...ofTenants('aaabbb')))
    await runtime.advance(1000)
    await run
    expect(['a1', 'a2', 'a3', 'b1', 'b2', 'b3'].map((id) => began.get(id))).toEqual([0, 100, 200, 0, 0, 0])
  })

  it('nacks a message for which the function of the limits fails', async () => {
    const concurrency = (tenant: string) => {
      if (tenant === 'a') throw new Error('unknown')
      return tenant === 'b' ? 0 : 1
    }
    const { router, runtime } = timed({ concurrency: 4, fairness: { by, concurrency } }, () => 100)
    const inputs = ofTenants('abc')
    const run = router.run(sourceOf(...inputs))
    await runtime.advance(1000)
    await run
    expect(inputs.map(verdicts)).toEqual([['nack'], ['nack'], ['ack']])
  })

  it('waits with an ordering key until the tenant of the next message of the key has a slot', async () => {
    const { router, runtime, began } = timed({ concurrency: 4, orderingKey: 'partitionkey', fairness: { by, concurrency: 1 } }, () => 100)
    const keyed = (id: string, subject: string, partitionkey: string) => tracked(id, { attributes: { subject, partitionkey } })
    const run = router.run(sourceOf(keyed('m1', 'a', 'k'), keyed('m2', 'b', 'k'), keyed('m3', 'b', 'l'), keyed('m4', 'a', 'l')))
    await runtime.advance(1000)
    await run
    expect([...began]).toEqual([
      ['m1', 0],
      ['m3', 0],
      ['m2', 100],
      ['m4', 100],
    ])
  })
})

describe('a stop', () => {
  it('nacks the messages that wait, once each, and leaves no timer', async () => {
    const { router, runtime } = timed({ concurrency: 2, fairness: { by, rate: 1 } }, () => 100)
    const inputs = ofTenants('aaaabbbbcccc')
    const run = router.run(new FedSource(inputs))
    await runtime.advance(50)
    const stopped = router.stop()
    await runtime.advance(100)
    await Promise.all([run, stopped])
    const counts = inputs.flatMap(verdicts).toSorted()
    expect(counts).toEqual([...Array(2).fill('ack'), ...Array(10).fill('nack')])
    expect(inputs.every(({ calls }) => calls.length === 1)).toBe(true)
    expect(runtime.timers).toBe(0)
  })

  it('may be followed by another run', async () => {
    await using world = new MemoryWorld()
    const { router } = openWorld({ runtime: world.runtime, concurrency: 2, fairness: { by, concurrency: 1 } })
    const seen: unknown[] = []
    const gate = deferred()
    router.handle(
      handling(async ({ id }) => {
        seen.push(id)
        await gate.promise
      }),
    )
    await world.broker.publish('orders', [...rawOfTenant('a', 5), ...rawOfTenant('b', 5)])
    const source = world.broker.source('orders')
    const first = router.run(source)
    await settlePromises()
    const stopped = router.stop()
    gate.resolve()
    await Promise.all([first, stopped])
    const second = router.run(source)
    await world.broker.idle('orders')
    await router.stop()
    await second
    expect(new Set(seen).size).toBe(10)
    expect(seen).toHaveLength(10)
  })
})

describe('the options', () => {
  const invalid: readonly [string, unknown][] = [
    ['fairness', null],
    ['fairness.by', {}],
    ['fairness', { by, tenant: 1 }],
    ['fairness.concurrency', { by, concurrency: 0 }],
    ['fairness.concurrency', { by, concurrency: '2' }],
    ['fairness.rate.limit', { by, rate: 0 }],
    ['fairness.rate.limit', { by, rate: { limit: 0.5, interval: 1000 } }],
    ['fairness.rate.interval', { by, rate: { limit: 1 } }],
    ['fairness.rate', { by, rate: { limit: 1, interval: 1000, per: 'day' } }],
    ['fairness.rate', { by, rate: 1_000_000 }],
    ['fairness.rate', { by, rate: 'fast' }],
    ['fairness.rate.burst', { by, rate: { limit: 1, interval: 1000, burst: 0 } }],
    ['fairness.limiter', { by, limiter: { take() {} } }],
    ['fairness.limiter.take', { by, rate: 1, limiter: {} }],
    ['fairness.limiterTimeout', { by, rate: 1, limiterTimeout: 0 }],
    ['fairness.onLimiterFailure', { by, rate: 1, onLimiterFailure: 'ignore' }],
    ['fairness.maxWaiting', { by, maxWaiting: 0 }],
    ['fairness.maxWaiting', { by, maxWaiting: 101 }],
    ['fairness.excess', { by, excess: 'drop' }],
    ['fairness.maxReturns', { by, maxReturns: 0 }],
  ]
  it.each(invalid)('rejects an invalid %s: %j', (option, fairness) => {
    // As a program in JavaScript may pass it.
    const create = () => openWorld({ fairness: fairness as RouterOptions['fairness'] })
    expect(create).toThrow(
      expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringMatching(new RegExp(`^${option}\\b`)) }),
    )
  })

  it('needs a buffer', () => {
    expect(() => openWorld({ buffer: 0, fairness: { by } })).toThrow(/^buffer must be 1 or more/)
  })
})
