import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { FairnessOptions } from '../../src/fairness/fairness-options.ts'
import { sleep } from '../../src/ports/runtime.ts'
import { MemoryWorld } from '../broker/memory/memory-world.ts'
import { handling, openWorld, tracked } from '../support/router-world.ts'

const step = fc.record({
  tenant: fc.constantFrom('a', 'a', 'a', 'b', 'c', undefined),
  key: fc.constantFrom('k', 'l', undefined),
  duration: fc.integer({ min: 0, max: 1500 }),
  /** At the first delivery. */
  outcome: fc.constantFrom('ok', 'ok', 'ok', 'nack'),
})

const scenario = fc.record({
  steps: fc.array(step, { maxLength: 40 }),
  concurrency: fc.integer({ min: 1, max: 5 }),
  buffer: fc.integer({ min: 1, max: 12 }),
  perTenant: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
  rate: fc.option(
    fc.record({ limit: fc.integer({ min: 1, max: 8 }), interval: fc.constantFrom(1000, 5000), burst: fc.integer({ min: 1, max: 4 }) }),
    {
      nil: undefined,
    },
  ),
  excess: fc.constantFrom('return', 'wait'),
  ordered: fc.boolean(),
  stops: fc.array(fc.integer({ min: 0, max: 6000 }), { maxLength: 3 }),
})

it('loses, repeats and reorders no message of a key, and keeps all limits, under any options, nacks and stops', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async ({ steps, concurrency, buffer, perTenant, rate, excess, ordered, stops }) => {
      await using world = new MemoryWorld()
      const { runtime } = world
      const fairness: FairnessOptions = {
        by: ({ subject }) => subject,
        concurrency: perTenant,
        rate,
        excess: excess as 'return' | 'wait',
        maxWaiting: Math.max(1, Math.floor(buffer / 3)),
        maxReturns: Infinity,
      }
      const { router } = openWorld({
        runtime,
        concurrency,
        buffer,
        orderingKey: ordered ? 'partitionkey' : undefined,
        redeliveryDelay: () => 300,
        fairness,
      })
      const handled: number[] = []
      const failed = new Set<number>()
      const running = new Map<string | undefined, number>()
      const began = new Map<string, number[]>()
      let all = 0
      router.handle(
        handling(async ({ id, subject }) => {
          const index = Number(id)
          const { duration = 0, outcome } = steps[index] ?? {}
          const own = (running.get(subject) ?? 0) + 1
          running.set(subject, own)
          all += 1
          expect(all).toBeLessThanOrEqual(concurrency)
          if (subject !== undefined) {
            expect(own).toBeLessThanOrEqual(perTenant ?? Infinity)
            began.set(subject, [...(began.get(subject) ?? []), runtime.monotonic()])
          }
          await sleep(runtime, duration)
          running.set(subject, (running.get(subject) ?? 0) - 1)
          all -= 1
          if (outcome === 'nack' && !failed.has(index)) {
            failed.add(index)
            throw new Error('broken')
          }
          handled.push(index)
        }),
      )
      const messages = steps.map(({ tenant, key }, index) => {
        const attributes = { ...(tenant !== undefined && { subject: tenant }), ...(key !== undefined && { partitionkey: key }) }
        return tracked(`${index}`, { attributes }).message
      })
      await world.broker.publish('orders', messages)
      const source = world.broker.source('orders', { orderPerKey: ordered, prefetch: 40 })
      for (const stopAfter of [...stops, undefined]) {
        const run = router.run(source)
        await runtime.advance(stopAfter ?? 400_000)
        const stopped = router.stop()
        await runtime.advance(2000)
        await Promise.all([run, stopped])
        expect(router.health()).toMatchObject({ inFlight: 0, queued: 0, waitingTenants: 0 })
      }

      expect(handled.toSorted((one, other) => one - other)).toEqual(steps.map((_, index) => index))
      for (const key of ordered ? ['k', 'l'] : []) {
        const own = handled.filter((index) => steps[index]?.key === key)
        expect(own).toEqual(own.toSorted((one, other) => one - other))
      }
      if (rate !== undefined) {
        for (const times of began.values()) {
          for (const [first, from] of times.entries()) {
            const allowed = (to: number) => rate.burst + ((to - from + 1000) * rate.limit) / rate.interval
            for (let last = first; last < times.length; last += 1)
              expect(last - first + 1).toBeLessThanOrEqual(allowed(times[last] ?? 0) + 0.01)
          }
        }
      }
    }),
    { numRuns: 60, seed: 20261119 },
  )
}, 60_000)
