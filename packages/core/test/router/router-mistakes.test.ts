import { describe, expect, it } from 'vitest'
import { MemoryBroker } from '../../src/broker/memory/memory-broker.ts'
import { createReceiver } from '../../src/broker/receiver.ts'
import { Message } from '../../src/message/message.ts'
import { TransactionScope } from '../../src/message/transaction-scope.ts'
import { type Middleware, type MiddlewareRole, middleware } from '../../src/middleware/middleware.ts'
import { Engine } from '../../src/router/engine.ts'
import { Router } from '../../src/router/router.ts'
import type { RouterOptions } from '../../src/router/router-options.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { trackedMessage } from '../support/tracked-message.ts'
import { settlePromises, VirtualRuntime } from '../support/virtual-runtime.ts'

const handler = { type: 'order.place', handle: async () => [] }

async function* only(...messages: readonly Message[]): AsyncGenerator<Message> {
  yield* messages
}

async function through(router: Router, ...messages: readonly Message[]): Promise<void> {
  for await (const _output of router.pipe(only(...messages))) throw new Error('There is no output.')
}

describe('a misspelt option', () => {
  it.each<[string, () => unknown]>([
    ['A router', () => new Router({ concurency: 5 } as RouterOptions)],
    ['handle()', () => new Router().handle(handler, { nam: 'x' } as object)],
    ['A memory broker', () => new MemoryBroker({ hist: 5 } as object)],
    ['A source of the memory broker', () => new MemoryBroker().source('orders', { deadletter: 'dead' } as object)],
    ['A receiver', () => createReceiver({ deadletter: 'discard' } as object)],
    ['An engine', () => new Engine(new Router(), { marshaller: 1 } as object)],
  ])('is rejected, not ignored: %s', (owner, make) => {
    expect(make).toThrow(
      expect.objectContaining({
        code: 'ACKORD_INVALID_OPTION',
        message: expect.stringMatching(`^${owner.replace('()', '\\(\\)')} has no option '`),
      }),
    )
  })

  it('is rejected by run() too, and so is a destination without a publisher', async () => {
    const source = new MemoryBroker().source('orders')
    const router = new Router().handle(handler)
    await expect(router.run(source, { marshall: 1 } as object)).rejects.toThrow("run() has no option 'marshall'")
    await expect(router.run(source, { destination: 'events' })).rejects.toThrow('publisher is required with a destination.')
    expect(router.health().state).toBe('idle')
  })
})

it('handle() with two handlers says how to add several', () => {
  const other = { type: 'order.cancel', handle: async () => [] }
  const text = 'handle(handler, options) got a second handler instead of options. Add several with handleAll(a, b).'
  expect(() => new Router().handle(handler, other as object)).toThrow(text)
})

