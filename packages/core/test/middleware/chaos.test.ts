import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { arrive, currentContext, rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { duplicateMiddleware, randomDelayMiddleware, randomFailureMiddleware } from '../../src/middleware/chaos.ts'
import type { Middleware } from '../../src/middleware/middleware.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const message = new Message('data', { type: 'order.placed', id: '1' })

/** Handles the message through the middleware and returns how often next was called and its result. */
async function handle(middleware: Middleware) {
  let calls = 0
  const run = middleware(async () => {
    calls += 1
    return [new Message(calls)]
  })
  const result = await run(message, message.context(rootContext())).then(
    ([output]) => output?.data,
    (error: unknown) => error,
  )
  return { calls, result }
}

async function callsOf(middleware: Middleware, messages: number): Promise<number> {
  let calls = 0
  for (let index = 0; index < messages; index += 1) calls += (await handle(middleware)).calls
  return calls
}

describe('duplicateMiddleware', () => {
  it('handles a message twice and returns the outputs of the second time', async () => {
    expect(await handle(duplicateMiddleware({ probability: 1 }))).toEqual({ calls: 2, result: 2 })
  })

  it('handles it once otherwise', async () => {
    expect(await handle(duplicateMiddleware({ probability: 0 }))).toEqual({ calls: 1, result: 1 })
  })

  it('begins an attempt for each time, in the ambient context too', async () => {
    const seen: boolean[] = []
    const run = duplicateMiddleware({ probability: 1 })(async (_message, context) => {
      seen.push(arrive(context), currentContext() === context)
      return []
    })
    await run(message, message.context(rootContext()))
    expect(seen).toEqual([true, true, true, true])
  })

  it.each([1, 2])('fails when time %i fails', async (failing) => {
    let calls = 0
    const run = duplicateMiddleware({ probability: 1 })(async () => {
      calls += 1
      if (calls === failing) throw new Error('broken')
      return []
    })
    await expect(run(message, rootContext())).rejects.toThrow('broken')
    expect(calls).toBe(failing)
  })

  it('duplicates about the configured share', async () => {
    const calls = await callsOf(duplicateMiddleware({ probability: 0.3, runtime: new VirtualRuntime() }), 1000)
    expect(calls).toBeGreaterThan(1200)
    expect(calls).toBeLessThan(1400)
  })

  it('may be placed where a retry may be', () => {
    expect(duplicateMiddleware().role).toBe('retry')
  })
})

describe('randomFailureMiddleware', () => {
  const chaos = { code: 'ACKORD_CHAOS', retryable: true }

  it('fails before the message is handled', async () => {
    const { calls, result } = await handle(randomFailureMiddleware({ probability: 1, when: 'before' }))
    expect(calls).toBe(0)
    expect(result).toMatchObject({ ...chaos, message: expect.stringContaining('before the handling of a message') })
  })

  it('fails after the message was handled', async () => {
    const { calls, result } = await handle(randomFailureMiddleware({ probability: 1, when: 'after' }))
    expect(calls).toBe(1)
    expect(result).toMatchObject({ ...chaos, message: expect.stringContaining('after the handling of a message') })
  })

  it('fails on either side by default', async () => {
    const calls = await callsOf(randomFailureMiddleware({ probability: 1, runtime: new VirtualRuntime() }), 100)
    expect(calls).toBeGreaterThan(25)
    expect(calls).toBeLessThan(75)
  })

  it('passes on the failure of the handling instead of its own', async () => {
    const error = new Error('broken')
    const run = randomFailureMiddleware({ probability: 1, when: 'after' })(() => Promise.reject(error))
    await expect(run(message, rootContext())).rejects.toBe(error)
  })

  it('does not affect the others', async () => {
    expect(await handle(randomFailureMiddleware({ probability: 0 }))).toEqual({ calls: 1, result: 1 })
  })
})

describe('randomDelayMiddleware', () => {
  it('waits no longer than the maximum delay, and not always as long', async () => {
    const runtime = new VirtualRuntime()
    const middleware = randomDelayMiddleware({ probability: 1, max: 200, runtime })
    const delays = new Set<number>()
    for (let index = 0; index < 50; index += 1) {
      const handled = handle(middleware)
      const delay = runtime.nextTimer ?? Number.NaN
      expect(delay).toBeGreaterThanOrEqual(0)
      expect(delay).toBeLessThanOrEqual(200)
      delays.add(delay)
      await runtime.advance(200)
      expect(await handled).toEqual({ calls: 1, result: 1 })
    }
    expect(delays.size).toBeGreaterThan(40)
    expect(runtime.timers).toBe(0)
  })

  it('ends the wait with the signal and does not handle the message then', async () => {
    const runtime = new VirtualRuntime()
    const controller = new AbortController()
    let called = false
    const run = randomDelayMiddleware({ probability: 1, runtime })(async () => {
      called = true
      return []
    })
    const rejection = expect(run(message, rootContext({ signal: controller.signal }))).rejects.toThrow('stopping')
    controller.abort(new Error('stopping'))
    await rejection
    expect(called).toBe(false)
    expect(runtime.timers).toBe(0)
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
  })

  it('does not wait otherwise', async () => {
    const runtime = new VirtualRuntime()
    expect(await handle(randomDelayMiddleware({ probability: 0, runtime }))).toEqual({ calls: 1, result: 1 })
  })
})

it('rejects invalid options', () => {
  expect(() => duplicateMiddleware({ probability: 1.5 })).toThrow(/^probability must be/)
  expect(() => randomDelayMiddleware({ max: -1 })).toThrow(/^max must be/)
  // @ts-expect-error a caller without types
  expect(() => randomFailureMiddleware({ when: 'during' })).toThrow(/^when must be one of/)
})
