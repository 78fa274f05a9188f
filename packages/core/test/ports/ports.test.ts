import { describe, expect, it } from 'vitest'
import { MemoryBroker } from '../../src/broker/memory/memory-broker.ts'
import { createReceiver } from '../../src/broker/receiver.ts'
import type { Message } from '../../src/message/message.ts'
import { CircuitBreaker } from '../../src/middleware/circuit-breaker.ts'
import { deadLetterMiddleware } from '../../src/middleware/dead-letter.ts'
import { loggingMiddleware } from '../../src/middleware/logging.ts'
import { metricsMiddleware } from '../../src/middleware/metrics.ts'
import { retryMiddleware } from '../../src/middleware/retry.ts'
import type { Metrics } from '../../src/ports/metrics.ts'
import { consoleLogger, guardLogger, type Logger } from '../../src/ports/observability.ts'
import { Router } from '../../src/router/router.ts'
import { trackedMessage } from '../support/tracked-message.ts'

const broken = () => {
  throw new Error('the log transport is down')
}
const brokenLogger: Logger = { debug: broken, info: broken, warn: broken, error: broken }
const brokenMetrics: Metrics = { count: broken, observe: broken, gauge: broken }

async function* only(...messages: readonly Message[]): AsyncGenerator<Message> {
  yield* messages
}

describe('a logger or metrics port that throws', () => {
  it('does not stop the router: failing messages are nacked, later ones are handled', async () => {
    const failing = trackedMessage('bad', { type: 'order.place' })
    const fine = trackedMessage('good', { type: 'order.place' })
    const router = new Router({ logger: brokenLogger, metrics: brokenMetrics })
    router.handle({
      type: 'order.place',
      async handle({ data }) {
        if (data === 'bad') throw new Error('failed')
        return []
      },
    })
    for await (const _output of router.pipe(only(failing.message, fine.message))) throw new Error('There is no output.')
    expect([failing.calls[0]?.verdict, fine.calls[0]?.verdict]).toEqual(['nack', 'ack'])
  })

  it('does not prevent a rejected message from reaching its dead letter', async () => {
    const calls: string[] = []
    const receive = createReceiver({ logger: brokenLogger })
    const message = receive({
      data: new Uint8Array(),
      attributes: {},
      ack: () => void calls.push('ack'),
      nack: () => void calls.push('nack'),
    })
    await message.reject(new Error('no'))
    expect(calls).toEqual(['nack'])
  })

  it('is wrapped once, however many components it passes through', () => {
    const guarded = guardLogger(consoleLogger)
    expect(guardLogger(guarded)).toBe(guarded)
  })
})

describe('a port that lacks methods', () => {
  const notLogger = { info() {} } as unknown as Logger
  it.each<[string, () => unknown]>([
    ['a router', () => new Router({ logger: notLogger })],
    ['a receiver', () => createReceiver({ logger: notLogger })],
    ['a memory broker', () => new MemoryBroker({ logger: notLogger })],
    ['retry', () => retryMiddleware({ logger: notLogger })],
    ['logging', () => loggingMiddleware(notLogger)],
    ['a dead letter', () => deadLetterMiddleware({ publisher: new MemoryBroker(), destination: 'dead' }, { logger: notLogger })],
    ['a circuit breaker', () => new CircuitBreaker({ logger: notLogger })],
  ])('is rejected by %s, with the missing methods', (_name, make) => {
    expect(make).toThrow('logger must have the methods debug, info, warn, error; a plain object lacks debug, warn, error.')
  })

  it('is rejected as metrics too', () => {
    const notMetrics = { count() {} } as unknown as Metrics
    expect(() => new Router({ metrics: notMetrics })).toThrow(
      'metrics must have the methods count, observe, gauge; a plain object lacks observe, gauge.',
    )
    expect(() => metricsMiddleware(notMetrics)).toThrow('metrics must have the methods')
  })
})
