import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { constantBackoff } from '../../src/async/backoff.ts'
import type { DeadLetter } from '../../src/broker/dead-letter.ts'
import { MemoryBroker } from '../../src/broker/memory/memory-broker.ts'
import { AckordError, isAckordError, RejectError } from '../../src/errors.ts'
import type { Handler } from '../../src/handler/handler.ts'
import { commandHandler } from '../../src/handler/typed-handler.ts'
import { marshal } from '../../src/message/marshal.ts'
import { jsonMarshaler } from '../../src/message/marshaler.ts'
import { Message, type RawMessage } from '../../src/message/message.ts'
import type { StandardSchema } from '../../src/message/schema.ts'
import { deadLetterMiddleware } from '../../src/middleware/dead-letter.ts'
import { loggingMiddleware } from '../../src/middleware/logging.ts'
import type { Middleware } from '../../src/middleware/middleware.ts'
import { retryMiddleware } from '../../src/middleware/retry.ts'
import type { CodecCallOptions, PayloadCodec } from '../../src/payload/codec.ts'
import { encrypted } from '../../src/payload/encrypted.ts'
import { staticKeys } from '../../src/payload/key-ring.ts'
import { decodePayload, encodePayload } from '../../src/payload/payload-functions.ts'
import type { Logger } from '../../src/ports/observability.ts'
import { Engine } from '../../src/router/engine.ts'
import { Router } from '../../src/router/router.ts'
import type { RouterOptions } from '../../src/router/router-options.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { deferred, handling, openWorld, placed, recordingPublisher, sourceOf, tracked, verdicts } from '../support/router-world.ts'
import { settlePromises, VirtualRuntime } from '../support/virtual-runtime.ts'

/** Writes data as `name(data)`, and reads it back. */
function wrapping(name: string): PayloadCodec & { readonly encoded: string[]; readonly decoded: string[] } {
  const encoded: string[] = []
  const decoded: string[] = []
  return {
    encoded,
    decoded,
    encode(message) {
      encoded.push(String(message.id))
      return withText(message, `${name}(${textOf(message)})`).withAttributes({ wrapped: name, datacontenttype: 'application/x-wrapped' })
    },
    async decode(message) {
      decoded.push(String(message.id))
      const [, inner] = new RegExp(`^${name}\\((.*)\\)$`).exec(textOf(message)) ?? []
      if (inner === undefined) return message
      return withText(message, inner).withAttributes({ wrapped: undefined, datacontenttype: 'application/json' })
    },
  }
}

/** A codec of which only the reading matters. */
function reading(decode: (message: RawMessage, options: CodecCallOptions) => RawMessage | Promise<RawMessage>): PayloadCodec {
  return { encode: (message) => message, decode }
}

/** A handler without outputs that records something of each message. */
function noting(seen: unknown[], what: (message: Message) => readonly unknown[]): Handler {
  return handling((message) => {
    seen.push(...what(message))
    return []
  })
}

function withText(message: RawMessage, text: string): RawMessage {
  return message.copy(new TextEncoder().encode(text))
}

function textOf({ data }: RawMessage): string {
  return new TextDecoder().decode(data)
}

