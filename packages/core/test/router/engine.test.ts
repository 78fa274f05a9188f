import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { MemoryBroker } from '../../src/broker/memory/memory-broker.ts'
import type { Source } from '../../src/broker/source.ts'
import { AckordError } from '../../src/errors.ts'
import type { Handler } from '../../src/handler/handler.ts'
import { currentContext } from '../../src/message/context.ts'
import { marshal } from '../../src/message/marshal.ts'
import { jsonMarshaler, textMarshaler } from '../../src/message/marshaler.ts'
import { match } from '../../src/message/match.ts'
import { Message } from '../../src/message/message.ts'
import { Engine } from '../../src/router/engine.ts'
import { Router } from '../../src/router/router.ts'
import { collectGarbage } from '../support/garbage.ts'
import { unhandledDuring, warningsDuring } from '../support/process-events.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { collect, deferred, FedSource, failureOf, recordingPublisher, sourceOf } from '../support/router-world.ts'
import { trackedMessage } from '../support/tracked-message.ts'
import { settlePromises, VirtualRuntime } from '../support/virtual-runtime.ts'

/** Answers each `order.place` with an `order.placed`, and each `order.cancel` with an `order.cancelled`. */
function answering(type: string, answer: string): Handler {
  return { type, handle: async (message) => [new Message(message.data, { type: answer })] }
}

function open(options: { readonly shutdownTimeout?: number } = {}) {
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const router = new Router({ runtime, logger, source: '/test', concurrency: 4, ...options })
  router.handle(answering('order.place', 'order.placed')).handle(answering('order.cancel', 'order.cancelled'))
  const broker = new MemoryBroker({ runtime, logger, history: Infinity })
  const send = (topic: string, type: string, data: unknown, attributes: object = {}) =>
    broker.publish(topic, [
      marshal(new Message(data, { id: `${topic}-${String(data)}`, source: '/test', type, ...attributes }), jsonMarshaler),
    ])
  return { runtime, logger, router, broker, send, engine: new Engine(router) }
}

const placed = (topic: string, world: ReturnType<typeof open>) =>
  world.broker.published(topic).map((message) => jsonMarshaler.unmarshal(message.data, undefined))

async function* only(message: Message): AsyncGenerator<Message> {
  yield message
}

