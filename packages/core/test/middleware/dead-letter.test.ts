import { expect, it } from 'vitest'
import type { Publisher, PublishResult } from '../../src/broker/publisher.ts'
import { AckordError, RejectError } from '../../src/errors.ts'
import { rootContext } from '../../src/message/context.ts'
import { textMarshaler } from '../../src/message/marshaler.ts'
import { Message, type RawMessage } from '../../src/message/message.ts'
import { type DeadLetterOptions, deadLetterMiddleware } from '../../src/middleware/dead-letter.ts'
import type { Process } from '../../src/middleware/middleware.ts'
import { silentLogger } from '../../src/ports/observability.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { trackedMessage } from '../support/tracked-message.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const broken = new Error('broken')
const failing: Process = () => Promise.reject(broken)

function world(options: DeadLetterOptions & { answer?: () => Promise<readonly PublishResult[]> } = {}) {
  const { answer = async () => [{ ok: true }] as const, ...rest } = options
  const runtime = new VirtualRuntime()
  const sent: { destination: string; letter: RawMessage | undefined }[] = []
  const publisher: Publisher = {
    publish: (destination, [letter]) => {
      sent.push({ destination, letter })
      return answer()
    },
  }
  const middleware = deadLetterMiddleware({ publisher, destination: 'dead' }, { runtime, logger: silentLogger, ...rest })
  return { runtime, sent, middleware }
}

const attributes = { id: '1', type: 'order.placed', source: '/orders', specversion: '1.0' }
const message = new Message<unknown>({ number: 1 }, attributes)

it('passes on handled messages', async () => {
  const { middleware, sent } = world()
  const outputs = [new Message(1)]
  expect(await middleware(async () => outputs)(message, rootContext())).toBe(outputs)
  expect(sent).toEqual([])
})

it('sends a failed message and treats it as handled, without outputs', async () => {
  const { middleware, sent, runtime } = world()
  expect(await middleware(failing)(message, rootContext())).toEqual([])
  expect(sent).toHaveLength(1)
  expect(sent[0]?.destination).toBe('dead')
  expect(new TextDecoder().decode(sent[0]?.letter?.data)).toBe('{"number":1}')
  expect(sent[0]?.letter?.attributes).toEqual({
    ...attributes,
    datacontenttype: 'application/json',
    deadletterreason: 'broken',
    deadlettertime: new Date(runtime.now()).toISOString(),
  })
  expect(runtime.timers).toBe(0)
})

it('sends a message with invalid attributes', async () => {
  const { middleware, sent } = world()
  expect(await middleware(failing)(new Message<unknown>({}, { ...attributes, time: 'yesterday' }), rootContext())).toEqual([])
  expect(sent[0]?.letter?.attributes).toMatchObject({ time: 'yesterday', deadletterreason: 'broken' })
})

it('sends nothing for a message that its handler has rejected before it failed', async () => {
  const { middleware, sent } = world()
  const { message: rejected, calls } = trackedMessage<unknown>({}, attributes)
  const rejecting: Process = async (given) => {
    await given.reject(broken)
    throw broken
  }
  await expect(middleware(rejecting)(rejected, rootContext())).rejects.toBe(broken)
  expect(calls).toMatchObject([{ verdict: 'reject' }])
  expect(sent).toEqual([])
})

it('includes the code of an AckordError, and sends bytes unchanged', async () => {
  const { middleware, sent } = world()
  const bytes = new Uint8Array([1, 2])
  const raw = new Message<unknown>(bytes, { ...attributes, datacontenttype: 'image/png' })
  await middleware(() => Promise.reject(new RejectError('bad order')))(raw, rootContext())
  expect(sent[0]?.letter?.data).toEqual(bytes)
  expect(sent[0]?.letter?.attributes).toMatchObject({ deadlettercode: 'ACKORD_REJECTED', datacontenttype: 'image/png' })
})

it('writes the data with the configured marshaler', async () => {
  const { middleware, sent } = world({ marshaler: textMarshaler })
  await middleware(failing)(message.copy('plain'), rootContext())
  expect(sent[0]?.letter?.dataContentType).toBe('text/plain; charset=utf-8')
})

