import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, it } from 'vitest'
import { AckordError } from '../../src/errors.ts'
import type { Context } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { TransactionScope, transactionScopeKey } from '../../src/message/transaction-scope.ts'
import type { Middleware } from '../../src/middleware/middleware.ts'
import { warningsDuring } from '../support/process-events.ts'
import {
  deferred,
  FedSource,
  failureOf,
  handling,
  openWorld,
  placed,
  recordingPublisher,
  sourceOf,
  tracked,
  verdicts,
} from '../support/router-world.ts'
import { settlePromises } from '../support/virtual-runtime.ts'

const encode = (data: unknown) => new TextEncoder().encode(JSON.stringify(data))
const attributes = { id: 'm1', type: 'order.place', source: '/shop', specversion: '1.0' }

function untilAborted({ signal }: Context): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}

describe('handleOne()', () => {
  it('decodes bytes, calls middleware and handler, publishes the outputs, and resolves to the settlement', async () => {
    const { router } = openWorld()
    const steps: unknown[] = []
    const around: Middleware = (next) => async (message, context) => {
      steps.push('middleware')
      return await next(message, context)
    }
    router.use(around).handle(
      handling((message) => {
        steps.push(message.data)
        return Promise.resolve([placed()])
      }),
    )
    const publisher = recordingPublisher()
    const result = await router.handleOne(new Message(encode({ order: 1 }), attributes), { publisher, destination: 'events' })
    expect(result).toMatchObject({ verdict: 'acked' })
    expect(steps).toEqual(['middleware', { order: 1 }])
    expect(publisher.calls).toMatchObject([{ destination: 'events', messages: [{ attributes: { type: 'order.placed' } }] }])
    expect(router.health()).toMatchObject({ state: 'running', handled: 1 })
    await router.stop()
    expect(router.health()).toMatchObject({ state: 'idle', handled: 1 })
  })

  it('passes typed data to the handler as it is', async () => {
    const { router } = openWorld()
    let data: unknown
    router.handle(
      handling(async (message) => {
        data = message.data
        return []
      }),
    )
    await router.handleOne(new Message({ order: 2 }, attributes))
    expect(data).toEqual({ order: 2 })
  })

  it('settles a message that has an acking through it', async () => {
    const { router } = openWorld()
    router.handle(handling(async () => []))
    const one = tracked('m1')
    expect(await router.handleOne(one.message)).toMatchObject({ verdict: 'acked' })
    expect(verdicts(one)).toEqual(['ack'])
  })

  it('resolves to nacked with the delay, or to rejected, as the failure policy decides', async () => {
    const { router } = openWorld({ redeliveryDelay: () => 700, onError: ({ message }) => (message === 'never' ? 'reject' : undefined) })
    router.handle(
      handling(async ({ data }) => {
        throw new Error(String(data))
      }),
    )
    const again = await router.handleOne(new Message('later', attributes))
    expect(again).toMatchObject({ verdict: 'nacked', retryAfter: 700, error: { message: 'later' } })
    expect(await router.handleOne(new Message('never', attributes))).toMatchObject({ verdict: 'rejected', error: { message: 'never' } })
    expect(await router.handleOne(new Message(new Uint8Array([1]), attributes))).toMatchObject({
      verdict: 'rejected',
      error: { code: 'ACKORD_UNMARSHAL_FAILED' },
    })
    expect(await router.handleOne(new Message('x', { ...attributes, type: 'unknown' }))).toMatchObject({ verdict: 'rejected' })
  })

  it('reports a verdict that the broker did not accept', async () => {
    const { router } = openWorld()
    router.handle(handling(async () => []))
    const refusing = () => {
      throw new Error('no connection')
    }
    const { message } = tracked('m1', { answer: refusing })
    expect(await router.handleOne(message)).toMatchObject({ verdict: 'acked', failure: { message: 'no connection' } })
  })

  it('handles up to `concurrency` messages at the same time, and the others in their turn', async () => {
    const { router } = openWorld({ concurrency: 2 })
    const gates = [deferred(), deferred(), deferred()]
    const begun: unknown[] = []
    router.handle(
      handling(async ({ data }) => {
        begun.push(data)
        await gates[Number(data)]?.promise
        return []
      }),
    )
    const calls = [0, 1, 2].map((data) => router.handleOne(new Message(data, attributes)))
    await settlePromises()
    expect(begun).toEqual([0, 1])
    gates[1]?.resolve()
    await calls[1]
    await settlePromises()
    expect(begun).toEqual([0, 1, 2])
    for (const gate of gates) gate.resolve()
    await Promise.all(calls)
  })

  it('handles the messages of one ordering key one after the other', async () => {
    const { router } = openWorld({ concurrency: 4, orderingKey: 'partitionkey' })
    const gate = deferred()
    const begun: unknown[] = []
    router.handle(
      handling(async ({ data }) => {
        begun.push(data)
        if (data === 1) await gate.promise
        return []
      }),
    )
    const keyed = (data: number, partitionkey: string) => router.handleOne(new Message(data, { ...attributes, partitionkey }))
    const calls = [keyed(1, 'a'), keyed(2, 'a'), keyed(3, 'b')]
    await settlePromises()
    expect(begun).toEqual([1, 3])
    gate.resolve()
    await Promise.all(calls)
    expect(begun).toEqual([1, 3, 2])
  })

  it('runs handlers in the async context of the call', async () => {
    const { router } = openWorld()
    const request = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    router.handle(
      handling(async () => {
        seen.push(request.getStore())
        return []
      }),
    )
    const calls = ['one', 'two'].map((name) => request.run(name, () => router.handleOne(new Message(0, attributes))))
    await Promise.all(calls)
    expect(seen).toEqual(['one', 'two'])
  })
})

