import { describe, expect, it } from 'vitest'
import { constantBackoff } from '../../src/async/backoff.ts'
import { AckordError, RejectError } from '../../src/errors.ts'
import { commandHandler } from '../../src/handler/typed-handler.ts'
import { Message } from '../../src/message/message.ts'
import type { StandardSchema } from '../../src/message/schema.ts'
import { circuitBreakerMiddleware } from '../../src/middleware/circuit-breaker.ts'
import { deadlineMiddleware } from '../../src/middleware/deadline.ts'
import type { Metrics } from '../../src/ports/metrics.ts'
import { silentLogger } from '../../src/ports/observability.ts'
import type { ErrorDecision, RouterOptions } from '../../src/router/router-options.ts'
import { unhandledDuring } from '../support/process-events.ts'
import {
  deferred,
  FedSource,
  handling,
  openWorld,
  placed,
  recordingPublisher,
  sourceOf,
  type Tracked,
  type TrackedOptions,
  tracked,
  trackedSome,
  verdicts,
} from '../support/router-world.ts'
import { settlePromises } from '../support/virtual-runtime.ts'

const broken = new Error('broken')

/** Handles one message with a handler that fails, and returns the verdict. */
async function settledWith(thrown: unknown, options: RouterOptions = {}, message: TrackedOptions = {}) {
  const { router, logger } = openWorld(options)
  router.handle(
    handling(() => {
      throw thrown
    }),
  )
  const input = tracked('m1', message)
  await router.run(sourceOf(input))
  return { input, calls: input.calls, logger, health: router.health() }
}

const refusesAll: StandardSchema<string> = {
  '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [{ message: 'no' }] }) },
}

