import { EventEmitter, on } from 'node:events'
import { describe, expect, it } from 'vitest'
import type { Context } from '../../src/message/context.ts'
import type { Message } from '../../src/message/message.ts'
import { sleep } from '../../src/ports/runtime.ts'
import type { RouterOptions } from '../../src/router/router-options.ts'
import { warningsDuring } from '../support/process-events.ts'
import {
  collect,
  deferred,
  FedSource,
  handling,
  openWorld,
  placed,
  recordingPublisher,
  sourceOf,
  tracked,
  trackedSome,
  verdicts,
} from '../support/router-world.ts'
import { trackedMessage } from '../support/tracked-message.ts'
import { settlePromises } from '../support/virtual-runtime.ts'

/** Whether a promise has settled by now. */
function watch(promise: Promise<unknown>): { readonly done: boolean } {
  const state = { done: false }
  const settle = () => {
    state.done = true
  }
  promise.then(settle, settle)
  return state
}

function untilAborted(context: Context): Promise<never> {
  return new Promise((_resolve, reject) => {
    context.signal.addEventListener('abort', () => reject(context.signal.reason), { once: true })
  })
}

describe('a graceful stop', () => {
  it('starts no message that was read before a pause during which the stop happened', async () => {
    const pause = deferred()
    const begun = deferred()
    const { router, runtime } = openWorld({ concurrency: 4 })
    Object.assign(runtime, {
      yield: () => {
        begun.resolve()
        return pause.promise
      },
    })
    let calls = 0
    router.handle(
      handling(async () => {
        calls += 1
        return []
      }),
    )
    const messages = trackedSome(501)
    async function* source() {
      for (const { message } of messages) yield message
    }
    const piped = collect(router.pipe(source()))
    await begun.promise
    const stopped = router.stop()
    pause.resolve()
    await stopped
    await piped
    expect(calls).toBe(499)
  })

  it.each([1, 3])('waits for handlers and lets them succeed (concurrency %i)', async (concurrency) => {
    const { router, runtime } = openWorld({ concurrency })
    const gate = deferred()
    let context: Context | undefined
    router.handle(
      handling(async (_message, given) => {
        context = given
        await gate.promise
        return [placed()]
      }),
    )
    const publisher = recordingPublisher()
    const input = tracked('m1')
    const source = new FedSource([input])
    const run = router.run(source, { publisher, destination: 'orders' })
    await settlePromises()
    const stopped = watch(router.stop())
    await runtime.advance(20_000)
    expect(stopped.done).toBe(false)
    expect(context?.signal.aborted).toBe(false)
    gate.resolve()
    await run
    await settlePromises()
    expect(stopped.done).toBe(true)
    expect(publisher.calls).toHaveLength(1)
    expect(verdicts(input)).toEqual(['ack'])
    expect(runtime.timers).toBe(0)
  })

  it('aborts the signal of the source', async () => {
    const { router } = openWorld()
    const source = new FedSource()
    const run = router.handle(handling(() => [])).run(source)
    await settlePromises()
    expect(source.signal?.aborted).toBe(false)
    await router.stop()
    await run
    expect(source.signal?.aborted).toBe(true)
  })

  it('ends a source that has more messages', async () => {
    const { router } = openWorld()
    const gate = deferred()
    router.handle(handling(() => gate.promise))
    const source = new FedSource(trackedSome(3), { heedsSignal: false })
    const run = router.run(source)
    await settlePromises()
    const stopped = router.stop()
    gate.resolve()
    await stopped
    await run
    expect(source.returned).toBe(1)
    expect(source.pulls).toBe(1)
  })

  it('waits for the source to release its messages', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const released = deferred()
    async function* messages({ signal }: { signal: AbortSignal }) {
      try {
        yield tracked('m1').message
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
      } finally {
        await released.promise
      }
    }
    const run = router.run({ messages })
    await settlePromises()
    const stopped = watch(router.stop())
    await settlePromises()
    expect(stopped.done).toBe(false)
    released.resolve()
    await run
    await settlePromises()
    expect(stopped.done).toBe(true)
  })

  it.each(['run', 'pipe'] as const)('waits until the iterator of a %s has ended', async (way) => {
    const { router } = openWorld()
    const gate = deferred()
    const left = deferred()
    router.handle(handling(() => gate.promise))
    const source = new FedSource([tracked('m1')])
    source.return = () => left.promise.then(() => ({ done: true, value: undefined }))
    const ended = way === 'run' ? router.run(source) : collect(router.pipe(source))
    await settlePromises()
    let stopped = false
    const stop = router.stop().then(() => {
      stopped = true
    })
    gate.resolve()
    await settlePromises()
    expect(stopped).toBe(false)
    left.resolve()
    await Promise.all([stop, ended])
    expect(router.health().state).toBe('idle')
  })

  it('nacks messages that wait for their turn, and those that arrive after the stop', async () => {
    const { router } = openWorld({ concurrency: 1, orderingKey: 'partitionkey' })
    const gate = deferred()
    router.handle(handling(() => gate.promise))
    const inputs = ['a', 'a', 'b', 'c'].map((partitionkey, index) => tracked(`m${index + 1}`, { attributes: { partitionkey } }))
    const source = new FedSource(inputs, { heedsSignal: false })
    const run = router.run(source)
    await settlePromises()
    expect(router.health()).toMatchObject({ inFlight: 1, queued: 3 })
    const stopped = router.stop()
    // The message behind the running one of its key waits for it: if it were nacked first, it would be redelivered first.
    expect(router.health()).toMatchObject({ state: 'stopping', inFlight: 1, queued: 1 })
    const late = tracked('late')
    source.push(late)
    await settlePromises()
    gate.resolve()
    await stopped
    await run
    expect([...inputs, late].map(verdicts)).toEqual([['ack'], ['nack'], ['nack'], ['nack'], ['nack']])
    expect(inputs[2]?.calls[0]?.error).toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect(source.returned).toBe(1)
  })

  it('resolves only when the broker has answered all verdicts', async () => {
    const { router } = openWorld({ concurrency: 1, orderingKey: 'partitionkey' })
    const [gate, acked, nacked] = [deferred(), deferred(), deferred()]
    router.handle(handling(() => gate.promise))
    const attributes = { partitionkey: 'k' }
    const source = new FedSource([
      tracked('m1', { attributes, answer: () => acked.promise }),
      tracked('m2', { attributes, answer: () => nacked.promise }),
    ])
    const run = watch(router.run(source))
    await settlePromises()
    const stopped = watch(router.stop())
    gate.resolve()
    await settlePromises()
    expect([run.done, stopped.done]).toEqual([false, false])
    acked.resolve()
    await settlePromises()
    expect([run.done, stopped.done]).toEqual([false, false])
    nacked.resolve()
    await settlePromises()
    expect([run.done, stopped.done]).toEqual([true, true])
  })

  it('survives a nack that the broker does not accept', async () => {
    const { router, logger } = openWorld({ concurrency: 1, orderingKey: 'partitionkey' })
    const gate = deferred()
    const refusal = new Error('connection lost')
    router.handle(handling(() => gate.promise))
    const attributes = { partitionkey: 'k' }
    const source = new FedSource([tracked('m1', { attributes }), tracked('m2', { attributes, answer: () => Promise.reject(refusal) })])
    const run = router.run(source)
    await settlePromises()
    const stopped = router.stop()
    gate.resolve()
    await stopped
    await run
    expect(logger.at('error')).toMatchObject([{ fields: { err: refusal } }])
  })

  it('works by the signal as by stop()', async () => {
    const { router } = openWorld()
    const gate = deferred()
    router.handle(handling(() => gate.promise))
    const controller = new AbortController()
    const input = tracked('m1')
    const run = router.run(new FedSource([input]), { signal: controller.signal })
    await settlePromises()
    controller.abort()
    expect(router.health().state).toBe('stopping')
    gate.resolve()
    await run
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('may be requested before the start, twice, during and after', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    await router.stop()
    const input = tracked('m1')
    const source = new FedSource([input])
    const run = router.run(source)
    await settlePromises()
    const [first, second] = [router.stop(), router.stop()]
    await Promise.all([first, second, run])
    await router.stop()
    expect(verdicts(input)).toEqual(['ack'])
    expect(source.returned).toBe(0)
    await router.run(sourceOf(tracked('m2')))
    expect(router.health()).toMatchObject({ state: 'idle', handled: 2 })
  })

  it('may be requested in the same tick as the start', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const source = new FedSource(trackedSome(2))
    const run = router.run(source)
    await router.stop()
    await run
    expect(router.health()).toMatchObject({ state: 'idle', handled: 0 })
  })

  it('is what dispose does', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const run = router.run(new FedSource())
    await router[Symbol.asyncDispose]()
    await run
    expect(router.health().state).toBe('idle')
  })

  it('ends a run immediately if its signal was aborted before', async () => {
    const { router } = openWorld()
    const seen: unknown[] = []
    router.handle(handling(({ id }) => void seen.push(id)))
    const source = new FedSource(trackedSome(2))
    await router.run(source, { signal: AbortSignal.abort() })
    expect(await collect(router.pipe(new FedSource(trackedSome(2)), { signal: AbortSignal.abort() }))).toEqual([])
    expect(seen).toEqual([])
    expect(source.pulls).toBe(0)
    expect(source.returned).toBe(1)
  })

  it('ends in time when the signal was aborted before and the source cannot be ended', async () => {
    const { router, runtime } = openWorld({ shutdownTimeout: 1000 })
    router.handle(handling(() => []))
    const source = new FedSource()
    source.return = () => new Promise(() => {})
    const run = watch(router.run(source, { signal: AbortSignal.abort() }))
    await runtime.advance(10_000)
    expect(run.done).toBe(true)
    expect(runtime.timers).toBe(0)
  })

  it('treats a source that throws the reason of its signal as ended', async () => {
    const { router, runtime } = openWorld()
    router.handle(handling(() => []))
    async function* messages({ signal }: { signal: AbortSignal }) {
      yield tracked('m1').message
      await sleep(runtime, 1000, { signal })
    }
    const run = router.run({ messages })
    await settlePromises()
    await router.stop()
    await expect(run).resolves.toBeUndefined()
    expect(router.health().handled).toBe(1)
  })

  it('still fails when the source fails at the stop for another reason', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const source = new FedSource([], { heedsSignal: false })
    const run = router.run(source)
    await settlePromises()
    const stopped = router.stop()
    source.fail(new Error('could not release'))
    await stopped
    await expect(run).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', cause: { message: 'could not release' } })
  })
})