describe('middleware that', () => {
  it('returns before the handler has ended does not get the message acked', async () => {
    const logger = recordingLogger()
    const { message, calls } = trackedMessage(1, { type: 'order.place' })
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const router = new Router({ logger })
    router.use((next) => async (given, context) => {
      void next(given, context)
      return []
    })
    router.handle({ type: 'order.place', handle: () => held.then(() => []) })
    await through(router, message)
    expect(calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_NEXT_NOT_AWAITED' } }])
    release()
  })

  it('returns before the handler has ended makes the transaction inside of it roll back', async () => {
    const { message, calls } = trackedMessage(1, { type: 'order.place' })
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const ended: unknown[] = []
    const router = new Router({ logger: recordingLogger() })
    router.use(
      (next) => async (given, context) => {
        void next(given, context)
        return []
      },
      (next) => async (given, context) => {
        const scope = new TransactionScope(context, { logger: recordingLogger() })
        scope.hold(given)
        const outputs = await next(given, context)
        ended.push(scope.rollbackOnly?.error)
        await scope.end(scope.rollbackOnly === undefined ? 'committed' : 'rolledBack')
        return outputs
      },
    )
    router.handle({ type: 'order.place', handle: () => held.then(() => []) })
    await through(router, message)
    release()
    await settlePromises()
    expect(ended).toMatchObject([{ code: 'ACKORD_NEXT_NOT_AWAITED' }])
    expect(calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_NEXT_NOT_AWAITED' } }])
  })

  it('returns without calling next is valid', async () => {
    const { message, calls } = trackedMessage(1, { type: 'order.place' })
    const router = new Router().use(() => async () => []).handle(handler)
    await through(router, message)
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('is written for another library is rejected when the router starts', () => {
    const express = (async (_message: unknown, _context: unknown, next: () => Promise<unknown>) => await next()) as unknown as Middleware
    const router = new Router().use(express).handle(handler)
    expect(() => router.pipe(only()).next()).toThrow(
      /must return a function: \(next\) => async \(message, context\) => …; it returned an instance of Promise/,
    )
  })

  it('calls next without the message gets an error', async () => {
    const logger = recordingLogger()
    const { message, calls } = trackedMessage(1, { type: 'order.place' })
    const router = new Router({ logger }).use((next) => async () => await (next as unknown as () => Promise<[]>)()).handle(handler)
    await through(router, message)
    expect(calls).toMatchObject([
      { verdict: 'nack', error: { message: 'A middleware called next() with undefined. Call next(message, context).' } },
    ])
  })

  it('has an unknown role is rejected: the order check would be off', () => {
    expect(() => middleware({ role: 'dead-letter' as MiddlewareRole }, (next) => next)).toThrow(/role must be one of 'retry', 'deadLetter'/)
  })
})

describe('stop() in a handler', () => {
  it.each(['router', 'engine', 'drain'] as const)('does not wait for that handler: %s', async (who) => {
    const logger = recordingLogger()
    const { message, calls } = trackedMessage(1, { type: 'order.stop' })
    const router = new Router({ logger })
    const engine = new Engine(router)
    router.handle({
      type: 'order.stop',
      async handle() {
        if (who === 'router') await router.stop()
        else if (who === 'engine') await engine.stop()
        else await engine.drain()
        return []
      },
    })
    if (who === 'router') await through(router, message)
    else {
      engine.addInput(only(message), { name: 'in' })
      await engine.start()
    }
    expect(calls).toEqual([{ verdict: 'ack' }])
    expect(logger.at('warn')[0]?.text).toContain('was called in a handler')
  })
})

describe('a slow stop', () => {
  it('names the messages whose handlers still run', async () => {
    const runtime = new VirtualRuntime()
    const logger = recordingLogger()
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const router = new Router({ runtime, logger, shutdownTimeout: 100 })
    router.handle({ type: 'order.place', handle: () => held.then(() => []) })
    const { message } = trackedMessage(1, { type: 'order.place', id: 'm-1' })
    const piped = through(router, message)
    await settlePromises()
    const stopped = router.stop()
    await runtime.advance(5100)
    expect(logger.at('warn')).toMatchObject([
      { fields: { running: 1, handling: ["a message of type 'order.place' (id 'm-1')"] }, text: /context\.signal/ },
    ])
    release()
    await Promise.all([stopped, piped])
    expect(runtime.timers).toBe(0)
  })
})

describe('the log of a message that was not handled', () => {
  it('contains what the broker saw: acked before it failed, or no acking', async () => {
    const logger = recordingLogger()
    const acked = trackedMessage(1, { type: 'order.place' })
    const router = new Router({ logger })
    router.handle({
      type: 'order.place',
      async handle(message) {
        await message.ack()
        throw new Error('too late')
      },
    })
    await through(router, acked.message, new Message(2, { type: 'order.place' }))
    expect(logger.at('error').map(({ fields }) => ({ ...fields }))).toMatchObject([{ verdict: 'acked' }, { verdict: 'none' }])
  })
})

describe('manual acking', () => {
  it('ends with a warning when handlers left messages unsettled', async () => {
    const logger = recordingLogger()
    const { message } = trackedMessage(1, { type: 'order.place' })
    await through(new Router({ logger, ackStrategy: 'manual' }).handle(handler), message)
    expect(logger.at('warn')).toMatchObject([{ fields: { messages: 1 } }])
  })
})

describe('a source that yields typed messages', () => {
  it('gets an error, and the message is not lost', async () => {
    const logger = recordingLogger()
    const { message, calls } = trackedMessage({ a: 1 }, { type: 'order.place' })
    const router = new Router({ logger }).handle(handler)
    // A JavaScript source may yield anything.
    await router.run({ messages: () => only(message) as AsyncGenerator<Message<Uint8Array>> })
    expect(calls).toMatchObject([
      { verdict: 'nack', error: { code: 'ACKORD_WRONG_DATA', message: expect.stringContaining('A source must yield bytes') } },
    ])
  })
})
