import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, it } from 'vitest'
import { beginAttempt, type Context, contextKey, currentContext, enter, messageKey } from '../../src/message/context.ts'
import type { Message } from '../../src/message/message.ts'
import { correlationMiddleware } from '../../src/middleware/correlation.ts'
import { compose, type Middleware, middleware } from '../../src/middleware/middleware.ts'
import { retryMiddleware } from '../../src/middleware/retry.ts'
import { throttleMiddleware } from '../../src/middleware/throttle.ts'
import { sleep } from '../../src/ports/runtime.ts'
import { MemoryWorld } from '../broker/memory/memory-world.ts'
import {
  collect,
  deferred,
  FedSource,
  failureOf,
  handling,
  openWorld,
  placed,
  recordingPublisher,
  sourceOf,
  tracked,
  trackedSome,
  verdicts,
} from '../support/router-world.ts'
import { settlePromises } from '../support/virtual-runtime.ts'

describe('the order of middleware', () => {
  it("puts the first one added outermost, that of the handler inside the router's, and all inside acking", async () => {
    const { router } = openWorld()
    const log: string[] = []
    const named =
      (name: string): Middleware =>
      (next) =>
        async function step(message, context) {
          log.push(`${name} in`)
          const outputs = await next(message, context)
          log.push(`${name} out ${message.state}`)
          return outputs
        }
    router.use(named('a'), named('b')).use(compose(named('c'), named('d')))
    router.handle(
      handling(() => void log.push('handler')),
      { use: [named('e'), named('f')] },
    )
    const input = tracked('m1', { answer: () => void log.push('ack') })
    await router.run(sourceOf(input))
    expect(log).toEqual([
      ...['a in', 'b in', 'c in', 'd in', 'e in', 'f in', 'handler'],
      ...['f out pending', 'e out pending', 'd out pending', 'c out pending', 'b out pending', 'a out pending', 'ack'],
    ])
  })

  it("applies a handler's middleware to that handler only", async () => {
    const { router } = openWorld()
    const seen: unknown[] = []
    const note: Middleware = (next) => (message, context) => {
      seen.push(message.id)
      return next(message, context)
    }
    router
      .handle(
        handling(() => []),
        { use: [note] },
      )
      .handle(handling(() => [], 'order.cancel'))
    await router.run(sourceOf(tracked('m1'), tracked('m2', { type: 'order.cancel' })))
    expect(seen).toEqual(['m1'])
  })

  it('wraps each handler once per run, not per message', async () => {
    const { router } = openWorld()
    let wrapped = 0
    router.use((next) => {
      wrapped += 1
      return next
    })
    router.handle(handling(() => []))
    await router.run(sourceOf(...trackedSome(5)))
    expect(wrapped).toBe(1)
  })

  it('runs router middleware also for messages without a handler', async () => {
    const { router } = openWorld()
    const seen: unknown[] = []
    router.use((next) => async (message, context) => {
      try {
        return await next(message, context)
      } catch (error) {
        seen.push(error)
        return []
      }
    })
    const input = tracked('m1', { type: 'unknown' })
    await router.handle(handling(() => [])).run(sourceOf(input))
    expect(seen).toMatchObject([{ code: 'ACKORD_NO_HANDLER' }])
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('lets middleware return without calling the handler', async () => {
    const { router } = openWorld()
    const handled: unknown[] = []
    router.use(() => async () => [placed('from middleware')])
    router.handle(handling(({ id }) => void handled.push(id)))
    const input = tracked('m1')
    const outputs = await collect(router.pipe(sourceOf(input)))
    expect(outputs).toMatchObject([{ data: 'from middleware', attributes: { source: '/orders', specversion: '1.0' } }])
    expect(outputs[0]?.id).toBeDefined()
    expect(handled).toEqual([])
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('accepts middleware that is not async and throws', async () => {
    const { router } = openWorld()
    router.use(() => () => {
      throw new Error('not async')
    })
    const input = tracked('m1')
    await router.handle(handling(() => [])).run(sourceOf(input))
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { message: 'not async' } }])
  })

  it('accepts middleware that is not async and returns outputs', async () => {
    const { router } = openWorld()
    router.use((() => () => [placed('sync')]) as unknown as Middleware)
    router.handle(handling(() => []))
    expect(await collect(router.pipe(sourceOf(tracked('m1'))))).toMatchObject([{ data: 'sync' }])
  })

  it.each([
    ['undefined', undefined],
    ['null', null],
    ['a number', 5],
    ['an empty string', ''],
    ['a set', new Set()],
  ])('nacks a message whose middleware dropped the outputs and returned %s', async (_what, value) => {
    const { router } = openWorld()
    router.use((next) => async (message, context) => {
      await next(message, context)
      return value as never
    })
    const input = tracked('m1')
    await router.handle(handling(() => [placed()])).run(sourceOf(input))
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_INVALID_OUTPUT' } }])
  })

  it('fails to start when a middleware cannot wrap, and can be started no other way', async () => {
    const { router } = openWorld()
    router.use(() => {
      throw new Error('cannot wrap')
    })
    router.handle(handling(() => []))
    await expect(router.run(sourceOf())).rejects.toThrow('cannot wrap')
    await expect((async () => collect(router.pipe(sourceOf())))()).rejects.toThrow('cannot wrap')
    expect(router.health().state).toBe('idle')
  })
})

describe('next', () => {
  const twice: Record<string, Middleware> = {
    'one after the other': (next) => async (message, context) => {
      await next(message, context)
      return await next(message, context)
    },
    'at the same time': (next) => async (message, context) => {
      const [first] = await Promise.all([next(message, context), next(message, context)])
      return first
    },
    'after a failure': (next) => async (message, context) => {
      try {
        return await next(message, context)
      } catch {
        return await next(message, context)
      }
    },
    'with contexts made from the same one': (next) => async (message, context) => {
      const key = contextKey<number>('n')
      await next(message, context.with(key, 1))
      return await next(message, context.with(key, 2))
    },
  }

  it.each(Object.entries(twice))('may not be called twice: %s', async (how, middleware) => {
    for (const place of ['router', 'handler']) {
      const { router } = openWorld()
      let calls = 0
      const handler = handling(() => {
        calls += 1
        if (how === 'after a failure') throw new Error('first')
        return [placed()]
      })
      if (place === 'router') router.use(middleware).handle(handler)
      else router.handle(handler, { use: [middleware] })
      const input = tracked('m1')
      const publisher = recordingPublisher()
      await router.run(sourceOf(input), { publisher, destination: 'orders' })
      expect(calls).toBe(1)
      expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_NEXT_CALLED_TWICE' } }])
      expect(publisher.calls).toEqual([])
    }
  })

  it('may not be called twice around middleware that changes the message', async () => {
    const { router } = openWorld()
    let calls = 0
    router.use((next) => async (message, context) => {
      await next(message, context)
      return await next(message, context)
    })
    router.use(correlationMiddleware({ start: () => 'correlation' }))
    router.handle(
      handling(() => {
        calls += 1
      }),
    )
    const input = tracked('m1')
    await router.run(sourceOf(input))
    expect(calls).toBe(1)
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_NEXT_CALLED_TWICE' } }])
  })

  it('may be called twice for two attempts, of which each is one call', async () => {
    const { router } = openWorld()
    const attempts: Context[] = []
    router.use((next) => async (message, context) => {
      const first = beginAttempt(context)
      await enter(first, () => next(message, first)).catch(() => {})
      const second = beginAttempt(context)
      const outputs = await enter(second, () => next(message, second))
      await expect(next(message, second)).rejects.toMatchObject({ code: 'ACKORD_NEXT_CALLED_TWICE' })
      return outputs
    })
    router.handle(
      handling((_message, context) => {
        attempts.push(context)
        if (attempts.length === 1) throw new Error('first')
        return [placed('second')]
      }),
    )
    const input = tracked('m1')
    expect(await collect(router.pipe(sourceOf(input)))).toMatchObject([{ data: 'second' }])
    expect(attempts).toHaveLength(2)
    expect(attempts[0]).not.toBe(attempts[1])
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('counts per message: the next one starts anew', async () => {
    const { router } = openWorld({ concurrency: 3 })
    let calls = 0
    router.use((next) => (message, context) => next(message, context))
    router.handle(
      handling(() => {
        calls += 1
      }),
    )
    await router.run(sourceOf(...trackedSome(10)))
    expect(calls).toBe(10)
    expect(router.health().failed).toBe(0)
  })

  it('is called again by the retry middleware without harm', async () => {
    const { router, runtime, logger } = openWorld()
    let calls = 0
    router.use(retryMiddleware({ attempts: 3, runtime, logger }))
    router.handle(
      handling(() => {
        calls += 1
        if (calls < 3) throw new Error(`failure ${calls}`)
        return []
      }),
    )
    const input = tracked('m1')
    const run = router.run(sourceOf(input))
    await runtime.advance(60_000)
    await run
    expect(calls).toBe(3)
    expect(verdicts(input)).toEqual(['ack'])
    expect(runtime.timers).toBe(0)
  })
})

describe("a message that waits for its handler's turn", () => {
  it('has no middleware around it yet, so that it holds no transaction', async () => {
    const { router } = openWorld({ concurrency: 10 })
    const most = { open: 0, running: 0 }
    const now = { open: 0, running: 0 }
    async function during<R>(what: 'open' | 'running', work: () => Promise<R>): Promise<R> {
      now[what] += 1
      most[what] = Math.max(most[what], now[what])
      return await work().finally(() => {
        now[what] -= 1
      })
    }
    router.use(
      middleware({ role: 'transaction', resource: {} }, (next) => (message, context) => during('open', () => next(message, context))),
    )
    router.handle(
      handling(() => during('running', settlePromises)),
      { concurrency: 1 },
    )
    await router.run(sourceOf(...trackedSome(10)))
    expect(most).toEqual({ open: 1, running: 1 })
  })

  it('spends none of its processTimeout', async () => {
    const { router, runtime } = openWorld({ concurrency: 2, processTimeout: 100 })
    const aborted: boolean[] = []
    router.handle(
      handling(async (_message, { signal }) => {
        await sleep(runtime, 80)
        aborted.push(signal.aborted)
      }),
      { concurrency: 1 },
    )
    const inputs = trackedSome(2)
    const run = router.run(sourceOf(...inputs))
    await runtime.advance(1000)
    await run
    expect(aborted).toEqual([false, false])
    expect(inputs.map(verdicts)).toEqual([['ack'], ['ack']])
  })
})

describe('the ambient context', () => {
  /** Stands for a repository deep in the call stack. */
  async function deep(level: number): Promise<Context | undefined> {
    await Promise.resolve()
    return level === 0 ? currentContext() : await deep(level - 1)
  }

  it('is the same object as the argument, in handler and middleware, deep in the stack, across awaits and timers', async () => {
    const { router } = openWorld()
    const same: boolean[] = []
    router.use((next) => async (message, context) => {
      same.push(currentContext() === context)
      const outputs = await next(message, context)
      same.push(currentContext() === context)
      return outputs
    })
    router.handle(
      handling(async (message, context) => {
        same.push(currentContext() === context, context.get(messageKey) === message)
        same.push((await deep(5)) === context)
        await new Promise<void>((resolve) => setTimeout(resolve, 0))
        same.push(currentContext() === context)
        await new Promise<void>((resolve) => setImmediate(resolve))
        same.push((await deep(3)) === context)
        queueMicrotask(() => same.push(currentContext() === context))
        await Promise.resolve()
      }),
    )
    await router.run(sourceOf(tracked('m1')))
    expect(same).toEqual(Array.from({ length: 8 }, () => true))
    expect(currentContext()).toBeUndefined()
  })

  it('is separate for concurrent messages', async () => {
    const { router } = openWorld({ concurrency: 10 })
    const gate = deferred()
    const ids: unknown[] = []
    router.handle(
      handling(async (message) => {
        await gate.promise
        await Promise.resolve()
        ids.push([message.id, currentContext()?.get(messageKey)?.id])
      }),
      { concurrency: 4 },
    )
    const run = router.run(sourceOf(...trackedSome(10)))
    await settlePromises()
    gate.resolve()
    await run
    expect(ids).toHaveLength(10)
    for (const [own, ambient] of ids as [string, string][]) expect(ambient).toBe(own)
  })

  it.each(['the handler’s turn', 'the throttle'])("is each message's own after it has waited for %s", async (what) => {
    const { router, runtime } = openWorld({ concurrency: 5 })
    const seen: boolean[] = []
    const concurrency = what === 'the throttle' ? 5 : 1
    if (what === 'the throttle') router.use(throttleMiddleware({ rate: 1, interval: 10, runtime }))
    router.handle(
      handling(async (_message, context) => {
        seen.push(currentContext() === context)
        await settlePromises()
        seen.push(currentContext() === context)
      }),
      { concurrency },
    )
    const run = router.run(sourceOf(...trackedSome(5)))
    await runtime.advance(1000)
    await run
    expect(seen).toEqual(Array(10).fill(true))
  })

  it('does not leak into the reading loop of another router by a handler that publishes to it', async () => {
    await using world = new MemoryWorld()
    const seen: unknown[] = []
    const first = openWorld().router.handle(handling(() => world.broker.publish('second', [tracked('m2').message]).then(() => [])))
    const orderingKey = () => void seen.push(currentContext())
    const second = openWorld({ concurrency: 2, orderingKey }).router.handle(handling(() => []))
    const runs = [second.run(world.broker.source('second')), first.run(world.broker.source('first'))]
    await world.broker.publish('first', [tracked('m1').message])
    await world.broker.idle('first')
    await world.broker.idle('second')
    await Promise.all([first.stop(), second.stop(), ...runs])
    expect(seen).toEqual([undefined])
  })

  it('does not exist where messages are read, settled and published', async () => {
    const { router } = openWorld()
    const seen: unknown[] = []
    router.handle(handling(() => [placed()]))
    async function* messages() {
      seen.push(currentContext())
      yield tracked('m1', { answer: () => void seen.push(currentContext()) }).message
      seen.push(currentContext())
    }
    const publisher = recordingPublisher(async (call) => {
      seen.push(currentContext())
      return call.messages.map(() => ({ ok: true }))
    })
    await router.run({ messages }, { publisher, destination: 'orders' })
    expect(seen).toEqual([undefined, undefined, undefined, undefined])
  })

  it.each(['stop()', 'its signal'])('does not leak into the nacks of others by a handler that stops the router by %s', async (means) => {
    const { router } = openWorld({ orderingKey: 'partitionkey' })
    const controller = new AbortController()
    const seen: unknown[] = []
    router.handle(
      handling(async () => {
        await settlePromises()
        if (means === 'stop()') void router.stop()
        else controller.abort()
      }),
    )
    const attributes = { partitionkey: 'k' }
    const behind = tracked('m2', { attributes, answer: () => void seen.push(currentContext()) })
    await router.run(new FedSource([tracked('m1', { attributes }), behind]), { signal: controller.signal })
    expect(verdicts(behind)).toEqual(['nack'])
    expect(seen).toEqual([undefined])
  })

  it('does not exist with `ambient: false`, and the argument works nevertheless', async () => {
    const { router } = openWorld({ ambient: false, processTimeout: 1000 })
    const seen: unknown[] = []
    router.handle(
      handling((message, context) => {
        seen.push(currentContext(), context.get(messageKey) === message)
        enter(context, () => seen.push(currentContext()))
      }),
    )
    await router.run(sourceOf(tracked('m1')))
    expect(seen).toEqual([undefined, true, undefined])
  })

  it.each([true, false])('does not reach a router that is started inside a handler (ambient: %s)', async (ambient) => {
    const outer = openWorld()
    const inner = openWorld({ ambient })
    const outerKey = contextKey<string>('outer')
    const seen: unknown[] = []
    inner.router.handle(
      handling((message, context) => {
        seen.push(
          context.get(outerKey),
          currentContext()?.get(outerKey),
          currentContext()?.get(messageKey) === (ambient ? message : undefined),
        )
      }),
    )
    let own: boolean | undefined
    outer.router.use((next) => (message, context) => {
      const changed = context.with(outerKey, 'of the outer router')
      return enter(changed, () => next(message, changed))
    })
    outer.router.handle(
      handling(async (_message, context) => {
        async function* messages() {
          seen.push(currentContext())
          yield tracked('inner', { answer: () => void seen.push(currentContext()) }).message
        }
        await inner.router.run({ messages })
        own = currentContext() === context
      }),
    )
    await outer.router.run(sourceOf(tracked('m1')))
    expect(seen).toEqual([undefined, undefined, undefined, true, undefined])
    expect(own).toBe(true)
  })

  it('does not affect other storages', async () => {
    const storage = new AsyncLocalStorage<string>()
    const { router } = openWorld()
    const seen: unknown[] = []
    router.handle(handling(() => void seen.push(storage.getStore())))
    await storage.run('tenant', () => router.run(sourceOf(tracked('m1'))))
    expect(seen).toEqual(['tenant'])
  })

  it("has a handler's signal and deadline, of the shutdown and of the expiry", async () => {
    const { router, runtime } = openWorld({ shutdownTimeout: 0 })
    let context: Context | undefined
    router.handle(
      handling((_message: Message, given) => {
        context = given
        return new Promise((_resolve, reject) => given.signal.addEventListener('abort', () => reject(given.signal.reason)))
      }),
    )
    const expirytime = new Date(runtime.now() + 500)
    const source = new FedSource([tracked('m1', { attributes: { expirytime } })])
    const run = router.run(source)
    await settlePromises()
    expect(context?.deadline).toBe(expirytime.getTime())
    expect(context?.signal.aborted).toBe(false)
    await router.stop()
    await run
    expect(context?.signal.reason).toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    await failureOf(Promise.reject(context?.signal.reason), 'ACKORD_SHUTDOWN')
  })
})
