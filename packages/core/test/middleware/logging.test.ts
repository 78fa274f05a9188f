import { expect, it } from 'vitest'
import { AckordError } from '../../src/errors.ts'
import { rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { type LoggingOptions, loggingMiddleware } from '../../src/middleware/logging.ts'
import type { Process } from '../../src/middleware/middleware.ts'
import { sleep } from '../../src/ports/runtime.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const message = new Message('secret payload', { type: 'order.placed', id: '1' })

function world(options: LoggingOptions = {}) {
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const run = (next: Process, context = rootContext()) => loggingMiddleware(logger, { runtime, ...options })(next)(message, context)
  return { runtime, logger, run }
}

it('writes a debug line with duration and number of outputs for a handled message', async () => {
  const { runtime, logger, run } = world()
  const outputs = [new Message('secret'), new Message('secret')]
  const result = run(async () => {
    await sleep(runtime, 30)
    return outputs
  })
  await runtime.advance(30)
  expect(await result).toBe(outputs)
  expect(logger.lines).toEqual([
    {
      level: 'debug',
      fields: { type: 'order.placed', id: '1', duration: 30, outputs: 2 },
      text: 'A message was handled.',
    },
  ])
})

it('writes that line at another level if configured so', async () => {
  const { logger, run } = world({ level: 'info' })
  await run(async () => [])
  expect(logger.at('info')).toHaveLength(1)
})

it('writes an error line with the error for a failed message, and passes it on', async () => {
  const { logger, run } = world()
  const error = new Error('broken')
  await expect(run(() => Promise.reject(error))).rejects.toBe(error)
  expect(logger.lines).toEqual([
    {
      level: 'error',
      fields: { type: 'order.placed', id: '1', duration: 0, outputs: 0, err: error },
      text: 'A message failed.',
    },
  ])
})

it('only warns if an abort or a shutdown ended the handling', async () => {
  const { logger, run } = world()
  const signal = AbortSignal.abort(new Error('stopping'))
  await expect(run(() => Promise.reject(new Error('gave up')), rootContext({ signal }))).rejects.toThrow('gave up')
  const shutdown = new AckordError('ACKORD_SHUTDOWN', 'stopping')
  await expect(run(() => Promise.reject(shutdown))).rejects.toBe(shutdown)
  expect(logger.lines.map((line) => line.level)).toEqual(['warn', 'warn'])
})

it('never writes the data', async () => {
  const { logger, run } = world()
  await run(async () => [message])
  await expect(run(() => Promise.reject(new Error('broken')))).rejects.toThrow()
  expect(JSON.stringify(logger.lines)).not.toContain('secret')
})

it('rejects an invalid level', () => {
  // @ts-expect-error a caller without types
  expect(() => loggingMiddleware(recordingLogger(), { level: 'loud' })).toThrow(/^level must be one of/)
})