describe('a message that is at fault itself', () => {
  const faults: [string, string, (options: RouterOptions) => Promise<Tracked>][] = [
    [
      'no handler',
      'ACKORD_NO_HANDLER',
      async (options) => {
        const { router } = openWorld(options)
        const input = tracked('m1', { type: 'unknown' })
        await router.handle(handling(() => [])).run(sourceOf(input))
        return input
      },
    ],
    [
      'no type',
      'ACKORD_NO_HANDLER',
      async (options) => {
        const { router } = openWorld(options)
        const input = tracked('m1', { attributes: { type: undefined } })
        await router.handle(handling(() => [])).run(sourceOf(input))
        return input
      },
    ],
    [
      'a matcher that refuses it',
      'ACKORD_HANDLER_REFUSED',
      async (options) => {
        const { router } = openWorld(options)
        const input = tracked('m1')
        await router
          .handle(
            handling(() => []),
            { match: () => false },
          )
          .run(sourceOf(input))
        return input
      },
    ],
    [
      'data that fails its schema',
      'ACKORD_VALIDATION_FAILED',
      async (options) => {
        const { router } = openWorld(options)
        const input = tracked('m1')
        await router
          .handle(commandHandler({ type: 'order.place', schema: refusesAll, source: '/orders' }, async () => []))
          .run(sourceOf(input))
        return input
      },
    ],
    [
      'an expiry in the past',
      'ACKORD_MESSAGE_EXPIRED',
      async (options) => {
        const { router, runtime } = openWorld(options)
        const input = tracked('m1', { attributes: { expirytime: new Date(runtime.now()) } })
        await router
          .use(deadlineMiddleware({ runtime }))
          .handle(handling(() => []))
          .run(sourceOf(input))
        return input
      },
    ],
    ['a handler that says so', 'ACKORD_REJECTED', async (options) => (await settledWith(new RejectError('never'), options)).input],
  ]

  it.each(faults)('is rejected by default: %s', async (_what, code, play) => {
    const input = await play({})
    expect(input.calls).toMatchObject([{ verdict: 'reject', error: { code } }])
  })

  it.each(faults)('is settled as onError decides: %s', async (_what, code, play) => {
    const told: [Error, Message][] = []
    for (const decision of ['ack', 'nack', 'reject'] as const) {
      const input = await play({
        onError(error, message) {
          told.push([error, message])
          return decision
        },
      })
      expect(input.calls.map(({ verdict }) => verdict)).toEqual([decision])
    }
    expect(told).toHaveLength(3)
    expect(told[0]).toMatchObject([{ code }, { id: 'm1' }])
  })

  it.each([
    ['nack', 'nack'],
    ['ack', 'ack'],
    ['reject', 'reject'],
  ] as const)('is settled by onUnknownType: %s, where that is about it', async (onUnknownType, verdict) => {
    const decided = await Promise.all(faults.map(([, , play]) => play({ onUnknownType })))
    expect(decided.map(({ calls }) => calls[0]?.verdict)).toEqual([verdict, verdict, verdict, 'reject', 'reject', 'reject'])
  })

  it('is redelivered under onUnknownType nack only up to maxDeliveries', async () => {
    const { router } = openWorld({ onUnknownType: 'nack', maxDeliveries: 3 })
    router.handle(handling(() => []))
    const inputs = [2, 3].map((deliveryCount) => tracked('m1', { type: 'unknown', deliveryCount }))
    await router.run(sourceOf(...inputs))
    expect(inputs[0]?.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_NO_HANDLER' } }])
    expect(inputs[1]?.calls).toMatchObject([
      { verdict: 'reject', error: { code: 'ACKORD_MAX_DELIVERIES', cause: { code: 'ACKORD_NO_HANDLER' } } },
    ])
  })

  it('is not logged as an error when it is acked', async () => {
    const { router, logger } = openWorld({ onUnknownType: 'ack' })
    await router.handle(handling(() => [])).run(sourceOf(tracked('m1', { type: 'unknown' })))
    expect(logger.at('error')).toEqual([])
    expect(router.health().failed).toBe(1)
  })
})

describe('onError', () => {
  it('may request a delay', async () => {
    const { calls } = await settledWith(broken, { onError: () => ({ retryAfter: 1234 }) })
    expect(calls).toEqual([{ verdict: 'nack', error: broken, options: { retryAfter: 1234 } }])
  })

  it('may return nothing', async () => {
    expect((await settledWith(broken, { onError: () => {} })).calls[0]?.verdict).toBe('nack')
  })

  it('may throw, which is logged, and the message is settled nevertheless', async () => {
    const failure = new Error('onError is broken')
    const { calls, logger } = await settledWith(broken, {
      onError() {
        throw failure
      },
    })
    expect(calls[0]?.verdict).toBe('nack')
    expect(logger.at('error')).toMatchObject([{ fields: { err: failure } }, { fields: { err: broken } }])
  })

  it.each<[string, unknown]>([
    ['null', null],
    ['an unknown word', 'retry'],
    ['a promise', Promise.resolve('ack')],
    ['an object without retryAfter', {}],
    ['a negative delay', { retryAfter: -1 }],
    ['a delay that is not a number', { retryAfter: '5' }],
    ['NaN as delay', { retryAfter: Number.NaN }],
  ])('that returns %s is reported in the log, and the message is settled as if it had returned nothing', async (_what, decision) => {
    const { calls, logger } = await settledWith(broken, {
      onError: () => decision as ErrorDecision,
      redeliveryDelay: constantBackoff(50, { jitter: 0 }),
    })
    expect(calls).toEqual([{ verdict: 'nack', error: broken, options: { retryAfter: 50 } }])
    expect(logger.at('error').map(({ text }) => text)).toEqual([expect.stringContaining('onError'), expect.stringContaining('broken')])
  })

  it('that is async and fails does not crash the process', async () => {
    const unhandled = await unhandledDuring(async () => {
      const { calls } = await settledWith(broken, { onError: (async () => Promise.reject(new Error('late'))) as never })
      expect(calls[0]?.verdict).toBe('nack')
    })
    expect(unhandled).toEqual([])
  })

  it('is called with errors of every stage', async () => {
    const told: string[] = []
    const { router } = openWorld({
      concurrency: 2,
      onError: (error) => void told.push(error instanceof AckordError ? error.code : error.message),
      orderingKey({ id }) {
        if (id === 'm1') throw new Error('key')
        return undefined
      },
    })
    router.handle(
      handling(({ id }) => {
        if (id === 'm3') throw new Error('handler')
        if (id === 'm4') return [null]
        return [new Message('a', { type: 'order.placed' })]
      }),
    )
    const garbled = tracked('m2')
    garbled.message.data.fill(0)
    const publisher = recordingPublisher(() => Promise.reject(new Error('publisher')))
    await router.run(sourceOf(tracked('m1'), garbled, tracked('m3'), tracked('m4'), tracked('m5')), { publisher, destination: 'orders' })
    expect(told.sort()).toEqual(['ACKORD_INVALID_OUTPUT', 'ACKORD_UNMARSHAL_FAILED', 'handler', 'key', 'publisher'])
  })
})

describe('a thrown value', () => {
  it.each([
    ['a text', 'oops'],
    ['undefined', undefined],
    ['null', null],
    ['a number', 0],
    ['a plain object', { message: 'no error' }],
  ])('may be %s', async (_what, thrown) => {
    for (const fail of [
      () => {
        throw thrown
      },
      () => Promise.reject(thrown),
    ]) {
      const { router } = openWorld()
      const input = tracked('m1')
      await router.handle(handling(fail)).run(sourceOf(input))
      expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_NOT_AN_ERROR' } }])
      expect(input.calls[0]).toHaveProperty('error.cause', thrown)
      expect(router.health().lastError).toMatchObject({ code: 'ACKORD_NOT_AN_ERROR' })
    }
  })

  it('may come from a handler that is not async', async () => {
    const { calls, health } = await settledWith(broken)
    expect(calls).toMatchObject([{ verdict: 'nack', error: broken }])
    expect(health).toMatchObject({ handled: 0, failed: 1, lastError: broken })
  })

  it('does not stop the router', async () => {
    const { router } = openWorld({ concurrency: 2 })
    let calls = 0
    router.handle(
      handling(() => {
        calls += 1
        if (calls % 2 === 0) throw broken
      }),
    )
    const inputs = trackedSome(6)
    await router.run(sourceOf(...inputs))
    expect(inputs.flatMap(verdicts).sort()).toEqual(['ack', 'ack', 'ack', 'nack', 'nack', 'nack'])
  })

  it('is logged with type, id, source, delivery count, verdict and delay, without the data', async () => {
    const { logger } = await settledWith(broken, {}, { data: { card: '4111' }, deliveryCount: 2 })
    expect(logger.at('error')).toEqual([
      {
        level: 'error',
        fields: {
          err: broken,
          type: 'order.place',
          id: 'm1',
          source: '/shop',
          deliveryCount: 2,
          verdict: 'nack',
          retryAfter: expect.any(Number),
        },
        text: expect.stringContaining('broken'),
      },
    ])
    expect(JSON.stringify(logger.lines)).not.toContain('4111')
  })
})

describe('redelivery', () => {
  it("is requested with growing delays, by the broker's count", async () => {
    const delays: unknown[] = []
    for (const deliveryCount of [1, 2, 3, 20, 2000]) {
      const { calls } = await settledWith(broken, {}, { deliveryCount })
      delays.push(calls[0]?.options?.retryAfter)
    }
    const [first, second, third, late, last] = delays as number[]
    expect(first).toBeGreaterThanOrEqual(80)
    expect(first).toBeLessThanOrEqual(120)
    expect(second).toBeGreaterThan(first as number)
    expect(third).toBeGreaterThan(second as number)
    expect(late).toBeLessThanOrEqual(72_000)
    expect(last).toBeLessThanOrEqual(72_000)
  })

  it('uses the delay of a first delivery when the broker does not count', async () => {
    const attempts: number[] = []
    await settledWith(broken, {
      redeliveryDelay(attempt) {
        attempts.push(attempt)
        return 5
      },
    })
    expect(attempts).toEqual([1])
  })

  it('uses the retryAfter of an error', async () => {
    const error = Object.assign(new Error('busy'), { retryAfter: 4000 })
    const { calls } = await settledWith(error)
    expect(calls).toEqual([{ verdict: 'nack', error, options: { retryAfter: 4000 } }])
  })

  it.each<unknown>([-1, Number.NaN, '4000', undefined, null])('ignores a retryAfter of %s of an error', async (retryAfter) => {
    const error = Object.assign(new Error('busy'), { retryAfter })
    const { calls } = await settledWith(error, { redeliveryDelay: constantBackoff(50, { jitter: 0 }) })
    expect(calls).toEqual([{ verdict: 'nack', error, options: { retryAfter: 50 } }])
  })

  it.each<[string, () => number]>([
    ['negative', () => -5],
    ['not a number', () => Number.NaN],
    ['undefined', () => undefined as never],
    [
      'thrown at',
      () => {
        throw new Error('backoff is broken')
      },
    ],
  ])('happens without a delay when redeliveryDelay is %s, which is logged', async (_what, redeliveryDelay) => {
    const { calls, logger } = await settledWith(broken, { redeliveryDelay })
    expect(calls).toMatchObject([{ verdict: 'nack', error: broken }])
    expect(calls[0]?.options?.retryAfter).toBeUndefined()
    expect(logger.at('error').some(({ text }) => text.includes('redeliveryDelay'))).toBe(true)
  })
})

describe('maxDeliveries', () => {
  it('rejects a message that fails at the limit, with the failure as cause', async () => {
    const { calls, health } = await settledWith(broken, { maxDeliveries: 3 }, { deliveryCount: 3 })
    expect(calls).toMatchObject([{ verdict: 'reject', error: { code: 'ACKORD_MAX_DELIVERIES', cause: broken, retryable: false } }])
    expect(health.lastError).toMatchObject({ code: 'ACKORD_MAX_DELIVERIES' })
  })

  it('nacks a message that fails before the limit', async () => {
    const { calls } = await settledWith(broken, { maxDeliveries: 3 }, { deliveryCount: 2 })
    expect(calls).toMatchObject([{ verdict: 'nack', error: broken }])
  })

  it('acks a message that succeeds at the limit', async () => {
    const { router } = openWorld({ maxDeliveries: 3 })
    const input = tracked('m1', { deliveryCount: 3 })
    await router.handle(handling(() => [])).run(sourceOf(input))
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('rejects a message far above the limit without handling it', async () => {
    const { router } = openWorld({ maxDeliveries: 3 })
    const seen: unknown[] = []
    router.use((next) => (message, context) => {
      seen.push(message.id)
      return next(message, context)
    })
    router.handle(handling(() => []))
    const input = tracked('m1', { deliveryCount: 7 })
    await router.run(sourceOf(input))
    expect(seen).toEqual([])
    expect(input.calls).toMatchObject([{ verdict: 'reject', error: { code: 'ACKORD_MAX_DELIVERIES' } }])
    const text = "A message of type 'order.place' (id 'm1') was delivered 7 times; maxDeliveries is 3."
    expect(input.calls[0]).toHaveProperty('error.message', text)
  })

  it('does not count a delivery that an open circuit rejected', async () => {
    const { router, runtime } = openWorld({ maxDeliveries: 3 })
    let calls = 0
    router.use(circuitBreakerMiddleware({ failures: 1, runtime, logger: silentLogger }))
    router.handle(
      handling(() => {
        calls += 1
        throw broken
      }),
    )
    const [first, last] = [tracked('m1', { deliveryCount: 1 }), tracked('m2', { deliveryCount: 3 })]
    await router.run(sourceOf(first, last))
    expect(calls).toBe(1)
    expect([first, last].map(verdicts)).toEqual([['nack'], ['nack']])
    expect(last.calls).toMatchObject([{ error: { code: 'ACKORD_CIRCUIT_OPEN' } }])
  })

  it('does not count a delivery while another worker had the message, and does not log it as an error', async () => {
    const { router, logger } = openWorld({ maxDeliveries: 3 })
    router.handle(
      handling(() => {
        throw new AckordError('ACKORD_INBOX_BUSY', 'Another worker has it.')
      }),
    )
    const input = tracked('m1', { deliveryCount: 3 })
    await router.run(sourceOf(input))
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_INBOX_BUSY' } }])
    expect(logger.lines.map(({ level, fields }) => [level, 'err' in fields])).toEqual([['debug', false]])
  })

  it('tries a message once more above the limit: deliveries are not attempts, and its ack may have been lost', async () => {
    const { router } = openWorld({ maxDeliveries: 3 })
    router.handle(handling(() => []))
    const input = tracked('m1', { deliveryCount: 6 })
    await router.run(sourceOf(input))
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('keeps the error of a message that is rejected anyway', async () => {
    const error = new RejectError('never')
    const { calls } = await settledWith(error, { maxDeliveries: 3 }, { deliveryCount: 3 })
    expect(calls).toMatchObject([{ verdict: 'reject', error }])
  })

  it('lets onError decide', async () => {
    const { calls } = await settledWith(broken, { maxDeliveries: 1, onError: () => 'nack' }, { deliveryCount: 1 })
    expect(calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_MAX_DELIVERIES' } }])
  })

  it('warns once when the source does not count', async () => {
    const { router, logger } = openWorld({ maxDeliveries: 3 })
    const inputs = trackedSome(5)
    router.handle(
      handling(() => {
        throw broken
      }),
    )
    await router.run(sourceOf(...inputs))
    expect(logger.at('warn')).toMatchObject([{ fields: { maxDeliveries: 3 } }])
    expect(inputs.map(verdicts)).toEqual(inputs.map(() => ['nack']))
  })
})

describe('a verdict that the broker does not accept', () => {
  const refusal = new Error('channel closed')
  const answers: [string, () => Promise<void>][] = [
    ['a rejection', () => Promise.reject(refusal)],
    [
      'a throw',
      () => {
        throw refusal
      },
    ],
  ]

  it.each(answers)('is logged, shown by health() and does not stop the router: %s', async (_what, answer) => {
    const counted: string[] = []
    const metrics: Metrics = {
      count: (name) => void counted.push(name),
      observe() {},
      gauge() {},
    }
    const unhandled = await unhandledDuring(async () => {
      for (const concurrency of [1, 2]) {
        const { router, logger } = openWorld({ concurrency, metrics })
        router.handle(handling(() => []))
        const inputs = [tracked('m1', { answer }), tracked('m2')]
        const source = new FedSource(inputs)
        const run = router.run(source)
        await settlePromises()
        expect(router.health()).toMatchObject({ state: 'running', handled: 2, failed: 0, lastError: refusal })
        expect(logger.at('error')).toMatchObject([{ fields: { err: refusal, id: 'm1', verdict: 'acked' } }])
        expect(inputs.map(verdicts)).toEqual([['ack'], ['ack']])
        source.end()
        await run
      }
    })
    expect(unhandled).toEqual([])
    expect(counted.filter((name) => name === 'ackord.settle_failed')).toHaveLength(2)
  })

  it.each(answers)('may be a nack or a reject: %s', async (_what, answer) => {
    const unhandled = await unhandledDuring(async () => {
      for (const [thrown, verdict] of [
        [broken, 'nacked'],
        [new RejectError('never'), 'rejected'],
      ] as const) {
        const { logger, health } = await settledWith(thrown, {}, { answer })
        expect(health).toMatchObject({ state: 'idle', failed: 1, lastError: refusal })
        expect(logger.at('error')).toMatchObject([{ fields: { err: thrown } }, { fields: { err: refusal, verdict } }])
      }
    })
    expect(unhandled).toEqual([])
  })

  it.each(answers)('may be that of a handler that did not wait for it: %s', async (_what, answer) => {
    const unhandled = await unhandledDuring(async () => {
      const { router } = openWorld({ ackStrategy: 'manual' })
      router.handle(handling((message) => void message.ack()))
      await router.run(sourceOf(tracked('m1', { answer })))
      expect(router.health()).toMatchObject({ handled: 1, failed: 0, lastError: refusal })
    })
    expect(unhandled).toEqual([])
  })

  it('may be that of a handler that fails because of it', async () => {
    const { router } = openWorld({ ackStrategy: 'manual' })
    router.handle(
      handling(async (message) => {
        await message.ack()
      }),
    )
    const input = tracked('m1', { answer: () => Promise.reject(refusal) })
    await router.run(sourceOf(input))
    expect(verdicts(input)).toEqual(['ack'])
    expect(router.health()).toMatchObject({ failed: 1, lastError: refusal })
  })

  it('is waited for when the handler fails while its own ack is in flight', async () => {
    const { router } = openWorld()
    const answer = deferred()
    router.handle(
      handling((message) => {
        void message.ack()
        throw broken
      }),
    )
    let ended = false
    const run = router.run(sourceOf(tracked('m1', { answer: () => answer.promise }))).then(() => {
      ended = true
    })
    await settlePromises()
    expect(ended).toBe(false)
    answer.reject(refusal)
    await run
    expect(router.health().lastError).toBe(refusal)
  })

  it('is waited for at the end of a run', async () => {
    const { router } = openWorld()
    const answer = deferred()
    router.handle(handling(() => []))
    let ended = false
    const run = router.run(sourceOf(tracked('m1', { answer: () => answer.promise }))).then(() => {
      ended = true
    })
    await settlePromises()
    expect(ended).toBe(false)
    answer.reject(refusal)
    await run
    expect(router.health().lastError).toBe(refusal)
  })
})

describe('a port that throws', () => {
  it.each([1, 2])('does not stop the router when it is the metrics (concurrency %i)', async (concurrency) => {
    const metrics: Metrics = { count: fail, observe: fail, gauge: fail }
    const { router } = openWorld({ concurrency, metrics })
    router.handle(handling(() => []))
    const inputs = trackedSome(3)
    const unhandled = await unhandledDuring(() => router.run(sourceOf(...inputs)))
    expect(unhandled).toEqual([])
    expect(inputs.map(verdicts)).toEqual([['ack'], ['ack'], ['ack']])
  })

  it('does not keep a message from being settled when it is the logger', async () => {
    const { router } = openWorld({ logger: { ...silentLogger, error: fail } })
    router.handle(handling(fail))
    const inputs = trackedSome(2)
    await router.run(sourceOf(...inputs))
    expect(inputs.map(verdicts)).toEqual([['nack'], ['nack']])
  })
})

describe('a destination that can take nothing', () => {
  it('is not the fault of the message, which is nacked', async () => {
    const { router } = openWorld()
    router.handle(handling(() => [placed()]))
    const publisher = recordingPublisher(async () => [{ ok: false, error: broken, permanent: true, scope: 'destination' }])
    const input = tracked('m1')
    await router.run(sourceOf(input), { publisher, destination: 'nowhere' })
    expect(verdicts(input)).toEqual(['nack'])
  })
})

function fail(): never {
  throw broken
}
