import { describe, expect, it } from 'vitest'
import type { PublishResult } from '../../src/broker/publisher.ts'
import type { Attributes } from '../../src/message/attributes.ts'
import { rootContext } from '../../src/message/context.ts'
import { defineEvent } from '../../src/message/define-event.ts'
import { Message } from '../../src/message/message.ts'
import { deterministicIds, outputIdsKey } from '../../src/message/output-ids.ts'
import { correlationMiddleware } from '../../src/middleware/correlation.ts'
import type { Middleware } from '../../src/middleware/middleware.ts'
import { outputCompleter } from '../../src/router/complete-outputs.ts'
import {
  collect,
  deferred,
  handling,
  openWorld,
  placed,
  recordingPublisher,
  sourceOf,
  tracked,
  trackedSome,
  verdicts,
} from '../support/router-world.ts'
import { settlePromises, VirtualRuntime } from '../support/virtual-runtime.ts'

const broken = new Error('broken')
const text = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes)

async function outputsOf(produce: (message: Message) => unknown, attributes = {}, use: readonly Middleware[] = []) {
  const { router, runtime } = openWorld()
  router.use(...use).handle(handling(produce))
  const input = tracked('m1', { attributes })
  const outputs = await collect(router.pipe(sourceOf(input)))
  return { outputs, input, runtime }
}

describe('outputs with a delay', () => {
  it('are refused where no outbox stores them: the message is rejected, and nothing is published', async () => {
    const overdue = defineEvent('order.overdue')
    for (const deliver of ['publish', 'pipe']) {
      const { router } = openWorld()
      router.handle(handling(() => [placed('a'), overdue({}, { delay: 1000 })]))
      const input = tracked('m1')
      const publisher = recordingPublisher()
      if (deliver === 'publish') await router.run(sourceOf(input), { publisher, destination: 'events' })
      else expect(await collect(router.pipe(sourceOf(input)))).toEqual([])
      expect(verdicts(input)).toEqual(['reject'])
      expect(input.message.error).toMatchObject({
        code: 'ACKORD_INVALID_OUTPUT',
        message: expect.stringContaining('Only an outbox can wait'),
      })
      expect(publisher.calls).toEqual([])
    }
  })
})