describe('the messages of a source', () => {
  it('are decoded before they are unmarshalled, by the last codec first', async () => {
    const [outer, inner] = [wrapping('outer'), wrapping('inner')]
    const { router } = openWorld()
    const seen: unknown[] = []
    router.handle(noting(seen, ({ data, attributes }) => [data, attributes['wrapped'], attributes.datacontenttype]))
    const { message, calls } = tracked('m1')
    const sent = withText(message, 'inner(outer({"total":7}))').withAttributes({ wrapped: 'inner' })
    await router.run(sourceOf({ message: sent }), { codecs: [outer, inner] })
    expect(seen).toEqual([{ total: 7 }, undefined, 'application/json'])
    expect(verdicts({ calls })).toEqual(['ack'])
  })

  it('are decoded by the codecs of the router, unless the run has its own', async () => {
    const own = wrapping('own')
    const codec = wrapping('router')
    const options = { codecs: [codec] }
    const seen: unknown[] = []
    const handler = noting(seen, ({ data }) => [data])
    const message = (text: string) => ({ message: withText(tracked('m1').message, text) })
    await openWorld(options)
      .router.handle(handler)
      .run(sourceOf(message('router(1)')))
    await openWorld(options)
      .router.handle(handler)
      .run(sourceOf(message('own(2)')), { codecs: [own] })
    await openWorld(options)
      .router.handle(handler)
      .run(sourceOf(message('3')), { codecs: [] })
    expect(seen).toEqual([1, 2, 3])
    expect([codec.decoded, own.decoded]).toEqual([['m1'], ['m1']])
  })

  it('are not handled while a codec works, and the router stops when it has ended', async () => {
    const begun = deferred()
    const blocked = deferred()
    const { router } = openWorld()
    const handled: unknown[] = []
    router.handle(noting(handled, ({ data }) => [data]))
    const input = tracked('m1', { data: 1 })
    const codec = reading(async (message) => {
      begun.resolve()
      await blocked.promise
      return message
    })
    const running = router.run(sourceOf(input), { codecs: [codec] })
    await begun.promise
    const stopped = router.stop()
    expect([handled, verdicts(input), router.health().inFlight]).toEqual([[], [], 1])
    blocked.resolve()
    await Promise.all([running, stopped])
    expect([handled, verdicts(input)]).toEqual([[1], ['ack']])
  })

  it('are nacked if a codec fails, without an attempt that counts, for twice as many deliveries', async () => {
    const outage = new Error('connection refused')
    let calls = 0
    const codec = reading(async () => {
      calls += 1
      throw outage
    })
    const { router, logger } = openWorld({ maxDeliveries: 3, redeliveryDelay: () => 50 })
    router.handle(handling(() => expect.unreachable()))
    const inputs = [1, 3, 6, 7].map((deliveryCount) => tracked(`m${deliveryCount}`, { deliveryCount }))
    await router.run(sourceOf(...inputs), { codecs: [codec] })
    expect(inputs.map(verdicts)).toEqual([['nack'], ['nack'], ['nack'], ['reject']])
    expect(inputs[0]?.calls[0]).toMatchObject({ error: { code: 'ACKORD_CODEC_FAILED', cause: outage }, options: { retryAfter: 50 } })
    expect(calls).toBe(3)
    expect(logger.at('error')).toHaveLength(4)
  })

  it('are rejected if a codec says that the message is at fault', async () => {
    const fault = new AckordError('ACKORD_PAYLOAD_INVALID', 'It was changed.', { retryable: false })
    const { router } = openWorld()
    router.handle(handling(() => expect.unreachable()))
    const input = tracked('m1')
    await router.run(sourceOf(input), { codecs: [reading(() => Promise.reject(fault))] })
    expect(input.calls).toEqual([{ verdict: 'reject', error: fault }])
  })

  it('are nacked if a codec does not answer within codecTimeout, and its signal is aborted', async () => {
    const { router, runtime } = openWorld({ codecTimeout: 200 })
    router.handle(handling(() => expect.unreachable()))
    const begun = deferred<AbortSignal>()
    const codec = reading((_message, { signal }) => {
      begun.resolve(signal)
      return new Promise(() => {})
    })
    const input = tracked('m1', { deliveryCount: 20 })
    const running = router.run(sourceOf(input), { codecs: [codec] })
    const signal = await begun.promise
    await runtime.advance(199)
    expect([input.calls, signal.aborted]).toEqual([[], false])
    await runtime.advance(1)
    await running
    expect(input.calls).toMatchObject([
      { verdict: 'nack', error: { code: 'ACKORD_CODEC_FAILED', message: expect.stringContaining('200 ms') } },
    ])
    expect([signal.aborted, runtime.timers]).toEqual([true, 0])
  })

  it('are nacked by a forced stop while a codec works', async () => {
    const { router } = openWorld({ shutdownTimeout: 0 })
    router.handle(handling(() => expect.unreachable()))
    const begun = deferred()
    const codec = reading(() => {
      begun.resolve()
      return new Promise(() => {})
    })
    const input = tracked('m1')
    const running = router.run(sourceOf(input), { codecs: [codec] })
    await begun.promise
    await router.stop()
    await running
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_SHUTDOWN' } }])
  })

  it('keep their order per key while they are decoded', async () => {
    const lastBegun = deferred()
    const { router } = openWorld({ concurrency: 4, orderingKey: ({ attributes }) => String(attributes['partitionkey']) })
    const handled: unknown[] = []
    router.handle(noting(handled, ({ id }) => [id]))
    const codec = reading(async (message) => {
      if (message.id === 'a1') await lastBegun.promise
      if (message.id === 'b1') lastBegun.resolve()
      return message
    })
    const inputs = ['a1', 'a2', 'b1'].map((id) => tracked(id, { attributes: { partitionkey: id[0] } }))
    await router.run(sourceOf(...inputs), { codecs: [codec] })
    expect(handled.filter((id) => id !== 'b1')).toEqual(['a1', 'a2'])
    expect(handled).toContain('b1')
  })

  it('that are not bytes are reported as a fault of the source, as without codecs', async () => {
    const { router } = openWorld()
    router.handle(handling(() => expect.unreachable()))
    const input = tracked('m1')
    const typed = input.message.copy({ total: 1 }) as unknown as RawMessage
    await router.run(sourceOf({ message: typed }), { codecs: [reading(() => expect.unreachable())] })
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_WRONG_DATA' } }])
  })
})