describe('a source that ignores its signal', () => {
  it('delays a run only until the shutdownTimeout has passed and a warning was logged', async () => {
    const { router, runtime, logger } = openWorld({ shutdownTimeout: 1000 })
    router.handle(handling(() => []))
    const source = new FedSource([], { heedsSignal: false })
    const controller = new AbortController()
    const run = watch(router.run(source, { signal: controller.signal }))
    await settlePromises()
    controller.abort()
    await runtime.advance(1000)
    expect(run.done).toBe(false)
    await runtime.advance(5000)
    expect(run.done).toBe(true)
    expect(logger.at('warn')).toHaveLength(1)
    expect(runtime.timers).toBe(0)

    const late = tracked('late')
    source.push(late)
    await settlePromises()
    expect(verdicts(late)).toEqual(['nack'])
    expect(source.returned).toBeGreaterThan(0)
  })

  it('does not delay a pipe', async () => {
    const { router, runtime } = openWorld()
    router.handle(handling(() => []))
    const controller = new AbortController()
    const source = new FedSource([], { heedsSignal: false })
    const end = router.pipe(source, { signal: controller.signal }).next()
    await settlePromises()
    controller.abort()
    expect((await end).done).toBe(true)
    expect(runtime.timers).toBe(0)
    const late = tracked('late')
    source.push(late)
    await settlePromises()
    expect(verdicts(late)).toEqual(['nack'])
  })

  it('is ended by a pipe while it waits, so that it can release its listeners', async () => {
    const { router } = openWorld()
    router.handle(handling(() => [placed()]))
    const emitter = new EventEmitter()
    const events = on(emitter, 'message')
    const messages: AsyncIterable<Message> = {
      [Symbol.asyncIterator]: () => ({
        async next() {
          const { done, value } = await events.next()
          return done === true ? { done: true, value: undefined } : { done: false, value: value[0] }
        },
        async return() {
          await events.return?.()
          return { done: true, value: undefined }
        },
      }),
    }
    const outputs = router.pipe(messages)
    const first = outputs.next()
    emitter.emit('message', tracked('m1').message)
    expect((await first).done).toBe(false)
    await settlePromises()
    expect(emitter.listenerCount('message')).toBe(1)
    await outputs.return?.()
    await settlePromises()
    expect(emitter.listenerCount('message')).toBe(0)
  })

  it('may be a generator that never yields again', async () => {
    const { router } = openWorld()
    router.handle(handling(() => [placed()]))
    async function* messages() {
      yield tracked('m1').message
      await new Promise(() => {})
    }
    let outputs = 0
    for await (const _output of router.pipe(messages())) {
      outputs += 1
      break
    }
    expect(outputs).toBe(1)
    expect(router.health()).toMatchObject({ state: 'idle', handled: 1 })
  })
})

