import { getEventListeners } from 'node:events'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type Context, currentContext, enter, rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { type ThrottleOptions, throttleMiddleware } from '../../src/middleware/throttle.ts'
import { settlePromises, VirtualRuntime } from '../support/virtual-runtime.ts'

function world(options: Omit<ThrottleOptions, 'runtime'>) {
  const runtime = new VirtualRuntime()
  const start = runtime.now()
  const begun: string[] = []
  const times: number[] = []
  const run = throttleMiddleware({ ...options, runtime })(async (message) => {
    begun.push(message.id ?? '')
    times.push(runtime.now() - start)
    return []
  })
  const send = (id: string, context: Context = rootContext()) => run(new Message('data', { id }), context)
  return { runtime, begun, times, send }
}

it('lets a burst through immediately and the others at the rate, in their order', async () => {
  const { runtime, begun, times, send } = world({ rate: 10, burst: 2 })
  const all = Promise.all(['a', 'b', 'c', 'd', 'e'].map((id) => send(id)))
  await settlePromises()
  expect(begun).toEqual(['a', 'b'])
  await runtime.advance(300)
  await all
  expect(begun).toEqual(['a', 'b', 'c', 'd', 'e'])
  expect(times).toEqual([0, 0, 100, 200, 300])
  expect(runtime.timers).toBe(0)
})

it('allows a burst of the rate by default, again after a quiet period', async () => {
  const { runtime, begun, send } = world({ rate: 3 })
  for (const id of ['a', 'b', 'c']) await send(id)
  await runtime.advance(60_000)
  const waiting = Promise.all(['d', 'e', 'f', 'g'].map((id) => send(id)))
  await settlePromises()
  expect(begun).toHaveLength(6)
  await runtime.advance(334)
  await waiting
  expect(begun).toHaveLength(7)
})

it('has one timer however many wait, and wakes up once per message', async () => {
  const { runtime, begun, send } = world({ rate: 1, interval: 1000 })
  const all = Promise.all(Array.from({ length: 11 }, (_, index) => send(String(index))))
  for (let second = 1; second <= 10; second += 1) {
    expect(runtime.timers).toBe(1)
    expect(runtime.nextTimer).toBe(1000)
    await runtime.advance(1000)
    expect(begun).toHaveLength(second + 1)
  }
  await all
  expect(runtime.timers).toBe(0)
})

it('does not let a new message pass those that wait', async () => {
  const { runtime, begun, send } = world({ rate: 1, interval: 100 })
  await send('first')
  const waiting = send('waiting')
  await runtime.advance(99)
  const newcomer = send('newcomer')
  await runtime.advance(101)
  await Promise.all([waiting, newcomer])
  expect(begun).toEqual(['first', 'waiting', 'newcomer'])
})

it('does not let a new message pass when the timer of those that wait is late', async () => {
  const real = new VirtualRuntime()
  let offset = 0
  const begun: string[] = []
  const run = throttleMiddleware({ rate: 1, interval: 100, runtime: { ...real, now: () => real.now() + offset } })(async (message) => {
    begun.push(message.id ?? '')
    return []
  })
  const send = (id: string) => run(new Message('data', { id }), rootContext())
  await send('first')
  const waiting = send('waiting')
  await settlePromises()
  offset = 100
  const newcomer = send('newcomer')
  await settlePromises()
  expect(begun).toEqual(['first'])
  await real.advance(200)
  await Promise.all([waiting, newcomer])
  expect(begun).toEqual(['first', 'waiting', 'newcomer'])
})

it('ends a wait with the signal, which costs the others nothing', async () => {
  const { runtime, begun, times, send } = world({ rate: 1, interval: 100 })
  await send('first')
  const controller = new AbortController()
  const { signal } = controller
  const reason = new Error('stopping')
  const rejection = expect(send('aborted', rootContext({ signal }))).rejects.toBe(reason)
  const other = send('other')
  await runtime.advance(50)
  controller.abort(reason)
  await rejection
  await runtime.advance(50)
  await other
  expect(begun).toEqual(['first', 'other'])
  expect(times).toEqual([0, 100])
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  expect(runtime.timers).toBe(0)
})

it('cancels its timer when the last one leaves', async () => {
  const { runtime, send } = world({ rate: 1 })
  await send('first')
  const controller = new AbortController()
  const rejection = expect(send('aborted', rootContext({ signal: controller.signal }))).rejects.toThrow('stopping')
  await settlePromises()
  expect(runtime.timers).toBe(1)
  controller.abort(new Error('stopping'))
  await rejection
  expect(runtime.timers).toBe(0)
})

