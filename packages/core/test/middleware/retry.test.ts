import { getEventListeners } from 'node:events'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { constantBackoff } from '../../src/async/backoff.ts'
import { AckordError, RejectError } from '../../src/errors.ts'
import { arrive, type Context, currentContext, rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { RetryExhaustedError, type RetryOptions, retryMiddleware, retryState } from '../../src/middleware/retry.ts'
import { silentLogger } from '../../src/ports/observability.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { trackedMessage } from '../support/tracked-message.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const message = new Message('secret payload', { type: 'order.placed', id: '1' })
const outputs = [new Message('output')]

/** A handler that fails until the given call, and a retry around it in virtual time. */
function failing(until: number, options: RetryOptions = {}) {
  const runtime = new VirtualRuntime()
  const errors: Error[] = []
  const contexts: Context[] = []
  const times: number[] = []
  const start = runtime.now()
  const backoff = constantBackoff(100, { jitter: 0 })
  const run = retryMiddleware({ backoff, runtime, logger: silentLogger, ...options })(async (_message, context) => {
    contexts.push(context)
    times.push(runtime.now() - start)
    if (contexts.length >= until) return outputs
    const error = new Error(`failure ${contexts.length}`)
    errors.push(error)
    throw error
  })
  return { run, runtime, errors, contexts, times }
}

it('calls next once when that succeeds', async () => {
  const { run, contexts, runtime } = failing(1)
  expect(await run(message, rootContext())).toBe(outputs)
  expect(contexts).toHaveLength(1)
  expect(runtime.timers).toBe(0)
})

it.each([Number.NaN, -1, Infinity])('fails, without a timer, when the back-off returns %s', async (delay) => {
  const { run, runtime, contexts } = failing(3, { backoff: () => delay })
  await expect(run(message, rootContext())).rejects.toThrow(/^backoff must return milliseconds/)
  expect(contexts).toHaveLength(1)
  expect(runtime.timers).toBe(0)
})

it('waits as long as the back-off returns and returns the outputs of a later attempt', async () => {
  const seen: number[] = []
  const { run, runtime, times } = failing(3, {
    backoff: (attempt) => {
      seen.push(attempt)
      return attempt * 100
    },
  })
  const result = run(message, rootContext())
  await runtime.advance(300)
  expect(await result).toBe(outputs)
  expect(times).toEqual([0, 100, 300])
  expect(seen).toEqual([1, 2])
  expect(runtime.timers).toBe(0)
})

it('begins an attempt for each call and makes its context the ambient one', async () => {
  const arrivals: boolean[] = []
  const ambient: boolean[] = []
  const runtime = new VirtualRuntime()
  const run = retryMiddleware({ backoff: () => 0, runtime, logger: silentLogger })(async (_message, context) => {
    arrivals.push(arrive(context))
    ambient.push(currentContext() === context)
    throw new Error('again')
  })
  const rejection = expect(run(message, message.context(rootContext()))).rejects.toThrow(RetryExhaustedError)
  await runtime.advance(0)
  await rejection
  expect(arrivals).toEqual([true, true, true])
  expect(ambient).toEqual([true, true, true])
})

it('retries after a synchronous throw', async () => {
  const runtime = new VirtualRuntime()
  let calls = 0
  const run = retryMiddleware({ backoff: () => 0, attempts: 2, runtime, logger: silentLogger })(() => {
    calls += 1
    throw new Error('at once')
  })
  const rejection = expect(run(message, rootContext())).rejects.toMatchObject({ attempts: 2 })
  await runtime.advance(0)
  await rejection
  expect(calls).toBe(2)
})

describe('when attempts run out', () => {
  it('rejects with all causes, the last of them as its cause', async () => {
    const { run, runtime, errors } = failing(Number.POSITIVE_INFINITY)
    const failure = run(message, rootContext()).catch((error: unknown) => error)
    await runtime.advance(200)
    const error = await failure
    expect(error).toMatchObject({
      name: 'RetryExhaustedError',
      code: 'ACKORD_RETRY_EXHAUSTED',
      attempts: 3,
      reason: 'attempts',
      retryable: true,
      causes: errors,
      cause: errors[2],
      message: "Gave up on a message of type 'order.placed' (id '1') after 3 attempts.",
    })
    expect(runtime.timers).toBe(0)
  })

  it('does so after the only attempt too', async () => {
    const { run } = failing(9, { attempts: 1 })
    await expect(run(message, rootContext())).rejects.toMatchObject({ attempts: 1, reason: 'attempts' })
  })

  it('calls onExhausted before it rejects, and waits for it', async () => {
    const told: unknown[] = []
    const onExhausted = async (...given: unknown[]) => {
      await Promise.resolve()
      told.push(...given)
    }
    const { run } = failing(9, { attempts: 1, onExhausted })
    const error = await run(message, rootContext()).catch((caught: unknown) => caught)
    expect(told).toEqual([message, error])
  })

  it('logs an error of onExhausted and rejects as usual', async () => {
    const logger = recordingLogger()
    const onExhausted = () => {
      throw new Error('listener')
    }
    const { run } = failing(9, { attempts: 1, onExhausted, logger })
    await expect(run(message, rootContext())).rejects.toThrow(RetryExhaustedError)
    expect(logger.at('error')).toHaveLength(1)
  })
})

describe('when the time runs out', () => {
  it('does not wait for an attempt that would come too late', async () => {
    const { run, runtime, contexts } = failing(99, { attempts: Number.POSITIVE_INFINITY, timeout: 250 })
    const rejection = expect(run(message, rootContext())).rejects.toMatchObject({ reason: 'timeout', attempts: 3 })
    await runtime.advance(200)
    await rejection
    expect(contexts).toHaveLength(3)
    expect(runtime.timers).toBe(0)
  })

  it('does not interrupt an attempt', async () => {
    const runtime = new VirtualRuntime()
    const run = retryMiddleware({ timeout: 50, runtime, logger: silentLogger })(
      () => new Promise((resolve) => runtime.setTimeout(() => resolve(outputs), 500)),
    )
    const result = run(message, rootContext())
    await runtime.advance(500)
    expect(await result).toBe(outputs)
  })

  it('continues forever without a limit, and keeps the last hundred causes only', async () => {
    let causes = 0
    const { run, runtime, contexts } = failing(1001, {
      attempts: Number.POSITIVE_INFINITY,
      timeout: Number.POSITIVE_INFINITY,
      backoff: () => 0,
      shouldRetry: (_error, state) => {
        causes = Math.max(causes, state.causes.length)
        return true
      },
    })
    const result = run(message, rootContext())
    for (let waiting = true; waiting; waiting = runtime.timers > 0) await runtime.advance(0)
    expect(await result).toBe(outputs)
    expect(contexts).toHaveLength(1001)
    expect(causes).toBe(100)
    expect(retryState(contexts[1000] ?? rootContext())?.causes).toHaveLength(100)
  })
})

describe('does not try again', () => {
  it('when the error puts the fault in the message', async () => {
    const error = new RejectError('bad order')
    const exhausted: unknown[] = []
    const run = retryMiddleware({ onExhausted: (...given) => void exhausted.push(given) })(() => Promise.reject(error))
    await expect(run(message, rootContext())).rejects.toBe(error)
    expect(exhausted).toEqual([])
  })

  it.each(['ack', 'nack', 'reject'] as const)('when the handler settled the message by %s()', async (verdict) => {
    const { message, calls } = trackedMessage('data')
    const error = new Error('after settling')
    let attempts = 0
    const run = retryMiddleware()(async (given) => {
      attempts += 1
      await given[verdict](error)
      throw error
    })
    await expect(run(message, rootContext())).rejects.toBe(error)
    expect(attempts).toBe(1)
    expect(calls).toHaveLength(1)
  })

  it('when the signal is aborted, and rejects with the error of the attempt', async () => {
    const controller = new AbortController()
    const error = new Error('failed meanwhile')
    const run = retryMiddleware()(async () => {
      controller.abort(new Error('stopping'))
      throw error
    })
    await expect(run(message, rootContext({ signal: controller.signal }))).rejects.toBe(error)
  })

  it('when the predicate returns false, and rejects with the error itself', async () => {
    const { run, errors, contexts } = failing(9, { shouldRetry: (_error, state) => state.attempt < 1 })
    await expect(run(message, rootContext())).rejects.toThrow('failure 1')
    expect(errors).toHaveLength(1)
    expect(contexts).toHaveLength(1)
  })
})

it('retries after an AckordError that is retryable', async () => {
  let calls = 0
  const runtime = new VirtualRuntime()
  const run = retryMiddleware({ backoff: () => 0, runtime, logger: silentLogger })(async () => {
    calls += 1
    if (calls === 1) throw new AckordError('ACKORD_CIRCUIT_OPEN', 'later')
    return outputs
  })
  const result = run(message, rootContext())
  await runtime.advance(0)
  expect(await result).toBe(outputs)
})

it("does not retry before the error's retryAfter, and gives up immediately if that is too late", async () => {
  const runtime = new VirtualRuntime()
  let calls = 0
  const busy = Object.assign(new Error('busy'), { retryAfter: 400 })
  const run = retryMiddleware({ backoff: () => 100, timeout: 500, runtime, logger: silentLogger })(async () => {
    calls += 1
    throw busy
  })
  const rejection = expect(run(message, rootContext())).rejects.toMatchObject({ reason: 'timeout', retryAfter: 400 })
  await runtime.advance(399)
  expect(calls).toBe(1)
  await runtime.advance(1)
  await rejection
  expect(calls).toBe(2)
  expect(runtime.timers).toBe(0)
})

it('ends the wait between attempts with the signal, without a timer or listener left', async () => {
  const controller = new AbortController()
  const { signal } = controller
  const { run, runtime, contexts } = failing(9)
  const reason = new Error('stopping')
  const rejection = expect(run(message, rootContext({ signal }))).rejects.toBe(reason)
  await runtime.advance(50)
  expect(runtime.timers).toBe(1)
  controller.abort(reason)
  await rejection
  expect(contexts).toHaveLength(1)
  expect(runtime.timers).toBe(0)
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})

it('leaves no listener on the signal after several attempts', async () => {
  const { signal } = new AbortController()
  const { run, runtime } = failing(3)
  const result = run(message, rootContext({ signal }))
  await runtime.advance(200)
  await result
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})

it('shows each attempt its number, the causes before it and the time of the first', async () => {
  const { run, runtime, contexts, errors } = failing(3)
  const startedAt = runtime.now()
  const result = run(message, rootContext())
  await runtime.advance(200)
  await result
  expect(contexts.map(retryState)).toEqual([
    { attempt: 1, causes: [], startedAt },
    { attempt: 2, causes: [errors[0]], startedAt },
    { attempt: 3, causes: errors, startedAt },
  ])
  expect(retryState(rootContext())).toBeUndefined()
})

it('shows the predicate the failure as the last of the causes', async () => {
  const seen: unknown[] = []
  const { run, errors } = failing(9, {
    shouldRetry: (error, state) => {
      seen.push(error, state.causes)
      return false
    },
  })
  await expect(run(message, rootContext())).rejects.toThrow()
  expect(seen).toEqual([errors[0], errors])
})

it('logs a warning for each attempt that is repeated, without the data', async () => {
  const logger = recordingLogger()
  const { run, runtime } = failing(3, { logger })
  const result = run(message, rootContext())
  await runtime.advance(200)
  await result
  expect(logger.lines.map((line) => line.fields)).toMatchObject([
    { type: 'order.placed', id: '1', attempt: 1, retryAfter: 100 },
    { type: 'order.placed', id: '1', attempt: 2, retryAfter: 100 },
  ])
  expect(logger.at('warn')).toHaveLength(2)
  expect(JSON.stringify(logger.lines)).not.toContain('secret')
})

it('makes as many attempts as needed or allowed, whichever is fewer', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 8 }), async (needed, attempts) => {
      const { run, runtime, contexts } = failing(needed, { attempts })
      const result = run(message, rootContext()).then(
        () => 'handled',
        () => 'failed',
      )
      await runtime.advance(1000)
      expect(await result).toBe(needed <= attempts ? 'handled' : 'failed')
      expect(contexts).toHaveLength(Math.min(needed, attempts))
      expect(runtime.timers).toBe(0)
    }),
    { numRuns: 30 },
  )
})

it('has the role that keeps it outside of transactions', () => {
  expect(retryMiddleware().role).toBe('retry')
})

it.each([
  ['attempts', { attempts: 0 }],
  ['attempts', { attempts: 1.5 }],
  ['timeout', { timeout: -1 }],
  ['timeout', { timeout: Number.NaN }],
])('rejects an invalid %s', (option, options) => {
  expect(() => retryMiddleware(options)).toThrow(new RegExp(`^${option} must be`))
})