describe('the end of a call of handleOne()', () => {
  it('comes after the time-out if the handler observes its signal', async () => {
    const { router, runtime } = openWorld()
    let deadline: number | undefined
    router.handle(
      handling((_, context) => {
        deadline = context.deadline
        return untilAborted(context)
      }),
    )
    const startedAt = runtime.now()
    const call = router.handleOne(new Message(0, attributes), { timeout: 500 })
    await runtime.advance(500)
    expect(await call).toMatchObject({ verdict: 'nacked', error: { code: 'ACKORD_PROCESS_TIMEOUT' } })
    expect(deadline).toBe(startedAt + 500)
    expect(runtime.timers).toBe(0)
  })

  it('comes after the grace time if the handler does not, and the handler still has its slot', async () => {
    const { router, runtime } = openWorld()
    const gate = deferred()
    router.handle(
      handling(async () => {
        await gate.promise
        return [placed()]
      }),
    )
    const publisher = recordingPublisher()
    const call = router.handleOne(new Message(0, attributes), { timeout: 500, grace: 200, publisher, destination: 'events' })
    await runtime.advance(700)
    expect(await call).toMatchObject({ verdict: 'nacked', error: { code: 'ACKORD_PROCESS_TIMEOUT' } })
    expect(router.health().inFlight).toBe(1)
    gate.resolve()
    await settlePromises()
    expect(router.health().inFlight).toBe(0)
    expect(publisher.calls).toEqual([])
  })

  it('comes immediately for a message that waits for its turn', async () => {
    const { router, runtime } = openWorld()
    const gate = deferred()
    const begun: unknown[] = []
    router.handle(
      handling(async ({ data }) => {
        begun.push(data)
        await gate.promise
        return []
      }),
    )
    const first = router.handleOne(new Message(1, attributes))
    const aborting = new AbortController()
    const second = router.handleOne(new Message(2, attributes), { signal: aborting.signal })
    await settlePromises()
    aborting.abort(new Error('the client has gone'))
    expect(await second).toMatchObject({ verdict: 'nacked', error: { cause: { message: 'the client has gone' } } })
    gate.resolve()
    expect(await first).toMatchObject({ verdict: 'acked' })
    await settlePromises()
    expect(begun).toEqual([1])
    expect(runtime.timers).toBe(0)
  })

  it('comes immediately if the signal was aborted before', async () => {
    const { router } = openWorld()
    router.handle(handling(async () => []))
    const result = await router.handleOne(new Message(0, attributes), { signal: AbortSignal.abort(new Error('too late')) })
    expect(result).toMatchObject({ verdict: 'nacked', error: { cause: { message: 'too late' } } })
    expect(await router.handleOne(new Message(0, attributes))).toMatchObject({ verdict: 'acked' })
  })

  it('does not let a transaction commit that is still open then', async () => {
    const { router, runtime, logger } = openWorld()
    const gate = deferred()
    const ends: string[] = []
    const transaction: Middleware = (next) => async (message, context) => {
      const scope = new TransactionScope(context, { logger })
      scope.hold(message)
      const outputs = await next(message, context.with(transactionScopeKey, scope))
      const refusal = scope.rollbackOnly
      ends.push(refusal === undefined ? 'commit' : 'rollback')
      await scope.end(refusal === undefined ? 'committed' : 'rolledBack')
      if (refusal !== undefined) throw refusal.error
      return outputs
    }
    router.use(transaction).handle(
      handling(async () => {
        await gate.promise
        return []
      }),
    )
    const call = router.handleOne(new Message(0, attributes), { timeout: 500, grace: 200 })
    await runtime.advance(700)
    expect(await call).toMatchObject({ verdict: 'nacked' })
    gate.resolve()
    await settlePromises()
    expect(ends).toEqual(['rollback'])
  })

  it('comes with a nack, and without a pause of the router, if the store rejects writes', async () => {
    const { router } = openWorld()
    router.handle(
      handling(async () => {
        throw new AckordError('ACKORD_STORE_REFUSES_WRITES', 'read only')
      }),
    )
    expect(await router.handleOne(new Message(0, attributes))).toMatchObject({ verdict: 'nacked' })
    expect(router.health().paused).toBe(false)
  })

  it('comes with a stop: running handlers finish, waiting messages are nacked, and later calls are refused', async () => {
    const { router } = openWorld()
    const gate = deferred()
    router.handle(
      handling(async () => {
        await gate.promise
        return []
      }),
    )
    const calls = [1, 2, 3].map((data) => router.handleOne(new Message(data, attributes)))
    await settlePromises()
    const stopped = router.stop()
    gate.resolve()
    await stopped
    expect((await Promise.all(calls)).map(({ verdict }) => verdict)).toEqual(['acked', 'nacked', 'nacked'])
    await failureOf(router.handleOne(new Message(4, attributes)), 'ACKORD_SHUTDOWN')
  })

  it('leaves no listener on a signal that many calls share', async () => {
    const { router } = openWorld({ concurrency: 50 })
    router.handle(handling(async () => []))
    const { signal } = new AbortController()
    const warnings = await warningsDuring(async () => {
      await Promise.all(Array.from({ length: 50 }, (_, data) => router.handleOne(new Message(data, attributes), { signal })))
    })
    expect(warnings).toEqual([])
  })
})