describe('completing outputs', () => {
  it('adds missing attributes', async () => {
    const { outputs, runtime } = await outputsOf(() => [new Message('a', { type: 'order.placed' })])
    expect(outputs[0]?.attributes).toEqual({
      type: 'order.placed',
      id: '00000000-0000-4000-8000-000000000001',
      source: '/orders',
      specversion: '1.0',
      time: new Date(runtime.now()).toISOString(),
    })
  })

  it('treats an empty id, source or specversion as missing', async () => {
    const { outputs } = await outputsOf(() => [placed('a', { id: '', source: '', specversion: '', time: '2026-01-01T00:00:00Z' })])
    expect(outputs[0]?.attributes).toMatchObject({ id: '00000000-0000-4000-8000-000000000001', source: '/orders', specversion: '1.0' })
  })

  it('never overwrites existing attributes', async () => {
    const given = {
      type: 'order.placed',
      id: 'own',
      source: '/own',
      specversion: '0.3',
      time: new Date(5),
      correlationid: 'own-correlation',
      traceparent: 'own-trace',
      tracestate: 'own-state',
    }
    const input = { correlationid: 'c', traceparent: 't', tracestate: 's' }
    const { outputs } = await outputsOf(() => [new Message('a', given), placed('b')], input)
    expect(outputs[0]?.attributes).toEqual(given)
    expect(outputs[1]?.attributes).toMatchObject(input)
  })

  it('copies correlation and trace from the input, and invents none', async () => {
    const trace = { correlationid: 'c-1', traceparent: '00-aa-bb-01', tracestate: 'x=1' }
    const { outputs } = await outputsOf(() => [placed('a'), placed('b', { correlationid: 'own' })], trace)
    expect(outputs[0]?.attributes).toMatchObject(trace)
    expect(outputs[1]?.attributes).toMatchObject({ ...trace, correlationid: 'own' })
    const without = await outputsOf(() => [placed('a')])
    expect(without.outputs[0]?.attributes).not.toHaveProperty('correlationid')
    expect(without.outputs[0]?.attributes).not.toHaveProperty('traceparent')
  })

  it.each([
    ['correlationid', 1024],
    ['traceparent', 55],
    ['tracestate', 512],
  ] as const)('omits a %s that is longer than %i characters, and logs it once', async (name, limit) => {
    const { router, logger } = openWorld()
    router.use(correlationMiddleware()).handle(handling(() => [new Message('a', { type: 'order.placed' })]))
    const trace = { correlationid: 'c', traceparent: 'p', tracestate: 's' }
    const inputs = [limit, limit + 1, 70_000].map((length, index) =>
      tracked(`m${index}`, { attributes: { ...trace, [name]: 'x'.repeat(length) } }),
    )
    const outputs = await collect(router.pipe(sourceOf(...inputs)))
    expect(outputs.map(({ attributes }) => String(attributes[name] ?? '').length)).toEqual([limit, 0, 0])
    // The others are copied; only a tracestate without its traceparent is meaningless.
    const [, second] = outputs
    const others = Object.keys(trace).filter((other) => other !== name && !(name === 'traceparent' && other === 'tracestate'))
    for (const other of others) expect(second?.attributes[other]).toBeDefined()
    const lines = logger.lines.filter(({ text }) => text.startsWith('An attribute of a message is too long'))
    expect(lines).toHaveLength(1)
    expect(lines[0]?.fields).toMatchObject({ attribute: name, length: limit + 1, limit })
  })

  it('copies nothing from the input that is not a string', async () => {
    const { router } = openWorld()
    router.handle(handling(() => [placed()]))
    // A broker may pass on what another library wrote.
    const input = tracked('m1', { attributes: { correlationid: 42 as never } })
    const publisher = recordingPublisher()
    await router.run(sourceOf(input), { publisher, destination: 'orders' })
    expect(verdicts(input)).toEqual(['ack'])
    expect(publisher.calls[0]?.messages[0]?.attributes.correlationid).toBeUndefined()
  })

  it("gives outputs that middleware adds before the handler's other ids than those", () => {
    const complete = outputCompleter(new VirtualRuntime(), '/orders')
    const context = rootContext().with(outputIdsKey, deterministicIds('consumer', '/shop', 'm1'))
    const input = tracked('m1').message
    const made = complete([placed('handler')], input, context)
    const all = complete([placed('audit'), ...made], input, context)
    expect(all[1]?.id).toBe(made[0]?.id)
    expect(new Set(all.map(({ id }) => id)).size).toBe(2)
  })

  it('does not mix the state of one trace with the parent of another', async () => {
    const { outputs } = await outputsOf(() => [placed('a', { traceparent: 'own' })], { traceparent: 't', tracestate: 's' })
    expect(outputs[0]?.attributes).toMatchObject({ traceparent: 'own' })
    expect(outputs[0]?.attributes).not.toHaveProperty('tracestate')
  })

  it("does not change the handler's own message", async () => {
    const own = placed('a')
    const { outputs } = await outputsOf(() => [own])
    expect(own.attributes).toEqual({ type: 'order.placed' })
    expect(outputs[0]?.id).toBeDefined()
  })

  it.each(['2026-01-01T00:00:00Z', new Date(5)])('passes a complete output on unchanged (time %s)', async (time) => {
    const own = placed('a', { id: 'i', source: '/s', specversion: '1.0', time, priority: 3 })
    const { outputs } = await outputsOf(() => [own])
    expect(outputs[0]).toBe(own)
  })

  it('uses ids from the context, in order and by type, so that a second run produces the same', async () => {
    const ids: Middleware = (next) => (message, context) =>
      next(message, context.with(outputIdsKey, deterministicIds('orders', message.source ?? '', message.id ?? '')))
    const produce = () => [placed('a'), placed('b', { id: 'own' }), placed('c')]
    const first = await outputsOf(produce, {}, [ids])
    const second = await outputsOf(produce, {}, [ids])
    const expected = deterministicIds('orders', '/shop', 'm1')
    expect(first.outputs.map(({ id }) => id)).toEqual([expected('order.placed'), 'own', expected('order.placed')])
    expect(second.outputs.map(({ id }) => id)).toEqual(first.outputs.map(({ id }) => id))
  })

  it('completes outputs that middleware adds around the handler', async () => {
    const adds: Middleware = (next) => async (message, context) => [...(await next(message, context)), placed('added')]
    const { outputs } = await outputsOf(() => [placed('a')], { correlationid: 'c' }, [adds])
    expect(outputs.map(({ data }) => data)).toEqual(['a', 'added'])
    expect(outputs[1]?.attributes).toMatchObject({ source: '/orders', specversion: '1.0', correlationid: 'c' })
    expect(outputs[0]?.id).not.toBe(outputs[1]?.id)
  })

  it('shows complete outputs to middleware', async () => {
    const seen: unknown[] = []
    const looks: Middleware = (next) => async (message, context) => {
      const outputs = await next(message, context)
      seen.push(...outputs.map(({ attributes }) => Object.keys(attributes).sort()))
      return outputs
    }
    await outputsOf(() => [placed('a')], {}, [looks])
    expect(seen).toEqual([['id', 'source', 'specversion', 'time', 'type']])
  })

  it('sets the same time on all outputs of an instant, and a later one on later outputs', async () => {
    const { router, runtime } = openWorld()
    router.handle(
      handling(async ({ id }) => {
        if (id === 'm2') void runtime.advance(1000)
        return [placed(id)]
      }),
    )
    const outputs = await collect(router.pipe(sourceOf(...trackedSome(1))))
    await runtime.advance(1000)
    const later = await collect(router.pipe(sourceOf(...trackedSome(1))))
    expect((later[0]?.time?.getTime() ?? 0) - (outputs[0]?.time?.getTime() ?? 0)).toBe(1000)
  })
})