it('leaves no listener behind after a wait', async () => {
  const { runtime, send } = world({ rate: 1 })
  const { signal } = new AbortController()
  const all = Promise.all([send('a', rootContext({ signal })), send('b', rootContext({ signal }))])
  await runtime.advance(1000)
  await all
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})

it('does not begin with an aborted signal, and spends no token on it', async () => {
  const { begun, send } = world({ rate: 1 })
  await expect(send('aborted', rootContext({ signal: AbortSignal.abort(new Error('stopped')) }))).rejects.toThrow('stopped')
  await send('next')
  expect(begun).toEqual(['next'])
})

it('keeps each waiting message in its own ambient context', async () => {
  const runtime = new VirtualRuntime()
  const same: boolean[] = []
  const run = throttleMiddleware({ rate: 1, runtime })(async (_message, context) => {
    same.push(currentContext() === context)
    return []
  })
  const all = Promise.all(
    ['a', 'b', 'c'].map((id) => {
      const message = new Message('data', { id })
      const context = message.context(rootContext())
      return enter(context, () => run(message, context))
    }),
  )
  await runtime.advance(2000)
  await all
  expect(same).toEqual([true, true, true])
})

it('starts its timer outside of the context of the message that waited first', async () => {
  const real = new VirtualRuntime()
  const ambient: unknown[] = []
  const setTimeout = (callback: () => void, delay: number) => {
    ambient.push(currentContext())
    return real.setTimeout(callback, delay)
  }
  const run = throttleMiddleware({ rate: 1, runtime: { ...real, setTimeout } })(async () => [])
  const message = new Message('data')
  const context = message.context(rootContext())
  const all = Promise.all([1, 2].map(() => enter(context, () => run(message, context))))
  await real.advance(1000)
  await all
  expect(ambient).toEqual([undefined])
})

it('is not stopped by a clock that is set back', async () => {
  const real = new VirtualRuntime()
  let offset = 0
  const runtime = { ...real, now: () => real.now() + offset }
  const run = throttleMiddleware({ rate: 1, interval: 100, runtime })(async () => [])
  const message = new Message('data')
  await run(message, rootContext())
  const waiting = run(message, rootContext())
  await settlePromises()
  offset = -3_600_000
  await real.advance(200)
  expect(await waiting).toEqual([])
  expect(real.timers).toBe(0)
})

it('is one limit for all handlers that use it', async () => {
  const runtime = new VirtualRuntime()
  const middleware = throttleMiddleware({ rate: 1, runtime })
  const begun: string[] = []
  const handler = (name: string) =>
    middleware(async () => {
      begun.push(name)
      return []
    })
  const all = Promise.all(['one', 'two'].map((name) => handler(name)(new Message('data'), rootContext())))
  await settlePromises()
  expect(begun).toEqual(['one'])
  await runtime.advance(1000)
  await all
  expect(begun).toEqual(['one', 'two'])
})

it('never lets more start in any period than burst and rate allow', async () => {
  const scenario = fc.record({
    rate: fc.integer({ min: 1, max: 50 }),
    interval: fc.integer({ min: 10, max: 2000 }),
    burst: fc.integer({ min: 1, max: 10 }),
    gaps: fc.array(fc.integer({ min: 0, max: 300 }), { minLength: 1, maxLength: 25 }),
  })
  await fc.assert(
    fc.asyncProperty(scenario, async ({ gaps, ...options }) => {
      const { runtime, begun, times, send } = world(options)
      const sent: Promise<unknown>[] = []
      for (const [index, gap] of gaps.entries()) {
        sent.push(send(String(index)))
        await runtime.advance(gap)
      }
      while (runtime.nextTimer !== undefined) await runtime.advance(runtime.nextTimer)
      await Promise.all(sent)
      expect(begun).toEqual(gaps.map((_, index) => String(index)))
      for (const [first, from] of times.entries()) {
        for (const [last, to] of times.entries()) {
          if (last < first) continue
          const allowed = options.burst + ((to - from) * options.rate) / options.interval
          expect(last - first + 1).toBeLessThanOrEqual(allowed + 1e-6)
        }
      }
    }),
    { numRuns: 40 },
  )
})

it('has the role of a middleware that waits', () => {
  expect(throttleMiddleware({ rate: 1 }).role).toBe('throttle')
})

it.each([
  ['rate', { rate: 0 }],
  ['rate', { rate: 0.5 }],
  ['interval', { rate: 1, interval: 0 }],
  ['burst', { rate: 1, burst: 0 }],
])('rejects an invalid %s', (option, options) => {
  expect(() => throttleMiddleware(options)).toThrow(new RegExp(`^${option} must be`))
})