describe('a forced stop', () => {
  it.each([1, 2])('aborts the signals of handlers when the shutdownTimeout has passed (concurrency %i)', async (concurrency) => {
    const { router, runtime } = openWorld({ concurrency, shutdownTimeout: 1000 })
    let context: Context | undefined
    router.handle(
      handling((_message, given) => {
        context = given
        return untilAborted(given)
      }),
    )
    const input = tracked('m1', { deliveryCount: 4 })
    const run = router.run(new FedSource([input]))
    await settlePromises()
    const stopped = router.stop()
    await runtime.advance(999)
    expect(context?.signal.aborted).toBe(false)
    await runtime.advance(1)
    await stopped
    await run
    expect(context?.signal.reason).toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect(input.calls).toEqual([{ verdict: 'nack', error: context?.signal.reason, options: { retryAfter: 0 } }])
    expect(runtime.timers).toBe(0)
  })

  it('happens immediately with a shutdownTimeout of 0', async () => {
    const { router, runtime } = openWorld({ shutdownTimeout: 0 })
    router.handle(handling((_message, context) => untilAborted(context)))
    const input = tracked('m1')
    const run = router.run(new FedSource([input]))
    await settlePromises()
    await router.stop()
    await run
    expect(verdicts(input)).toEqual(['nack'])
    expect(runtime.timers).toBe(0)
  })

  it('never happens with a shutdownTimeout of Infinity', async () => {
    const { router, runtime } = openWorld({ shutdownTimeout: Infinity })
    const gate = deferred()
    router.handle(handling(() => gate.promise))
    const input = tracked('m1')
    const run = router.run(new FedSource([input]))
    await settlePromises()
    const stopped = router.stop()
    expect(runtime.timers).toBe(0)
    gate.resolve()
    await stopped
    await run
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('happens also when the source had ended before the stop', async () => {
    const { router, runtime } = openWorld({ concurrency: 2, shutdownTimeout: 1000 })
    router.handle(handling((_message, context) => untilAborted(context)))
    const input = tracked('m1')
    const run = watch(router.run(sourceOf(input)))
    await settlePromises()
    const stopped = watch(router.stop())
    await runtime.advance(1000)
    expect([run.done, stopped.done]).toEqual([true, true])
    expect(verdicts(input)).toEqual(['nack'])
    expect(runtime.timers).toBe(0)
  })

  it('happens also when the source had failed before the stop', async () => {
    const { router, runtime } = openWorld({ concurrency: 2, shutdownTimeout: 1000 })
    router.handle(handling((_message, context) => untilAborted(context)))
    const source = new FedSource([tracked('m1')])
    const run = router.run(source)
    const failed = expect(run).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED' })
    source.fail(new Error('lost'))
    await settlePromises()
    void router.stop()
    await runtime.advance(1000)
    await failed
    expect(runtime.timers).toBe(0)
  })

  it('waits for a handler that ignores its signal, with warnings', async () => {
    const { router, runtime, logger } = openWorld({ shutdownTimeout: 1000 })
    const gate = deferred()
    router.handle(handling(() => gate.promise))
    const input = tracked('m1')
    const run = watch(router.run(new FedSource([input])))
    await settlePromises()
    const stopped = watch(router.stop())
    await runtime.advance(11_000)
    expect([run.done, stopped.done]).toEqual([false, false])
    expect(logger.at('warn')).toMatchObject([{ fields: { running: 1 } }, { fields: { running: 1 } }])
    gate.resolve()
    await settlePromises()
    expect([run.done, stopped.done]).toEqual([true, true])
    expect(verdicts(input)).toEqual(['ack'])
    expect(runtime.timers).toBe(0)
  })

  it("nacks messages that wait for their handler's turn", async () => {
    const { router, runtime } = openWorld({ concurrency: 3, shutdownTimeout: 1000 })
    const gate = deferred()
    router.handle(
      handling(() => gate.promise),
      { concurrency: 1 },
    )
    const inputs = trackedSome(3)
    const run = router.run(new FedSource(inputs))
    await settlePromises()
    void router.stop()
    await runtime.advance(1000)
    expect(inputs.map(verdicts)).toEqual([[], ['nack'], ['nack']])
    expect(inputs[1]?.calls[0]?.error).toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    gate.resolve()
    await run
    expect(verdicts(inputs[0] ?? { calls: [] })).toEqual(['ack'])
  })

  it('nacks inputs whose outputs were not read from the pipe', async () => {
    const { router, runtime } = openWorld({ concurrency: 2, shutdownTimeout: 1000 })
    router.handle(handling(({ id }) => [placed(`${id}-a`), placed(`${id}-b`)]))
    const inputs = trackedSome(3)
    const outputs = router.pipe(new FedSource(inputs))
    await outputs.next()
    await settlePromises()
    const stopped = router.stop()
    await runtime.advance(1000)
    await stopped
    expect(inputs.map(verdicts)).toEqual([['nack'], ['nack'], []])
    expect(inputs[0]?.calls[0]).toMatchObject({ error: { code: 'ACKORD_SHUTDOWN' }, options: { retryAfter: 0 } })
    expect((await outputs.next()).done).toBe(true)
    expect(runtime.timers).toBe(0)
  })

  it('still passes later outputs to a waiting reader', async () => {
    const { router, runtime } = openWorld({ shutdownTimeout: 1000 })
    const gate = deferred()
    router.handle(
      handling(async () => {
        await gate.promise
        return [placed()]
      }),
    )
    const input = tracked('m1')
    const outputs = router.pipe(new FedSource([input]))
    const first = outputs.next()
    await settlePromises()
    const stopped = watch(router.stop())
    await runtime.advance(2000)
    gate.resolve()
    await settlePromises()
    expect((await first).done).toBe(false)
    expect(stopped.done).toBe(true)
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('nacks an input whose handler returns outputs only after it, without a reader', async () => {
    const { router, runtime } = openWorld({ concurrency: 2, shutdownTimeout: 1000 })
    const gate = deferred()
    router.handle(
      handling(async ({ id }) => {
        if (id === 'm2') await gate.promise
        return [placed(id)]
      }),
    )
    const inputs = trackedSome(2)
    const outputs = router.pipe(new FedSource(inputs))
    expect((await outputs.next()).value?.data).toBe('m1')
    const stopped = watch(router.stop())
    await runtime.advance(2000)
    gate.resolve()
    await settlePromises()
    expect(stopped.done).toBe(true)
    expect(inputs.map(verdicts)).toEqual([['ack'], ['nack']])
    expect(runtime.timers).toBe(0)
  })

  it('nacks inputs whose publisher hangs', async () => {
    const { router, runtime } = openWorld({ shutdownTimeout: 1000 })
    router.handle(handling(() => [placed()]))
    const publisher = recordingPublisher(() => new Promise(() => {}))
    const input = tracked('m1')
    const run = router.run(new FedSource([input]), { publisher, destination: 'orders' })
    await settlePromises()
    const stopped = router.stop()
    await runtime.advance(1000)
    await stopped
    await run
    expect(publisher.calls[0]?.signal.reason).toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_SHUTDOWN' } }])
  })

  it('publishes nothing more after it', async () => {
    const { router, runtime } = openWorld({ shutdownTimeout: 1000 })
    const gate = deferred()
    router.handle(
      handling(async () => {
        await gate.promise
        return [placed()]
      }),
    )
    const publisher = recordingPublisher()
    const input = tracked('m1')
    const run = router.run(new FedSource([input]), { publisher, destination: 'orders' })
    await settlePromises()
    void router.stop()
    await runtime.advance(1000)
    gate.resolve()
    await run
    expect(publisher.calls).toEqual([])
    expect(verdicts(input)).toEqual(['nack'])
  })

  it("nacks inputs that wait under forward for their outputs to be settled, and the outputs' own acking", async () => {
    const { router, runtime } = openWorld({ ackStrategy: 'forward', orderingKey: 'partitionkey', shutdownTimeout: 1000 })
    const own = trackedMessage('own', { type: 'order.placed' })
    router.handle(handling(({ id }) => [id === 'm1' ? placed() : own.message, placed('never taken')]))
    const attributes = { partitionkey: 'k' }
    const taken = tracked('m1', { attributes })
    const outputs = router.pipe(new FedSource([taken]))
    const first = (await outputs.next()).value
    await outputs.next()
    await settlePromises()
    const stopped = router.stop()
    await runtime.advance(1000)
    await stopped
    expect(verdicts(taken)).toEqual(['nack'])
    expect(await first?.ack()).toBe(false)
    expect(runtime.timers).toBe(0)

    const untaken = tracked('m2', { attributes })
    const again = router.pipe(new FedSource([untaken]))
    void again.next()
    await settlePromises()
    await again.return?.()
    expect(verdicts(untaken)).toEqual(['nack'])
    expect(verdicts(own)).toEqual(['nack'])
  })

  it('does not use up the last delivery of a message', async () => {
    const { router } = openWorld({ maxDeliveries: 3, shutdownTimeout: 0 })
    router.handle(handling((_message, context) => untilAborted(context)))
    const input = tracked('m1', { deliveryCount: 3 })
    const run = router.run(new FedSource([input]))
    await settlePromises()
    await router.stop()
    await run
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_SHUTDOWN' } }])
  })
})

describe('processTimeout', () => {
  function timedWorld(options: RouterOptions = {}) {
    const world = openWorld({ processTimeout: 100, ...options })
    const contexts: Context[] = []
    return { ...world, contexts }
  }

  it('aborts the signal, and a handler that observes it fails and is nacked', async () => {
    const { router, runtime, contexts } = timedWorld()
    router.handle(
      handling((_message, context) => {
        contexts.push(context)
        return untilAborted(context)
      }),
    )
    const input = tracked('m1')
    const run = router.run(sourceOf(input))
    await runtime.advance(99)
    expect(contexts[0]?.signal.aborted).toBe(false)
    expect(contexts[0]?.deadline).toBe(runtime.now() + 1)
    await runtime.advance(1)
    await run
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_PROCESS_TIMEOUT' } }])
    expect(runtime.timers).toBe(0)
  })

  it('waits for a handler that continues, and treats its late success as one', async () => {
    const { router, runtime, contexts } = timedWorld()
    const gate = deferred()
    router.handle(
      handling(async (_message, context) => {
        contexts.push(context)
        await gate.promise
        return [placed()]
      }),
    )
    const publisher = recordingPublisher()
    const input = tracked('m1')
    const run = router.run(sourceOf(input), { publisher, destination: 'orders' })
    await runtime.advance(5000)
    expect(contexts[0]?.signal.aborted).toBe(true)
    expect(verdicts(input)).toEqual([])
    gate.resolve()
    await run
    expect(publisher.calls).toHaveLength(1)
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('does not affect a handler that is in time', async () => {
    const { router, runtime, contexts } = timedWorld()
    router.handle(
      handling(async (_message, context) => {
        contexts.push(context)
        await sleep(runtime, 99)
      }),
    )
    const input = tracked('m1')
    const run = router.run(sourceOf(input))
    await runtime.advance(99)
    await run
    expect(runtime.timers).toBe(0)
    await runtime.advance(100)
    expect(contexts[0]?.signal.aborted).toBe(false)
    expect(verdicts(input)).toEqual(['ack'])
  })

  it("reports the earlier of its end and the message's expiry as the deadline", async () => {
    const { router, runtime, contexts } = timedWorld()
    router.handle(handling((_message, context) => void contexts.push(context)))
    const expirytime = new Date(runtime.now() + 40)
    await router.run(sourceOf(tracked('m1', { attributes: { expirytime } }), tracked('m2')))
    expect(contexts.map(({ deadline }) => deadline)).toEqual([expirytime.getTime(), runtime.now() + 100])
  })

  it('still applies while a stop is graceful', async () => {
    const { router, runtime, contexts } = timedWorld({ shutdownTimeout: 1000 })
    router.handle(
      handling((_message, context) => {
        contexts.push(context)
        return untilAborted(context)
      }),
    )
    const input = tracked('m1')
    const run = router.run(new FedSource([input]))
    await settlePromises()
    void router.stop()
    await runtime.advance(100)
    await run
    expect(contexts[0]?.signal.reason).toMatchObject({ code: 'ACKORD_PROCESS_TIMEOUT' })
    expect(input.calls).toMatchObject([{ error: { code: 'ACKORD_PROCESS_TIMEOUT' } }])
  })

  it('is superseded by a forced stop that comes first', async () => {
    const { router, runtime, contexts } = timedWorld({ shutdownTimeout: 50 })
    router.handle(
      handling((_message, context) => {
        contexts.push(context)
        return untilAborted(context)
      }),
    )
    const input = tracked('m1')
    const run = router.run(new FedSource([input]))
    await settlePromises()
    void router.stop()
    await runtime.advance(50)
    await run
    await runtime.advance(100)
    expect(contexts[0]?.signal.reason).toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect(input.calls).toMatchObject([{ error: { code: 'ACKORD_SHUTDOWN' }, options: { retryAfter: 0 } }])
    expect(runtime.timers).toBe(0)
  })

  it('keeps its reason when a forced stop comes later', async () => {
    const { router, runtime, contexts } = timedWorld({ shutdownTimeout: 500 })
    const gate = deferred()
    router.handle(
      handling(async (_message, context) => {
        contexts.push(context)
        await gate.promise
        context.signal.throwIfAborted()
      }),
    )
    const input = tracked('m1')
    const run = router.run(new FedSource([input]))
    await settlePromises()
    void router.stop()
    await runtime.advance(600)
    gate.resolve()
    await run
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_PROCESS_TIMEOUT' } }])
  })

  it('provides a signal with many listeners without a MaxListenersExceededWarning', async () => {
    const warnings = await warningsDuring(async () => {
      const { router, runtime } = openWorld({ processTimeout: 1000 })
      router.handle(
        handling((_message, { signal }) => Promise.all(Array.from({ length: 11 }, () => sleep(runtime, 1, { signal }))).then(() => [])),
      )
      const run = router.run(sourceOf(tracked('m1')))
      await runtime.advance(10)
      await run
    })
    expect(warnings).toEqual([])
  })

  it("is each message's own", async () => {
    const { router, runtime, contexts } = timedWorld({ concurrency: 2 })
    const source = new FedSource()
    router.handle(
      handling((_message, context) => {
        contexts.push(context)
        return untilAborted(context)
      }),
    )
    const inputs = trackedSome(2)
    const run = router.run(source)
    source.push(...inputs.slice(0, 1))
    await runtime.advance(60)
    source.push(...inputs.slice(1))
    await runtime.advance(60)
    expect(contexts.map(({ signal }) => signal.aborted)).toEqual([true, false])
    await runtime.advance(40)
    source.end()
    await run
    expect(inputs.map(verdicts)).toEqual([['nack'], ['nack']])
  })
})

describe('leaving a pipe', () => {
  it('nacks inputs whose outputs were not read, and everything queued', async () => {
    const { router } = openWorld({ concurrency: 2, orderingKey: 'partitionkey' })
    const gate = deferred()
    router.handle(
      handling(async ({ id }) => {
        if (id === 'm2') await gate.promise
        return [placed(id), placed(`${id}-more`)]
      }),
    )
    const inputs = ['a', 'b', 'a', 'b'].map((partitionkey, index) => tracked(`m${index + 1}`, { attributes: { partitionkey } }))
    const source = new FedSource(inputs)
    const outputs = router.pipe(source)
    expect((await outputs.next()).value?.data).toBe('m1')
    await settlePromises()
    const left = outputs.return?.()
    await settlePromises()
    expect(inputs.map(verdicts)).toEqual([['nack'], [], ['nack'], []])
    gate.resolve()
    await left
    expect(inputs.map(verdicts)).toEqual([['nack'], ['nack'], ['nack'], ['nack']])
    expect(inputs[1]?.calls[0]?.error).toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect(router.health().state).toBe('idle')
  })

  it('ends waiting reads', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const outputs = router.pipe(new FedSource())
    const [first, second] = [outputs.next(), outputs.next()]
    await settlePromises()
    await outputs.return?.()
    expect([(await first).done, (await second).done]).toEqual([true, true])
  })

  it('ends the pipe that it reads from', async () => {
    for (const waits of [true, false]) {
      const gate = deferred()
      const first = openWorld().router.handle(handling(({ id }) => [placed(id)]))
      const second = openWorld().router.handle(
        handling(async (message) => {
          if (!waits) await gate.promise
          return [message]
        }, 'order.placed'),
      )
      const inputs = trackedSome(waits ? 1 : 2)
      const source = new FedSource(inputs)
      const outputs = second.pipe(first.pipe(source))
      const read = outputs.next()
      await settlePromises()
      expect(first.health().state).toBe('running')
      const left = outputs.return?.()
      gate.resolve()
      await left
      await settlePromises()
      expect([first.health().state, second.health().state]).toEqual(['idle', 'idle'])
      expect((await read).done).toBe(!waits)
      expect(inputs.flatMap(verdicts)).not.toContain('reject')
    }
  })

  it('lets a reader stop the router from inside the loop', async () => {
    const { router } = openWorld({ shutdownTimeout: 0 })
    router.handle(handling(({ id }) => [placed(id)]))
    const inputs = trackedSome(3)
    const seen: unknown[] = []
    for await (const output of router.pipe(new FedSource(inputs))) {
      seen.push(output.data)
      await router.stop()
    }
    expect(seen).toEqual(['m1'])
    expect(verdicts(inputs[0] ?? { calls: [] })).toEqual(['ack'])
  })
})