describe('handleOne() rejects', () => {
  it('while the router runs otherwise, and run() while it handles single messages', async () => {
    const { router } = openWorld()
    router.handle(handling(async () => []))
    await router.handleOne(new Message(0, attributes))
    await failureOf(router.run(sourceOf()), 'ACKORD_ALREADY_STARTED')
    await router.stop()
    const other = openWorld().router.handle(handling(async () => []))
    const source = new FedSource()
    const running = other.run(source)
    await failureOf(other.handleOne(new Message(0, attributes)), 'ACKORD_ALREADY_STARTED')
    source.end()
    await running
  })

  it('a call in a handler of the same router, which could wait for itself', async () => {
    const { router } = openWorld()
    router.handle(
      handling(async () => {
        await router.handleOne(new Message(1, attributes))
        return []
      }),
    )
    expect(await router.handleOne(new Message(0, attributes))).toMatchObject({ error: { code: 'ACKORD_ALREADY_STARTED' } })
  })

  it('what is no message, or is settled, or is being handled', async () => {
    const { router } = openWorld()
    const gate = deferred()
    router.handle(
      handling(async () => {
        await gate.promise
        return []
      }),
    )
    // @ts-expect-error: written in JavaScript.
    await failureOf(router.handleOne({ data: 1 }), 'ACKORD_INVALID_OPTION')
    const { message } = tracked('m1')
    const call = router.handleOne(message)
    await failureOf(router.handleOne(message), 'ACKORD_INVALID_OPTION')
    gate.resolve()
    await call
    await failureOf(router.handleOne(message), 'ACKORD_INVALID_OPTION')
  })

  it('invalid options, and a router whose handlers settle messages themselves', async () => {
    const { router } = openWorld()
    router.handle(handling(async () => []))
    await failureOf(router.handleOne(new Message(0, attributes), { timeout: 0 }), 'ACKORD_INVALID_OPTION')
    await failureOf(router.handleOne(new Message(0, attributes), { grace: -1 }), 'ACKORD_INVALID_OPTION')
    await failureOf(router.handleOne(new Message(0, attributes), { destination: 'events' }), 'ACKORD_INVALID_OPTION')
    const manual = openWorld({ ackStrategy: 'manual' }).router.handle(handling(async () => []))
    await failureOf(manual.handleOne(new Message(0, attributes)), 'ACKORD_INVALID_OPTION')
  })
})