describe('outputs without an outbox', () => {
  it('are encoded once, all of them before the first is published', async () => {
    const codec = wrapping('codec')
    const { router } = openWorld()
    router.handle(handling(() => [placed(1, { id: 'e1' }), placed(2, { id: 'e2', type: 'order.paid' })]))
    const encodedBefore: string[][] = []
    const publisher = recordingPublisher(async ({ messages }) => {
      encodedBefore.push([...codec.encoded])
      return messages.map(() => ({ ok: true }))
    })
    await router.run(sourceOf(tracked('m1')), { publisher, destination: ({ type }) => String(type), codecs: [codec] })
    expect(publisher.calls.map(({ destination, messages }) => [destination, ...messages.map(textOf)])).toEqual([
      ['order.placed', 'codec(1)'],
      ['order.paid', 'codec(2)'],
    ])
    expect(encodedBefore).toEqual([
      ['e1', 'e2'],
      ['e1', 'e2'],
    ])
  })

  it('are not published if a codec fails for one of them, and the input is nacked without an attempt that counts', async () => {
    const { router } = openWorld({ maxDeliveries: 2 })
    router.handle(handling(() => [placed(1), placed(2, { type: 'order.paid' })]))
    const codec: PayloadCodec = {
      async encode(message) {
        if (message.type === 'order.paid') throw new Error('the bucket is gone')
        return message
      },
      decode: (message) => message,
    }
    const publisher = recordingPublisher()
    const input = tracked('m1', { deliveryCount: 2 })
    await router.run(sourceOf(input), { publisher, destination: ({ type }) => String(type), codecs: [codec] })
    expect(publisher.calls).toEqual([])
    expect(input.calls).toMatchObject([
      { verdict: 'nack', error: { code: 'ACKORD_CODEC_FAILED', cause: { message: 'the bucket is gone' } } },
    ])
  })

  it('are given up at the codecTimeout, and the input is nacked', async () => {
    const { router, runtime } = openWorld()
    router.handle(handling(() => [placed(1)]))
    const begun = deferred()
    const codec: PayloadCodec = {
      encode() {
        begun.resolve()
        return new Promise(() => {})
      },
      decode: (message) => message,
    }
    const publisher = recordingPublisher()
    const input = tracked('m1')
    const running = router.run(sourceOf(input), { publisher, destination: 'events', codecs: [codec], codecTimeout: 300 })
    await begun.promise
    await runtime.advance(300)
    await running
    expect([publisher.calls, verdicts(input), runtime.timers]).toEqual([[], ['nack'], 0])
  })

  it('that are the received message are encoded anew', async () => {
    const codec = encrypted({ keys: staticKeys({ current: 'k', keys: { k: new Uint8Array(32).fill(1) } }) })
    const received = await encodePayload(marshal(new Message('secret', identity), jsonMarshaler), [codec])
    const { router } = openWorld()
    router.handle(handling((message) => [message]))
    const publisher = recordingPublisher()
    await router.run(sourceOf({ message: received }), { publisher, destination: 'copies', codecs: [codec] })
    const [forwarded] = publisher.calls[0]?.messages ?? []
    expect(forwarded?.data).not.toEqual(received.data)
    expect(textOf(await decodePayload(forwarded as RawMessage, [codec]))).toBe('"secret"')
  })
})