describe('invalid outputs', () => {
  class ForeignMessage {
    readonly data = 1
    readonly attributes = { type: 'order.placed' }
  }
  Object.defineProperty(ForeignMessage, 'name', { value: 'Message' })
  const hole: Message[] = []
  hole[1] = placed()

  it.each<[string, unknown, string, RegExp]>([
    ['null', null, 'ACKORD_INVALID_OUTPUT', /null instead of an array/],
    ['a text', 'placed', 'ACKORD_INVALID_OUTPUT', /a string instead of an array/],
    ['a message without a list', placed(), 'ACKORD_INVALID_OUTPUT', /an instance of Message instead/],
    ['a set', new Set([placed()]), 'ACKORD_INVALID_OUTPUT', /an instance of Set/],
    ['a list with null', [null], 'ACKORD_INVALID_OUTPUT', /Output 0 .* is null, not a message/],
    ['a list with undefined', [placed(), undefined], 'ACKORD_INVALID_OUTPUT', /Output 1 .* is undefined/],
    ['a list with a hole', hole, 'ACKORD_INVALID_OUTPUT', /Output 0 .* is undefined/],
    ['a list in a list', [[placed()]], 'ACKORD_INVALID_OUTPUT', /an array, not a message/],
    ['plain data', [{ orderId: 1 }], 'ACKORD_INVALID_OUTPUT', /a plain object, not a message/],
    ['a message of another copy', [new ForeignMessage()], 'ACKORD_INVALID_OUTPUT', /another copy of @ackord\/core/],
    ['an output without type', [new Message('a', {})], 'ACKORD_INVALID_OUTPUT', /has no type/],
    ['an output with an empty type', [new Message('a', { type: '' })], 'ACKORD_INVALID_OUTPUT', /has no type/],
    ['a type that is not a string', [new Message('a', { type: 5 } as never)], 'ACKORD_INVALID_ATTRIBUTES', /'type'/],
    ['an id that is not a string', [placed('a', { id: 5 } as never)], 'ACKORD_INVALID_ATTRIBUTES', /'id'/],
    ['a null id', [placed('a', { id: null } as never)], 'ACKORD_INVALID_ATTRIBUTES', /'id'/],
    ['an invalid time', [placed('a', { time: 'noon' })], 'ACKORD_INVALID_ATTRIBUTES', /'time'/],
    ['an object as extension', [placed('a', { extra: {} } as never)], 'ACKORD_INVALID_ATTRIBUTES', /'extra'/],
    ['NaN as extension', [placed('a', { extra: Number.NaN })], 'ACKORD_INVALID_ATTRIBUTES', /'extra'/],
    ['an attribute named data', [placed('a', { data: 'x' })], 'ACKORD_INVALID_ATTRIBUTES', /'data'/],
    ['a duplicate id', [placed('a', { id: 'x' }), placed('b', { id: 'x' })], 'ACKORD_DUPLICATE_ID', /Outputs 0 and 1 .*'x'/],
  ])('nacks a message that results in %s, and delivers nothing', async (_what, result, code, problem) => {
    const { outputs, input } = await outputsOf(() => result)
    expect(outputs).toEqual([])
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code, message: expect.stringMatching(problem) } }])
  })

  const whole = { id: 'i', source: '/s', specversion: '1.0', time: '2026-01-01T00:00:00Z' }
  it.each<[string, Record<string, unknown>]>([
    ['a time that is not a string', { ...whole, time: 5 }],
    ['a subject that is not a string', { ...whole, subject: 5 }],
    ['an object as extension', { ...whole, extra: {} }],
    ['an invalid expiry', { ...whole, expirytime: 5 }],
  ])('nacks it also when the output is complete: %s', async (_what, attributes) => {
    const { outputs, input } = await outputsOf(() => [placed('a', attributes as Attributes)])
    expect(outputs).toEqual([])
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_INVALID_ATTRIBUTES' } }])
  })

  it('nacks it at the latest when the output is published: a string that is not a time', async () => {
    const { router } = openWorld()
    router.handle(handling(() => [placed('a', { ...whole, time: 'noon' })]))
    const publisher = recordingPublisher()
    const input = tracked('m1')
    await router.run(sourceOf(input), { publisher, destination: 'orders' })
    expect(publisher.calls).toEqual([])
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_INVALID_ATTRIBUTES' } }])
  })

  it('treats the same id under two sources as two', async () => {
    const { outputs } = await outputsOf(() => [placed('a', { id: 'x', source: '/a' }), placed('b', { id: 'x', source: '/b' })])
    expect(outputs).toHaveLength(2)
  })

  it('treats undefined as no outputs', async () => {
    const { outputs, input } = await outputsOf(() => undefined)
    expect(outputs).toEqual([])
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('rejects a message whose output has no source, of its own, the handler or the router: trying again would not help', async () => {
    const { router } = openWorld({ source: undefined })
    router.handle(handling(({ id }) => [id === 'm1' ? placed() : placed('a', { source: '/own' })]))
    const inputs = trackedSome(2)
    expect(await collect(router.pipe(sourceOf(...inputs)))).toHaveLength(1)
    expect(inputs[0]?.calls).toMatchObject([
      {
        verdict: 'reject',
        error: {
          code: 'ACKORD_INVALID_OUTPUT',
          message: expect.stringContaining("has no source. Set one on the handler or the router (`source: '/orders'`"),
        },
      },
    ])
    expect(verdicts(inputs[1] ?? { calls: [] })).toEqual(['ack'])
  })

  it('does not show the data of an output in errors', async () => {
    const { input } = await outputsOf(() => [{ secret: 'hunter2' }])
    expect(String(input.calls[0]?.error)).not.toContain('hunter2')
  })
})