describe('an engine', () => {
  it('merges its sources into one router and publishes each output to the first one that matches', async () => {
    const world = open()
    const { engine, broker, send } = world
    engine.addInput(broker.source('shop'), { name: 'shop' })
    engine.addInput(broker.source('office'), { name: 'office' })
    engine.addOutput(broker, { name: 'placed', match: match.types('order.placed'), destination: 'placed-events' })
    engine.addOutput(broker, { name: 'rest', destination: 'other-events' })
    engine.addOutput(broker, { name: 'never', destination: 'never-events' })
    const run = engine.start()
    await send('shop', 'order.place', 1)
    await send('office', 'order.place', 2)
    await send('office', 'order.cancel', 3)
    await broker.idle('shop')
    await broker.idle('office')
    await engine.stop()
    await run
    expect(placed('placed-events', world).sort()).toEqual([1, 2])
    expect(placed('other-events', world)).toEqual([3])
    expect(placed('never-events', world)).toEqual([])
  })

  it('accepts inputs and outputs that are added while it runs', async () => {
    const world = open()
    const { engine, broker, send } = world
    const run = engine.start()
    await settlePromises()
    engine.addOutput(broker, { name: 'events', destination: 'events' })
    engine.addInput(broker.source('late'), { name: 'late' })
    await send('late', 'order.place', 1)
    await broker.idle('late')
    expect(placed('events', world)).toEqual([1])
    await engine.stop()
    await run
  })

  it('mixes typed and raw inputs and outputs', async () => {
    const world = open()
    const { engine, broker, send } = world
    const { message, calls } = trackedMessage('typed', { type: 'order.place', id: 't' })
    engine.addInput(broker.source('raw'), { name: 'raw' })
    engine.addInput(
      (async function* () {
        yield message
      })(),
      { name: 'typed' },
    )
    const typed = engine.addTypedOutput({ name: 'out' })
    const run = engine.start()
    await send('raw', 'order.place', 'raw')
    const got = [await typed.next(), await typed.next()].map(({ value }) => value?.data)
    expect(got.sort()).toEqual(['raw', 'typed'])
    await engine.stop()
    await run
    expect(calls).toEqual([{ verdict: 'ack' }])
    expect(await typed.next()).toEqual({ done: true, value: undefined })
  })

  it('uses the marshaler of an input and of an output if they have one', async () => {
    const world = open()
    const { engine, broker } = world
    engine.addInput(broker.source('texts'), { name: 'texts', marshaler: textMarshaler })
    engine.addOutput(broker, { name: 'events', destination: 'events', marshaler: textMarshaler })
    const run = engine.start()
    await broker.publish('texts', [marshal(new Message('plain', { type: 'order.place' }), textMarshaler)])
    await broker.idle('texts')
    await engine.stop()
    await run
    const [event] = broker.published('events')
    expect(event?.dataContentType).toBe('text/plain; charset=utf-8')
    expect(new TextDecoder().decode(event?.data)).toBe('plain')
  })

  it('rejects messages that an input does not match', async () => {
    const { engine, logger } = open()
    const { message, calls } = trackedMessage(1, { type: 'order.place', source: '/other' })
    engine.addInput(
      (async function* () {
        yield message
      })(),
      { name: 'shop', match: match.sources('/shop%') },
    )
    const run = engine.start()
    expect((await message.settled).verdict).toBe('rejected')
    expect(calls[0]?.error).toMatchObject({ code: 'ACKORD_INPUT_REFUSED', message: expect.stringContaining("'shop'") })
    expect(logger.at('error')).toHaveLength(1)
    await engine.stop()
    await run
  })

  it('nacks the input when no output accepts its outputs, before anything is published', async () => {
    const world = open()
    const { engine, broker, router } = world
    router.handle({
      type: 'order.split',
      handle: async () => [new Message(1, { type: 'order.placed' }), new Message(2, { type: 'order.lost' })],
    })
    const { message, calls } = trackedMessage(1, { type: 'order.split' })
    engine.addInput(
      (async function* () {
        yield message
      })(),
      { name: 'in' },
    )
    engine.addOutput(broker, { name: 'placed', match: match.types('order.placed'), destination: 'events' })
    const run = engine.start()
    await message.settled
    expect(calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_NO_OUTPUT' } }])
    expect(broker.published('events')).toEqual([])
    await engine.stop()
    await run
  })

  it('rejects a raw message of a type without a handler, and an unreadable one; the others continue', async () => {
    const world = open()
    const { engine, broker, send } = world
    engine.addInput(broker.source('in', { deadLetter: 'dead' }), { name: 'in' })
    engine.addOutput(broker, { name: 'events', destination: 'events' })
    const run = engine.start()
    await send('in', 'order.unknown', 1)
    await broker.publish('in', [new Message(new TextEncoder().encode('{'), { type: 'order.place', id: 'bad' })])
    await send('in', 'order.place', 2)
    await broker.idle('in')
    expect(broker.published('dead').map((letter) => letter.attributes['deadlettercode'])).toEqual([
      'ACKORD_NO_HANDLER',
      'ACKORD_UNMARSHAL_FAILED',
    ])
    expect(placed('events', world)).toEqual([2])
    await engine.stop()
    await run
  })

  it('drains: accepts no more inputs and ends when the existing ones have ended', async () => {
    const { engine, broker } = open()
    const inputs = [1, 2, 3].map((data) => trackedMessage(data, { type: 'order.place' }))
    engine.addInput(
      (async function* () {
        for (const { message } of inputs) yield message
      })(),
      { name: 'in' },
    )
    engine.addOutput(broker, { name: 'events', destination: 'events' })
    const run = engine.start()
    await engine.drain()
    await run
    expect(inputs.map(({ calls }) => calls)).toEqual([[{ verdict: 'ack' }], [{ verdict: 'ack' }], [{ verdict: 'ack' }]])
    expect(broker.published('events')).toHaveLength(3)
    expect(() => engine.addInput(broker.source('x'), { name: 'x' })).toThrow(expect.objectContaining({ code: 'ACKORD_SHUTDOWN' }))
  })

  it('ends one input and keeps the others', async () => {
    const world = open()
    const { engine, broker, send } = world
    const first = engine.addInput(broker.source('first'), { name: 'first' })
    engine.addInput(broker.source('second'), { name: 'second' })
    engine.addOutput(broker, { name: 'events', destination: 'events' })
    const run = engine.start()
    await first.stop()
    await first.ended
    await send('first', 'order.place', 1)
    await send('second', 'order.place', 2)
    await broker.idle('second')
    expect(placed('events', world)).toEqual([2])
    await engine.stop()
    await run
  })

  it('stops when an input fails, settles its messages, and names the input', async () => {
    const { engine, broker } = open()
    const failure = new Error('connection lost')
    const { message, calls } = trackedMessage(1, { type: 'order.place' })
    const failing: Source = {
      async *messages() {
        // The engine reads only this input's one message, as bytes.
        yield message.copy(new TextEncoder().encode('1'))
        throw failure
      },
    }
    engine.addInput(failing, { name: 'broken' })
    engine.addInput(broker.source('fine'), { name: 'fine' })
    engine.addOutput(broker, { name: 'events', destination: 'events' })
    await expect(engine.start()).rejects.toMatchObject({
      code: 'ACKORD_SOURCE_FAILED',
      cause: failure,
      message: expect.stringContaining("'broken'"),
    })
    expect(calls).toHaveLength(1)
    await engine.stop()
  })

  it('stops in every state, twice, and with an idle input that ignores the signal', async () => {
    const never = open()
    await never.engine.stop()
    const { engine } = open()
    engine.addInput({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) }, { name: 'stuck' })
    const run = engine.start()
    expect(engine.start()).toBe(run)
    await settlePromises()
    await Promise.all([engine.stop(), engine.stop()])
    await engine.stop()
    await run
  })

  it('stops by its signal, also one that was aborted before', async () => {
    for (const before of [true, false]) {
      const { engine, broker } = open()
      const controller = new AbortController()
      engine.addInput(broker.source('in'), { name: 'in' })
      if (before) controller.abort()
      const run = engine.start({ signal: controller.signal })
      await settlePromises()
      controller.abort()
      await run
      expect(engine.start()).toBe(run)
    }
  })

  it('nacks messages that were not read from a typed output at a forced stop', async () => {
    const { engine } = open({ shutdownTimeout: 0 })
    const { message, calls } = trackedMessage(1, { type: 'order.place' })
    engine.addInput(
      (async function* () {
        yield message
      })(),
      { name: 'in' },
    )
    engine.addTypedOutput({ name: 'nobody reads' })
    const run = engine.start()
    await settlePromises()
    expect(calls).toEqual([])
    await engine.stop()
    await run
    expect(calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_SHUTDOWN' } }])
  })

  it('nacks messages that were read and not yet handled when it stops', async () => {
    const { router, engine } = open()
    let release = () => {}
    const held = new Promise<void>((resolve) => (release = resolve))
    router.handle({ type: 'slow', handle: () => held.then(() => []) })
    const inputs = Array.from({ length: 8 }, (_, index) => trackedMessage(index, { type: 'slow' }))
    engine.addInput(
      (async function* () {
        for (const { message } of inputs) yield message
      })(),
      { name: 'in' },
    )
    const run = engine.start()
    await settlePromises()
    const stopped = engine.stop()
    await settlePromises()
    release()
    await stopped
    await run
    const verdicts = inputs.map(({ calls }) => calls[0]?.verdict)
    expect(verdicts.slice(0, 4)).toEqual(['ack', 'ack', 'ack', 'ack'])
    expect(verdicts[4]).toBe('nack')
    expect(verdicts.filter((verdict) => verdict === 'nack').length).toBeLessThanOrEqual(2)
  })

  it('handles messages of its inputs concurrently, as many as the router allows', async () => {
    const { router, engine } = open()
    let running = 0
    let most = 0
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    router.handle({
      type: 'slow',
      async handle() {
        running += 1
        most = Math.max(most, running)
        await held
        running -= 1
        return []
      },
    })
    const inputs = Array.from({ length: 10 }, (_, index) => trackedMessage(index, { type: 'slow' }))
    for (const { message } of inputs) engine.addInput(only(message), { name: `in-${message.data}` })
    const run = engine.start()
    await settlePromises()
    expect(running).toBe(4)
    release()
    await engine.drain()
    await run
    expect(most).toBe(4)
    expect(inputs.every(({ calls }) => calls[0]?.verdict === 'ack')).toBe(true)
  })

  it('leaves no listener on a long-lived signal, and no timer', async () => {
    const { engine, broker, runtime } = open()
    const { signal } = new AbortController()
    const { message } = trackedMessage(1, { type: 'order.place' })
    engine.addInput(only(message), { name: 'in' })
    engine.addOutput(broker, { name: 'events', destination: 'events' })
    const run = engine.start({ signal })
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    await engine.drain()
    await run
    expect(getEventListeners(signal, 'abort')).toEqual([])
    expect(runtime.timers).toBe(0)
  })

  it('runs plugins in order and stops at the first that fails', async () => {
    const { engine, broker } = open()
    const order: string[] = []
    const failure = new AckordError('ACKORD_INVALID_OPTION', 'no')
    await expect(
      engine.plug(
        (given) => {
          order.push('first')
          given.addOutput(broker, { name: 'events', destination: 'events' })
        },
        async () => void order.push('second'),
        () => {
          throw failure
        },
        () => void order.push('never'),
      ),
    ).rejects.toBe(failure)
    expect(order).toEqual(['first', 'second'])
    expect(() => engine.addOutput(broker, { name: 'events', destination: 'x' })).toThrow(/already has an output 'events'/)
  })

  it('rejects invalid inputs and outputs', () => {
    const { engine, broker } = open()
    engine.addInput(broker.source('a'), { name: 'a' })
    expect(() => engine.addInput(broker.source('b'), { name: 'a' })).toThrow(/already has an input 'a'/)
    expect(() => engine.addInput(broker.source('b'), { name: '' })).toThrow(/name must be/)
    expect(() => engine.addOutput(broker, { name: 'o', destination: '' })).toThrow(/destination must be/)
    // A JavaScript caller may pass anything.
    expect(() => engine.addInput({} as AsyncIterable<Message>, { name: 'c' })).toThrow(/must be a function/)
    expect(() => engine.addOutput({} as MemoryBroker, { name: 'p', destination: 'd' })).toThrow(/publish must be a function/)
  })

  it('refuses to start while its router runs elsewhere', async () => {
    const { engine, router, broker } = open()
    const running = router.run(broker.source('in'))
    await expect(engine.start()).rejects.toMatchObject({ code: 'ACKORD_ALREADY_STARTED' })
    await router.stop()
    await running
  })

  it('removes a typed output when its reader leaves, and nacks messages for it', async () => {
    const { engine } = open()
    const { message, calls } = trackedMessage(1, { type: 'order.place' })
    let give = (_message: Message) => {}
    const input = (async function* () {
      yield await new Promise<Message>((resolve) => (give = resolve))
    })()
    engine.addInput(input, { name: 'in' })
    const typed = engine.addTypedOutput({ name: 'out' })
    const run = engine.start()
    await settlePromises()
    await typed.return?.()
    give(message)
    await message.settled
    expect(calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_NO_OUTPUT' } }])
    await engine.stop()
    await run
  })

  it('counts a typed output that is left twice as left once', async () => {
    const { engine } = open()
    const gone = engine.addTypedOutput({ name: 'gone', match: () => false })
    const kept = engine.addTypedOutput({ name: 'kept' })
    await gone.return?.()
    await gone.return?.()
    const { message, calls } = trackedMessage(1, { type: 'order.place' })
    engine.addInput(only(message), { name: 'in' })
    const outputs = collect(kept)
    const run = engine.start()
    await engine.drain()
    await run
    expect(await outputs).toHaveLength(1)
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('keeps nothing of a typed output that was left', async () => {
    const { engine } = open()
    async function leave(): Promise<WeakRef<object>> {
      const options = { name: 'out' }
      await engine.addTypedOutput(options).return?.()
      return new WeakRef(options)
    }
    const left = await leave()
    await settlePromises()
    collectGarbage()
    expect(left.deref()).toBeUndefined()
    await engine.stop()
  })

  it('fails when an input yields something else, and aborts the other inputs', async () => {
    const { engine } = open()
    const other = new FedSource()
    engine.addInput(other, { name: 'good' })
    engine.addInput(only({} as Message), { name: 'bad' })
    await expect(engine.start()).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', message: expect.stringContaining("'bad'") })
    expect(other.signal?.aborted).toBe(true)
  })

  it('accepts no inputs once it was stopped, also before the start; the existing ones can be stopped', async () => {
    const { engine } = open()
    const input = engine.addInput(new FedSource(), { name: 'in' })
    await engine.stop()
    await input.stop()
    await failureOf(() => engine.addInput(new FedSource(), { name: 'late' }), 'ACKORD_SHUTDOWN')
    await expect(engine.start()).resolves.toBeUndefined()
  })

  it('does not read an input in the context of the handler that adds it', async () => {
    const { engine, router } = open()
    const seen: unknown[] = []
    const added: Source = {
      messages() {
        seen.push(currentContext())
        return sourceOf()
      },
    }
    router.handle({
      type: 'add',
      async handle() {
        engine.addInput(added, { name: 'added' })
        return []
      },
    })
    engine.addInput(only(new Message(1, { type: 'add' })), { name: 'in' })
    const run = engine.start()
    await settlePromises()
    await engine.drain()
    await run
    expect(seen).toEqual([undefined])
  })

  it('accepts more than ten inputs without a MaxListenersExceededWarning', async () => {
    const warnings = await warningsDuring(async () => {
      const { engine } = open()
      for (let number = 1; number <= 12; number += 1) engine.addInput(new FedSource(), { name: `in-${number}` })
      const run = engine.start()
      await settlePromises()
      await engine.stop()
      await run
    })
    expect(warnings).toEqual([])
  })

  it('ignores a value that is no message, from an input after the stop', async () => {
    const { engine } = open()
    const late = deferred<IteratorResult<Message>>()
    engine.addInput({ [Symbol.asyncIterator]: () => ({ next: () => late.promise }) }, { name: 'in' })
    const unhandled = await unhandledDuring(async () => {
      const run = engine.start()
      await settlePromises()
      await engine.stop()
      await run
      late.resolve({ done: false, value: {} as Message })
    })
    expect(unhandled).toEqual([])
  })

  it('allows reusing the name of an input or typed output that has ended', async () => {
    const { engine } = open()
    const run = engine.start()
    await engine.addInput(new FedSource(), { name: 'tenant' }).stop()
    await engine.addTypedOutput({ name: 'tenant' }).return?.()
    expect(engine.addInput(new FedSource(), { name: 'tenant' }).name).toBe('tenant')
    expect(() => engine.addTypedOutput({ name: 'tenant' })).not.toThrow()
    await engine.stop()
    await run
  })

  it('nacks the input when the publisher of an output does not answer within its publishTimeout', async () => {
    const { engine, runtime } = open()
    const { message, calls } = trackedMessage(1, { type: 'order.place' })
    engine.addInput(only(message), { name: 'in' })
    engine.addOutput(
      recordingPublisher(() => new Promise(() => {})),
      { name: 'out', destination: 'orders', publishTimeout: 50 },
    )
    const run = engine.start()
    await runtime.advance(50)
    expect(calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_PUBLISH_FAILED' } }])
    await engine.stop()
    await run
  })
})