it('leaves the ack to the router', async () => {
  const { middleware, sent } = world()
  const { message: tracked, calls } = trackedMessage('data')
  expect(await middleware(failing)(tracked, rootContext())).toEqual([])
  expect(sent).toHaveLength(1)
  expect(calls).toEqual([])
})

it.each(['ack', 'nack', 'reject'] as const)('does not send a message that was settled by %s()', async (verdict) => {
  const { middleware, sent } = world()
  const { message: tracked } = trackedMessage('data')
  const run = middleware(async (given) => {
    await given[verdict](broken)
    throw broken
  })
  await expect(run(tracked, rootContext())).rejects.toBe(broken)
  expect(sent).toEqual([])
})

it('does not send a message whose handling was aborted', async () => {
  const { middleware, sent } = world({ shouldSend: () => true })
  const signal = AbortSignal.abort(new AckordError('ACKORD_SHUTDOWN', 'stopping'))
  await expect(middleware(failing)(message, rootContext({ signal }))).rejects.toBe(broken)
  expect(sent).toEqual([])
})

it('sends only the configured failures', async () => {
  const { middleware, sent } = world({ shouldSend: (error, given) => error !== broken && given === message })
  await expect(middleware(failing)(message, rootContext())).rejects.toBe(broken)
  expect(await middleware(() => Promise.reject(new Error('other')))(message, rootContext())).toEqual([])
  expect(sent).toHaveLength(1)
})

it.each<[string, () => Promise<readonly PublishResult[]>]>([
  ['rejects', () => Promise.reject(new Error('broker down'))],
  ['did not confirm', async () => [{ ok: false, error: new Error('broker down'), permanent: true }]],
  ['answers too little', async () => []],
])('rejects with both failures when the publisher %s, so that the message is redelivered', async (_title, answer) => {
  const { middleware } = world({ answer })
  const bad = new RejectError('bad order')
  const failure = await middleware(() => Promise.reject(bad))(message, rootContext()).catch((error: unknown) => error)
  expect(failure).toMatchObject({
    code: 'ACKORD_PUBLISH_FAILED',
    retryable: true,
    message: "Handling a message of type 'order.placed' (id '1') failed, and so did sending it to the dead letter 'dead'.",
    cause: { errors: [bad, expect.any(Error)] },
  })
  expect((failure as Error).cause).toBeInstanceOf(AggregateError)
})

it('rejects with both failures when the data cannot be written', async () => {
  const { middleware, sent } = world()
  await expect(middleware(failing)(message.copy(5n), rootContext())).rejects.toMatchObject({
    cause: { errors: [broken, { code: 'ACKORD_MARSHAL_FAILED' }] },
  })
  expect(sent).toEqual([])
})

it('does not wait for a confirmation forever', async () => {
  const { middleware, runtime } = world({ answer: () => new Promise(() => {}), timeout: 500 })
  const rejection = expect(middleware(failing)(message, rootContext())).rejects.toMatchObject({
    cause: { errors: [broken, { message: "The dead letter 'dead' did not confirm within 500 ms." }] },
  })
  await runtime.advance(500)
  await rejection
  expect(runtime.timers).toBe(0)
})

it('logs a warning for each message that it sent, without the data', async () => {
  const logger = recordingLogger()
  const { middleware } = world({ logger })
  await middleware(failing)(message.copy({ number: 'secret' }), rootContext())
  expect(logger.lines).toMatchObject([{ level: 'warn', fields: { type: 'order.placed', id: '1', deadLetter: 'dead', err: broken } }])
  expect(JSON.stringify(logger.lines)).not.toContain('secret')
})

it('has the role that keeps it outside of transactions', () => {
  expect(world().middleware.role).toBe('deadLetter')
})

it('rejects invalid options', () => {
  const publisher: Publisher = { publish: async () => [] }
  expect(() => deadLetterMiddleware({ publisher, destination: '' })).toThrow(/^deadLetter.destination must be/)
  expect(() => deadLetterMiddleware({ publisher, destination: 'dead' }, { timeout: 0 })).toThrow(/^timeout must be/)
  // @ts-expect-error a caller without types
  expect(() => deadLetterMiddleware({ destination: 'dead' })).toThrow(/^deadLetter.publisher.publish must be/)
})