describe('publishing outputs', () => {
  async function published(
    produce: (message: Message) => unknown,
    answer?: Parameters<typeof recordingPublisher>[0],
    destination: string | ((message: Message) => string) = 'orders',
  ) {
    const { router, logger } = openWorld({ redeliveryDelay: () => 40 })
    router.handle(handling(produce))
    const publisher = recordingPublisher(answer)
    const inputs = trackedSome(2)
    await router.run(sourceOf(...inputs), { publisher, destination })
    return { calls: publisher.calls, inputs, logger, health: router.health() }
  }

  it('publishes the outputs of a message in one call, marshalled', async () => {
    const { calls, inputs } = await published(({ id }) => [placed({ id }), placed(new Uint8Array([1, 2]))])
    expect(calls).toHaveLength(2)
    expect(calls[0]?.destination).toBe('orders')
    expect(text(calls[0]?.messages[0]?.data)).toBe('{"id":"m1"}')
    expect(calls[0]?.messages[0]?.attributes).toMatchObject({
      type: 'order.placed',
      datacontenttype: 'application/json',
      source: '/orders',
    })
    expect(calls[0]?.messages[1]?.attributes.datacontenttype).toBe('application/octet-stream')
    expect(inputs.map(verdicts)).toEqual([['ack'], ['ack']])
  })

  it('does not call the publisher without outputs', async () => {
    const { calls } = await published(() => [])
    expect(calls).toEqual([])
  })

  it('sends outputs to several destinations, those of one in one call and in order', async () => {
    const { calls } = await published(
      () => ['a', 'b', 'a', 'c'].map((subject, index) => placed(index, { subject })),
      undefined,
      ({ subject }) => `to-${subject}`,
    )
    const first = calls.slice(0, 3)
    expect(first.map(({ destination, messages }) => [destination, messages.map(({ data }) => text(data))])).toEqual([
      ['to-a', ['0', '2']],
      ['to-b', ['1']],
      ['to-c', ['3']],
    ])
  })

  it('nacks the input when the publisher rejects half a batch', async () => {
    const results: PublishResult[] = [{ ok: true }, { ok: false, error: broken }]
    const { inputs, logger, health } = await published(
      () => [placed('a'), placed('b')],
      async () => results,
    )
    expect(inputs[0]?.calls).toMatchObject([
      { verdict: 'nack', error: { code: 'ACKORD_PUBLISH_FAILED', cause: broken }, options: { retryAfter: 40 } },
    ])
    expect(health).toMatchObject({ handled: 0, failed: 2 })
    expect(logger.at('error')).toHaveLength(2)
  })

  it('keeps all causes when several fail', async () => {
    const { inputs } = await published(
      () => [placed('a'), placed('b')],
      async () => [
        { ok: false, error: broken },
        { ok: false, error: 'text' },
      ],
    )
    expect(inputs[0]?.calls[0]?.error).toMatchObject({ cause: { errors: [broken, 'text'] } })
  })

  it('rejects the input when one of its outputs can never be published', async () => {
    const { inputs } = await published(
      () => [placed('a'), placed('b')],
      async () => [
        { ok: false, error: broken },
        { ok: false, error: broken, permanent: true },
      ],
    )
    expect(inputs[0]?.calls).toMatchObject([{ verdict: 'reject', error: { code: 'ACKORD_PUBLISH_FAILED', retryable: false } }])
  })

  it('requests a redelivery of the input after the longest pause that the broker requested', async () => {
    const { inputs } = await published(
      () => [placed('a'), placed('b'), placed('c')],
      async () => [
        { ok: false, error: broken, retryAfter: 3000 },
        { ok: false, error: broken, retryAfter: 5000 },
        { ok: false, error: broken },
      ],
    )
    expect(inputs[0]?.calls).toMatchObject([{ verdict: 'nack', options: { retryAfter: 5000 } }])
  })

  it.each<[string, unknown]>([
    ['too few', [{ ok: true }]],
    ['too many', [{ ok: true }, { ok: true }, { ok: true }]],
    ['none', []],
    ['no list', undefined],
    ['a list of something else', [undefined, null]],
    ['a list with a hole', new Array(2)],
  ])('nacks the input when the publisher returns %s', async (_what, results) => {
    const { inputs } = await published(
      () => [placed('a'), placed('b')],
      async () => results as PublishResult[],
    )
    expect(inputs.map(verdicts)).toEqual([['nack'], ['nack']])
    expect(inputs[0]?.calls[0]?.error).toMatchObject({ code: 'ACKORD_PUBLISH_FAILED' })
  })

  it.each<[string, () => Promise<PublishResult[]>]>([
    ['rejects', () => Promise.reject(broken)],
    [
      'throws',
      () => {
        throw broken
      },
    ],
  ])('nacks the input when the publisher %s', async (_what, answer) => {
    const { inputs, health } = await published(() => [placed()], answer)
    expect(inputs[0]?.calls).toMatchObject([{ verdict: 'nack', error: broken }])
    expect(health.lastError).toBe(broken)
  })

  it('publishes to no further destination when one has failed', async () => {
    const { calls, inputs } = await published(
      () => [placed('a', { subject: 'a' }), placed('b', { subject: 'b' })],
      async () => [{ ok: false, error: broken }],
      ({ subject }) => subject ?? '',
    )
    expect(calls.map(({ destination }) => destination)).toEqual(['a', 'a'])
    expect(inputs.map(verdicts)).toEqual([['nack'], ['nack']])
  })

  it('sends nothing when one of the outputs cannot be marshalled', async () => {
    const { calls, inputs } = await published(() => [placed('a'), placed(undefined, { id: 'x' }), placed(10n)])
    expect(calls).toEqual([])
    expect(inputs[0]?.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_MARSHAL_FAILED' } }])
  })

  it('nacks the input when the destination function throws', async () => {
    const { calls, inputs } = await published(
      () => [placed()],
      undefined,
      () => {
        throw broken
      },
    )
    expect(calls).toEqual([])
    expect(inputs[0]?.calls).toMatchObject([{ verdict: 'nack', error: broken }])
  })

  it.each(['', undefined, 5])('nacks the input when the destination function returns %j', async (value) => {
    const { calls, inputs } = await published(
      () => [placed()],
      undefined,
      () => value as string,
    )
    expect(calls).toEqual([])
    expect(inputs[0]?.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_NO_OUTPUT' } }])
  })

  it('nacks an input with outputs when there is no publisher', async () => {
    const { router } = openWorld()
    router.handle(handling(({ id }) => (id === 'm1' ? [placed()] : [])))
    const inputs = trackedSome(2)
    await router.run(sourceOf(...inputs))
    expect(inputs[0]?.calls).toMatchObject([
      { verdict: 'nack', error: { code: 'ACKORD_NO_OUTPUT', message: expect.stringContaining('publisher') } },
    ])
    expect(verdicts(inputs[1] ?? { calls: [] })).toEqual(['ack'])
  })

  it.each([
    ['10 s', undefined, 10_000],
    ['its publishTimeout', 50, 50],
  ])('nacks the input when the publisher does not answer within %s', async (_what, publishTimeout, limit) => {
    const { router, runtime } = openWorld()
    router.handle(handling(() => [placed()]))
    const input = tracked('m1')
    const publisher = recordingPublisher(() => new Promise(() => {}))
    const run = router.run(sourceOf(input), { publisher, destination: 'orders', publishTimeout })
    await runtime.advance(limit - 1)
    expect(verdicts(input)).toEqual([])
    await runtime.advance(1)
    await run
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_PUBLISH_FAILED' } }])
    expect(publisher.calls[0]?.signal.aborted).toBe(true)
    expect(runtime.timers).toBe(0)
  })

  it('rejects an invalid publishTimeout', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const run = router.run(sourceOf(), { publisher: recordingPublisher(), destination: 'orders', publishTimeout: 0 })
    await expect(run).rejects.toThrow(/^publishTimeout must be/)
  })

  it('publishes for many concurrent messages without a MaxListenersExceededWarning', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error) => void warnings.push(warning)
    process.on('warning', onWarning)
    try {
      const { router } = openWorld({ concurrency: 30 })
      const confirmed = deferred()
      router.handle(
        handling((_message, context) => {
          context.signal.addEventListener('abort', () => {})
          return [placed()]
        }),
      )
      const publisher = recordingPublisher(async () => {
        await confirmed.promise
        return [{ ok: true }]
      })
      const run = router.run(sourceOf(...trackedSome(30)), { publisher, destination: 'orders' })
      await settlePromises()
      expect(publisher.calls).toHaveLength(30)
      confirmed.resolve()
      await run
      await settlePromises()
      expect(warnings).toEqual([])
    } finally {
      process.off('warning', onWarning)
    }
  })
})