describe('an engine', () => {
  it('has codecs per input and output, and else those of its router', async () => {
    const [shop, audit, common] = [wrapping('shop'), wrapping('audit'), wrapping('common')]
    const logger = recordingLogger()
    const router = new Router({ logger, source: '/test', codecs: [common] })
    router.handle(handling(({ data }) => [placed(data)]))
    const broker = new MemoryBroker({ logger, history: Infinity })
    const engine = new Engine(router)
      .addOutput(broker, { name: 'audit', match: ({ source }) => source === '/shop', destination: 'audit', codecs: [audit] })
      .addOutput(broker, { name: 'rest', destination: 'rest' })
    engine.addInput(broker.source('shop'), { name: 'shop', codecs: [shop] })
    engine.addInput(broker.source('office'), { name: 'office' })
    const run = engine.start()
    await broker.publish('shop', [withText(tracked('m1').message, 'shop(1)')])
    await broker.publish('office', [withText(tracked('m2').message, 'common(2)')])
    await Promise.all([broker.idle('shop'), broker.idle('office')])
    await engine.stop()
    await run
    expect(broker.published('rest').map(textOf).toSorted()).toEqual(['common(1)', 'common(2)'])
    expect([shop.decoded, common.decoded]).toEqual([['m1'], ['m2']])
  })
})

it.each([
  ['codecs', { codecs: [{ encode: () => expect.unreachable() }] }],
  ['codecTimeout', { codecTimeout: 0 }],
])('rejects an invalid %s of a router, a run, an input and an output', async (name, invalid) => {
  const options = invalid as object
  const error = expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) })
  expect(() => new Router(options)).toThrow(error)
  const router = new Router().handle(handling(() => []))
  await expect(router.run(sourceOf(), options)).rejects.toEqual(error)
  const broker = new MemoryBroker()
  const engine = new Engine(router)
  expect(() => engine.addInput(broker.source('shop'), { name: 'shop', ...options })).toThrow(error)
  expect(() => engine.addOutput(broker, { name: 'out', destination: 'out', ...options })).toThrow(error)
})

const identity = { id: 'order-1', type: 'order.place', source: '/shop', specversion: '1.0' }
const secret = 'Jane Roe, 4111-1111-1111-1111'

const refusing: StandardSchema<string> = {
  '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [{ message: 'no such customer' }] }) },
}

interface Failing {
  readonly title: string
  readonly code: string | undefined
  readonly handler?: Handler | undefined
  readonly router?: RouterOptions | undefined
  /** The middleware of the router. Rejected messages go to `letters`, too. */
  readonly use?: ((letters: DeadLetter, logger: Logger) => readonly Middleware[]) | undefined
  /** The message that is sent, of data that contains the secret. Default: an encrypted one of JSON. */
  readonly sent?: ((message: RawMessage, codec: PayloadCodec) => Promise<RawMessage>) | undefined
  readonly forgotten?: boolean | undefined
}

const failing = handling(() => {
  throw new Error('no stock')
})
const rejecting = handling(() => {
  throw new RejectError('no such customer')
})

