import { getEventListeners } from 'node:events'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Context } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { sleep } from '../../src/ports/runtime.ts'
import type { AckStrategy } from '../../src/router/ack-strategy.ts'
import { handling, openWorld, placed, recordingPublisher, tracked } from '../support/router-world.ts'

/** Counts the listeners that are on a signal. */
function counted(signal: AbortSignal): { readonly listeners: number } {
  const count = { listeners: getEventListeners(signal, 'abort').length }
  const add = signal.addEventListener.bind(signal)
  const remove = signal.removeEventListener.bind(signal)
  signal.addEventListener = ((...parameters: Parameters<typeof add>) => {
    count.listeners += 1
    add(...parameters)
  }) as typeof add
  signal.removeEventListener = ((...parameters: Parameters<typeof remove>) => {
    count.listeners -= 1
    remove(...parameters)
  }) as typeof remove
  return count
}

describe('many messages', () => {
  it.each<[AckStrategy, number]>([
    ['onSuccess', 1],
    ['onSuccess', 8],
    ['forward', 8],
  ])('leave no listener and no timer behind (%s, concurrency %i)', async (ackStrategy, concurrency) => {
    const { router, runtime } = openWorld({
      ackStrategy,
      concurrency,
      orderingKey: 'partitionkey',
      processTimeout: 1000,
      onError: () => 'nack',
    })
    const total = 20_000
    let acked = 0
    let nacked = 0
    const acking = {
      ack() {
        acked += 1
      },
      nack() {
        nacked += 1
      },
      reject() {},
    }
    async function* messages() {
      for (let index = 0; index < total; index += 1) {
        const attributes = { id: `${index}`, type: 'order.place', source: '/shop', partitionkey: `k${index % 5}` }
        yield new Message(new TextEncoder().encode('{}'), attributes, { acking })
      }
    }
    const { signal } = new AbortController()
    const outer = counted(signal)
    let first: { readonly listeners: number } | undefined
    let mostTimers = 0
    const publisher = recordingPublisher(async (call) => {
      first ??= counted(call.signal)
      publisher.calls.length = 0
      return call.messages.map(() => ({ ok: true }))
    })
    router.handle(
      handling(({ id }) => {
        mostTimers = Math.max(mostTimers, runtime.timers)
        if (Number(id) % 100 === 0) throw new Error('now and then')
        return [placed(id)]
      }),
      { concurrency: 2 },
    )
    const run = router.run({ messages }, { publisher, destination: 'orders', signal })
    expect(outer.listeners).toBe(1)
    await run
    expect(acked + nacked).toBe(total)
    expect(nacked).toBeGreaterThanOrEqual(total / 100)
    expect(outer.listeners).toBe(0)
    expect(first?.listeners).toBe(0)
    expect(runtime.timers).toBe(0)
    expect(mostTimers).toBeLessThanOrEqual(concurrency)
    expect(router.health()).toMatchObject({ state: 'idle', inFlight: 0, queued: 0 })
  })
})

describe('whatever happens', () => {
  it('settles every message that was read exactly once, and acks none whose outputs were not confirmed', async () => {
    const step = fc.record({
      duration: fc.integer({ min: 0, max: 15 }),
      outputs: fc.integer({ min: 0, max: 3 }),
      handler: fc.constantFrom('ok', 'ok', 'ok', 'throw', 'nack', 'reject', 'ack', 'hang', 'garbage'),
      publish: fc.constantFrom('ok', 'ok', 'ok', 'half', 'permanent', 'throw', 'hang', 'short'),
      broker: fc.constantFrom('ok', 'ok', 'throw', 'reject', 'slow'),
      key: fc.constantFrom('a', 'b', undefined),
    })
    const scenario = fc.record({
      steps: fc.array(step, { maxLength: 15 }),
      ackStrategy: fc.constantFrom<AckStrategy[]>('onSuccess', 'forward'),
      concurrency: fc.integer({ min: 1, max: 3 }),
      ordered: fc.boolean(),
      processTimeout: fc.constantFrom(10, Infinity),
      shutdownTimeout: fc.constantFrom(0, 20),
      sourceFailsAt: fc.option(fc.integer({ min: 0, max: 15 }), { nil: undefined }),
      stopAt: fc.integer({ min: 0, max: 150 }),
    })
    await fc.assert(
      fc.asyncProperty(scenario, async ({ steps, sourceFailsAt, stopAt, ordered, ...options }) => {
        const { router, runtime } = openWorld({ ...options, orderingKey: ordered ? 'partitionkey' : undefined })
        const confirmed = new Map<string, number>()
        const expected = new Map<string, number>()
        const inputs = steps.map(({ broker, key }, index) =>
          tracked(`${index}`, {
            attributes: key === undefined ? {} : { partitionkey: key },
            answer() {
              if (broker === 'throw') throw new Error('broker')
              if (broker === 'reject') return Promise.reject(new Error('broker'))
              return broker === 'slow' ? sleep(runtime, 7) : undefined
            },
          }),
        )
        let read = 0
        async function* messages({ signal }: { signal: AbortSignal }) {
          for (const { message } of inputs) {
            if (signal.aborted) return
            if (read === sourceFailsAt) throw new Error('source')
            read += 1
            yield message
          }
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
        }
        const hang = (signal: AbortSignal) =>
          new Promise<never>((_resolve, reject) => {
            if (signal.aborted) reject(signal.reason)
            signal.addEventListener('abort', () => reject(signal.reason))
          })
        router.handle(
          handling(async (message: Message, context: Context) => {
            const { duration = 0, outputs = 0, handler } = steps[Number(message.id)] ?? {}
            if (duration > 0) await sleep(runtime, duration)
            if (handler === 'throw') throw new Error('handler')
            if (handler === 'hang') await hang(context.signal)
            if (handler === 'garbage') return [null]
            if (handler === 'nack' || handler === 'reject' || handler === 'ack') await message[handler](undefined).catch(() => {})
            if (handler === 'ok') expected.set(message.id ?? '', outputs)
            return Array.from({ length: outputs }, (_, place) => placed(place, { subject: message.id }))
          }),
        )
        const publisher = recordingPublisher(async ({ messages: sent, signal }) => {
          const id = sent[0]?.subject ?? ''
          const { publish } = steps[Number(id)] ?? {}
          if (publish === 'throw') throw new Error('publisher')
          if (publish === 'hang') await hang(signal)
          if (publish === 'short') return []
          const results = sent.map((_, place) => {
            const fails = (publish === 'half' || publish === 'permanent') && place === sent.length - 1
            return fails ? { ok: false as const, error: new Error('refused'), permanent: publish === 'permanent' } : { ok: true as const }
          })
          confirmed.set(id, results.filter(({ ok }) => ok).length)
          return results
        })
        const run = router.run({ messages }, { publisher, destination: 'orders' }).catch((error: unknown) => error)
        await runtime.advance(stopAt)
        const stopped = router.stop()
        await runtime.advance(1000)
        await stopped
        const failure = await run

        if (failure !== undefined) expect(failure).toMatchObject({ code: 'ACKORD_SOURCE_FAILED' })
        expect(router.health()).toMatchObject({ state: 'idle', inFlight: 0, queued: 0 })
        expect(runtime.timers).toBe(0)
        inputs.forEach(({ calls }, index) => {
          expect(calls).toHaveLength(index < read ? 1 : 0)
          const wanted = expected.get(`${index}`)
          if (calls[0]?.verdict === 'ack' && wanted !== undefined) expect(confirmed.get(`${index}`) ?? 0).toBe(wanted)
        })
      }),
      { numRuns: 200, seed: 42 },
    )
  })
})
