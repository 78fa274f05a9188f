import { Router, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { type ChaosMiddlewareOptions, createChaos } from '../../src/helpers/chaos.ts'
import { sourceOf, trackedMessage } from '../../src/helpers/tracked-message.ts'
import { VirtualRuntime } from '../../src/helpers/virtual-runtime.ts'
import { MemoryStore, orderRouter } from '../support/memory-orders.ts'

const calm = { failBefore: 0, failAfter: 0, duplicate: 0, delay: 0 }

/** The outcome of each message: how often it was handled, and its verdict. */
async function fatesOf(options: ChaosMiddlewareOptions, concurrency: number, count = 200) {
  const handled = new Map<string, number>()
  const chaos = createChaos(options)
  const router = new Router({ concurrency, logger: silentLogger }).use(chaos.middleware).handle({
    type: 'order.place',
    async handle({ id = '' }) {
      handled.set(id, (handled.get(id) ?? 0) + 1)
      return []
    },
  })
  const messages = Array.from({ length: count }, (_, index) => trackedMessage(`m-${index}`))
  await router.run(sourceOf(...messages))
  return { chaos, fates: messages.map(({ message, verdicts }) => `${message.id} ${verdicts.join()} ${handled.get(message.id ?? '') ?? 0}`) }
}

describe('createChaos', () => {
  it('repeats its faults for the same seed, however many messages run concurrently, and differs for another seed', async () => {
    const one = await fatesOf({ seed: 7, maxDelay: 2 }, 1)
    const other = await fatesOf({ seed: 7, maxDelay: 2 }, 16)
    expect(other.fates).toEqual(one.fates)
    expect(other.chaos.counts).toEqual(one.chaos.counts)
    for (const count of Object.values(one.chaos.counts)) expect(count).toBeGreaterThan(0)
    expect((await fatesOf({ seed: 8, maxDelay: 2 }, 1)).fates).not.toEqual(one.fates)
  })

  it.each([
    ['failBefore', 'nack 0', 'failedBefore'],
    ['failAfter', 'nack 1', 'failedAfter'],
    ['duplicate', 'ack 2', 'duplicated'],
  ] as const)('%s: each message has the fate "%s", and is counted', async (option, fate, counted) => {
    const { fates, chaos } = await fatesOf({ seed: 1, ...calm, [option]: 1 }, 1, 3)
    expect(fates).toEqual([0, 1, 2].map((index) => `m-${index} ${fate}`))
    expect(chaos.counts).toEqual({ failedBefore: 0, failedAfter: 0, duplicated: 0, delayed: 0, [counted]: 3 })
  })

  it('delays by the clock of the runtime', async () => {
    const runtime = new VirtualRuntime()
    const running = fatesOf({ seed: 1, ...calm, delay: 1, maxDelay: 1000, runtime }, 1, 1)
    await runtime.advance(0)
    expect(runtime.timers).toBe(1)
    await runtime.advance(1000)
    expect((await running).fates).toEqual(['m-0 ack 1'])
  })

  it('decides anew at each delivery of a message, and a handler with an inbox tolerates it', async () => {
    const store = new MemoryStore()
    const chaos = createChaos({ seed: 3, failBefore: 0.3, failAfter: 0.3, duplicate: 0.3, delay: 0 })
    for (let number = 0; number < 50; number += 1) {
      for (let done = false; !done; ) {
        const order = trackedMessage(`m-${number}`, { data: { orderId: `o-${number}` } })
        await orderRouter(store, chaos.middleware).run(sourceOf(order))
        done = order.verdicts[0] === 'ack'
      }
    }
    expect(
      store
        .executor()
        .entries()
        .map(([, count]) => count),
    ).toEqual(Array.from({ length: 50 }, () => 1))
    expect((await store.outbox.stats()).destinations).toMatchObject([{ ready: 50 }])
    for (const kind of ['failedBefore', 'failedAfter', 'duplicated'] as const) expect(chaos.counts[kind]).toBeGreaterThan(5)
  })

  it('refuses a position inside of a transaction, where a duplicate would not be recognised as one', async () => {
    const store = new MemoryStore()
    const router = new Router({ logger: silentLogger })
      .use(store.transactional({ consumer: 'orders', destination: 'events' }), createChaos({ seed: 1 }).middleware)
      .handle({ type: 'order.place', handle: async () => [] })
    await expect(router.run(sourceOf())).rejects.toMatchObject({ code: 'ACKORD_MIDDLEWARE_ORDER' })
  })

  it('rejects invalid options', () => {
    expect(() => createChaos({ seed: 1, failAfter: 2 })).toThrow('failAfter must be a number from 0 to 1')
    expect(() => createChaos({ seed: -1 })).toThrow('seed must be a whole number')
    // @ts-expect-error a caller without types
    expect(() => createChaos({ seed: 1, probability: 1 })).toThrow("createChaos() has no option 'probability'")
  })
})