const failures: readonly Failing[] = [
  { title: 'a handler that rejects it', code: 'ACKORD_REJECTED', handler: rejecting },
  { title: 'maxDeliveries', code: 'ACKORD_MAX_DELIVERIES', handler: failing, router: { maxDeliveries: 1 } },
  {
    title: 'a handler that exceeds processTimeout at the last delivery',
    code: 'ACKORD_MAX_DELIVERIES',
    handler: handling(
      (_message, { signal }) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    ),
    router: { maxDeliveries: 1, processTimeout: 20 },
  },
  { title: 'onError', code: undefined, handler: failing, router: { onError: () => 'reject' } },
  { title: 'no handler for its type', code: 'ACKORD_NO_HANDLER', handler: handling(() => [], 'order.cancel') },
  {
    title: 'data that its schema refuses',
    code: 'ACKORD_VALIDATION_FAILED',
    handler: commandHandler({ type: 'order.place', source: '/orders', schema: refusing }, () => []),
  },
  {
    title: 'data that is not JSON',
    code: 'ACKORD_UNMARSHAL_FAILED',
    sent: (message, codec) => encodePayload(withText(message, `{"card": ${secret}`), [codec]),
  },
  { title: 'a key that was forgotten', code: 'ACKORD_KEY_FORGOTTEN', forgotten: true },
  {
    title: 'data that was changed',
    code: 'ACKORD_PAYLOAD_INVALID',
    async sent(message, codec) {
      const encoded = await encodePayload(message, [codec])
      const data = encoded.data.slice()
      data.set([(data.at(-1) ?? 0) ^ 1], data.byteLength - 1)
      return encoded.copy(data)
    },
  },
  {
    title: 'deadLetterMiddleware()',
    code: undefined,
    handler: failing,
    use: (letters) => [deadLetterMiddleware(letters)],
  },
  {
    title: 'deadLetterMiddleware() behind retries',
    code: 'ACKORD_RETRY_EXHAUSTED',
    handler: failing,
    use: (letters, logger) => [
      loggingMiddleware(logger),
      deadLetterMiddleware(letters),
      retryMiddleware({ attempts: 2, backoff: constantBackoff(0), logger }),
    ],
  },
]

describe('a dead letter is the message as it was received, encrypted, and no log line or error shows its data', () => {
  it.each(failures)('after $title', async ({ code, handler = failing, router: options, use, sent, forgotten = false }) => {
    const logger = recordingLogger()
    const broker = new MemoryBroker({ logger, history: Infinity })
    const letters = { publisher: broker, destination: 'dead' }
    const writer = encrypted({ keys: staticKeys({ current: 'jane', keys: { jane: key('jane') } }) })
    const reader = encrypted({
      keys: staticKeys({
        current: 'common',
        keys: { common: key('common'), ...(forgotten ? {} : { jane: key('jane') }) },
        forgotten: forgotten ? ['jane'] : [],
      }),
    })
    const plain = marshal(new Message({ customer: secret }, identity), jsonMarshaler)
    const message = await (sent?.(plain, writer) ?? encodePayload(plain, [writer]))
    const errors: Error[] = []
    const { onError } = options ?? {}
    const router = new Router({
      logger,
      codecs: [reader],
      ...options,
      onError(error, failed) {
        errors.push(error)
        return onError?.(error, failed)
      },
    })
    router.use(...(use?.(letters, logger) ?? []))
    const running = router.handle(handler).run(broker.source('orders', { deadLetter: letters }))
    await broker.publish('orders', [message])
    await broker.idle('orders')
    await router.stop()
    await running

    const [letter, ...more] = broker.published('dead')
    expect(more).toEqual([])
    expect(letter?.data).toEqual(message.data)
    expect(letter?.attributes).toMatchObject({ ...message.attributes, deadletterreason: expect.any(String) })
    expect(letter?.attributes['deadlettercode']).toBe(code)
    const shown = inspect([letter?.attributes, logger.lines, errors, router.health().lastError], { depth: Infinity, showHidden: true })
    expect(shown).not.toContain('4111')
    // With the key, an operator can read it.
    if (sent === undefined) expect(await decodePayload(letter as RawMessage, [writer])).toMatchObject({ data: plain.data })
  })

  function key(name: string): Uint8Array {
    return new Uint8Array(32).fill(name.length)
  }
})

it('is not held up by a message whose codec hangs: others are handled within the concurrency', async () => {
  const runtime = new VirtualRuntime()
  const router = new Router({ runtime, logger: recordingLogger(), concurrency: 2, codecTimeout: 1000 })
  const handled: unknown[] = []
  router.handle(noting(handled, ({ id }) => [id]))
  const codec = reading((message) => (message.id === 'm1' ? new Promise(() => {}) : message))
  const inputs = ['m1', 'm2', 'm3'].map((id) => tracked(id))
  const running = router.run(sourceOf(...inputs), { codecs: [codec] })
  await settlePromises()
  expect(handled).toEqual(['m2', 'm3'])
  await runtime.advance(1000)
  await running
  expect(inputs.map(verdicts)).toEqual([['nack'], ['ack'], ['ack']])
  expect(inputs[0]?.calls.every(({ error }) => isAckordError(error, 'ACKORD_CODEC_FAILED'))).toBe(true)
})
