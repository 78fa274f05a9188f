import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { contextKey } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { TransactionScope } from '../../src/message/transaction-scope.ts'
import type { Middleware } from '../../src/middleware/middleware.ts'
import { retryMiddleware } from '../../src/middleware/retry.ts'
import { silentLogger } from '../../src/ports/observability.ts'
import type { RouterOptions } from '../../src/router/router-options.ts'
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

const broken = new Error('broken')

describe('onSuccess', () => {
  it('acks when the handler has finished without outputs, and nacks when it fails', async () => {
    const { router } = openWorld()
    const inputs = trackedSome(2)
    router.handle(
      handling(({ id }) => {
        if (id === 'm2') throw broken
      }),
    )
    await router.run(sourceOf(...inputs))
    expect(inputs.map(verdicts)).toEqual([['ack'], ['nack']])
    expect(inputs[1]?.calls[0]?.error).toBe(broken)
  })

  it('acks an input of a pipe only when all of its outputs were read', async () => {
    const { router } = openWorld()
    router.handle(handling(() => [placed('a'), placed('b')]))
    const input = tracked('m1')
    const outputs = router.pipe(sourceOf(input))
    expect((await outputs.next()).value?.data).toBe('a')
    await settlePromises()
    expect(verdicts(input)).toEqual([])
    expect((await outputs.next()).value?.data).toBe('b')
    await settlePromises()
    expect(verdicts(input)).toEqual(['ack'])
    expect((await outputs.next()).done).toBe(true)
  })

  it('acks an input of a run only when its outputs were confirmed', async () => {
    const { router } = openWorld()
    router.handle(handling(() => [placed()]))
    const input = tracked('m1')
    const confirmed = deferred()
    const publisher = recordingPublisher(async ({ messages }) => {
      await confirmed.promise
      return messages.map(() => ({ ok: true }))
    })
    const run = router.run(sourceOf(input), { publisher, destination: 'orders' })
    await settlePromises()
    expect(publisher.calls).toHaveLength(1)
    expect(verdicts(input)).toEqual([])
    confirmed.resolve()
    await run
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('keeps a verdict of the handler', async () => {
    const { router } = openWorld()
    const inputs = trackedSome(3)
    router.handle(
      handling(async (message) => {
        if (message.id === 'm1') await message.ack()
        if (message.id === 'm2') await message.nack(broken, { retryAfter: 7 })
        if (message.id === 'm3') await message.reject(broken)
      }),
    )
    await router.run(sourceOf(...inputs))
    expect(inputs.map(verdicts)).toEqual([['ack'], ['nack'], ['reject']])
    expect(inputs[1]?.calls[0]?.options).toEqual({ retryAfter: 7 })
  })

  it('keeps the ack of a handler that fails afterwards', async () => {
    const { router } = openWorld()
    router.handle(
      handling(async (message) => {
        await message.ack()
        throw broken
      }),
    )
    const input = tracked('m1')
    await router.run(sourceOf(input))
    expect(verdicts(input)).toEqual(['ack'])
    expect(router.health()).toMatchObject({ failed: 1, lastError: broken })
  })

  it('settles an output that has an acking of its own by its result', async () => {
    const { router } = openWorld()
    const [sent, refused] = [trackedMessage('a', { type: 'order.placed' }), trackedMessage('b', { type: 'order.placed' })]
    router.handle(handling(({ id }) => [id === 'm1' ? sent.message : refused.message]))
    const publisher = recordingPublisher(async () => (publisher.calls.length === 1 ? [{ ok: true }] : [{ ok: false, error: broken }]))
    const inputs = trackedSome(2)
    await router.run(sourceOf(...inputs), { publisher, destination: 'orders' })
    expect([...inputs, sent, refused].map(verdicts)).toEqual([['ack'], ['nack'], ['ack'], ['nack']])
  })

  it('nacks outputs with an acking of their own that were never tried, because an earlier destination failed', async () => {
    const { router } = openWorld()
    const second = trackedMessage('b', { type: 'order.placed', subject: 'second' })
    router.handle(handling(() => [placed('a', { subject: 'first' }), second.message]))
    const publisher = recordingPublisher(async () => [{ ok: false, error: broken }])
    const input = tracked('m1')
    await router.run(sourceOf(input), { publisher, destination: ({ subject }) => subject ?? '' })
    expect(publisher.calls).toHaveLength(1)
    expect(verdicts(input)).toEqual(['nack'])
    expect(verdicts(second)).toEqual(['nack'])
  })

  it('settles the input once when it is its own output', async () => {
    const { router } = openWorld()
    router.handle(handling((message) => [message.withAttributes({ type: 'order.placed' })]))
    const publisher = recordingPublisher()
    const input = tracked('m1')
    await router.run(sourceOf(input), { publisher, destination: 'orders' })
    expect(publisher.calls).toHaveLength(1)
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('copies no values of the input to outputs', async () => {
    const { router } = openWorld()
    const key = contextKey<string>('tenant')
    const input = tracked('m1')
    input.message.withValue(key, 'blue')
    router.handle(handling(() => [placed()]))
    const [output] = await collect(router.pipe(sourceOf(input)))
    expect(output?.value(key)).toBeUndefined()
  })
})

describe('outputs with an acking of their own', () => {
  const whole = { id: 'other', type: 'order.placed', source: '/s', specversion: '1.0', time: '2026-01-01T00:00:00Z' }

  it('that are forks of the input do not ack it before all others are published', async () => {
    const { router } = openWorld()
    router.handle(handling((message) => [...message.fork(1).map((fork) => fork.withAttributes({ id: 'fork' })), placed()]))
    const publisher = recordingPublisher(async ({ destination }) => [destination === 'up' ? { ok: true } : { ok: false, error: broken }])
    const input = tracked('m1')
    await router.run(sourceOf(input), { publisher, destination: ({ type }) => (type === 'order.placed' ? 'down' : 'up') })
    expect(publisher.calls.map(({ destination }) => destination)).toEqual(['up', 'down'])
    expect(verdicts(input)).toEqual(['nack'])
  })

  it('are nacked, not rejected, with an input that another output makes impossible', async () => {
    const { router } = openWorld()
    const other = trackedMessage('passed on', whole)
    router.handle(handling(() => [placed('too large'), other.message]))
    const publisher = recordingPublisher(async () => [
      { ok: false, error: broken, permanent: true },
      { ok: false, error: new Error('busy') },
    ])
    const input = tracked('m1')
    await router.run(sourceOf(input), { publisher, destination: 'orders' })
    expect([verdicts(input), verdicts(other)]).toEqual([['reject'], ['nack']])
  })

  it('nack the input when their broker does not accept the ack', async () => {
    const { router } = openWorld()
    const other = trackedMessage('passed on', whole, { answer: () => Promise.reject(broken) })
    router.handle(handling(() => [placed(), other.message]))
    const input = tracked('m1')
    await router.run(sourceOf(input), { publisher: recordingPublisher(), destination: 'orders' })
    expect(verdicts(other)).toEqual(['ack'])
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: broken }])
  })
})

describe('manual', () => {
  it('recognises a message as settled that its handler acks later', async () => {
    const { router, logger } = openWorld({ ackStrategy: 'manual' })
    router.handle(handling(() => []))
    const input = tracked('m1')
    const source = new FedSource([input])
    const run = router.run(source)
    await settlePromises()
    expect(verdicts(input)).toEqual([])
    await input.message.ack()
    source.end()
    await run
    expect(logger.at('warn')).toEqual([])
  })

  it('leaves acking to the handler', async () => {
    const { router } = openWorld({ ackStrategy: 'manual' })
    const inputs = trackedSome(2)
    router.handle(
      handling(async (message) => {
        if (message.id === 'm1') await message.ack()
      }),
    )
    await router.run(sourceOf(...inputs))
    expect(inputs.map(verdicts)).toEqual([['ack'], []])
    expect(router.health().handled).toBe(2)
  })

  it('nacks when the handler fails before it has settled the message', async () => {
    const { router } = openWorld({ ackStrategy: 'manual' })
    const inputs = trackedSome(2)
    router.handle(
      handling(async (message) => {
        if (message.id === 'm1') await message.reject(broken)
        throw broken
      }),
    )
    await router.run(sourceOf(...inputs))
    expect(inputs.map(verdicts)).toEqual([['reject'], ['nack']])
  })

  it('waits for an ack that the handler did not await', async () => {
    const { router } = openWorld({ ackStrategy: 'manual' })
    const answer = deferred()
    router.handle(handling((message) => void message.ack()))
    let ended = false
    const run = router.run(sourceOf(tracked('m1', { answer: () => answer.promise }))).then(() => {
      ended = true
    })
    await settlePromises()
    expect(ended).toBe(false)
    answer.resolve()
    await run
    expect(ended).toBe(true)
  })

  it('reports the failure of an ack that comes after the handler has returned', async () => {
    const { router, logger } = openWorld({ ackStrategy: 'manual' })
    const kept: Message[] = []
    router.handle(handling((message) => void kept.push(message)))
    const source = new FedSource([tracked('m1', { answer: () => Promise.reject(broken) })])
    const run = router.run(source)
    await settlePromises()
    await expect(kept[0]?.ack()).rejects.toBe(broken)
    await settlePromises()
    expect(router.health().lastError).toBe(broken)
    expect(logger.at('error')).toMatchObject([{ fields: { err: broken, id: 'm1' } }])
    source.end()
    await run
  })

  it('delivers outputs without settling the input', async () => {
    const { router } = openWorld({ ackStrategy: 'manual' })
    router.handle(handling(() => [placed()]))
    const input = tracked('m1')
    expect(await collect(router.pipe(sourceOf(input)))).toHaveLength(1)
    expect(verdicts(input)).toEqual([])
  })
})

describe.each<NonNullable<RouterOptions['ackStrategy']>>(['onSuccess', 'manual', 'forward'])('under %s', (ackStrategy) => {
  it.each(['nack', 'reject'] as const)('outputs are not delivered when the handler settles with %s', async (verdict) => {
    const { router } = openWorld({ ackStrategy })
    router.handle(
      handling(async (message) => {
        await message[verdict](broken)
        return [placed()]
      }),
    )
    const publisher = recordingPublisher()
    const input = tracked('m1')
    await router.run(sourceOf(input), { publisher, destination: 'orders' })
    expect(publisher.calls).toEqual([])
    expect(verdicts(input)).toEqual([verdict])
  })

  it('outputs are delivered when the handler has acked', async () => {
    const { router } = openWorld({ ackStrategy })
    router.handle(
      handling(async (message) => {
        await message.ack()
        return [placed()]
      }),
    )
    const publisher = recordingPublisher()
    const input = tracked('m1')
    await router.run(sourceOf(input), { publisher, destination: 'orders' })
    expect(publisher.calls).toHaveLength(1)
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('an error nacks and drops the outputs', async () => {
    const { router } = openWorld({ ackStrategy })
    router.use((next) => async (message, context) => {
      await next(message, context)
      throw broken
    })
    router.handle(handling(() => [placed()]))
    const publisher = recordingPublisher()
    const input = tracked('m1')
    await router.run(sourceOf(input), { publisher, destination: 'orders' })
    expect(publisher.calls).toEqual([])
    expect(verdicts(input)).toEqual(['nack'])
  })

  it('a run without outputs ends by itself', async () => {
    const { router } = openWorld({ ackStrategy, orderingKey: 'partitionkey', concurrency: 2 })
    router.handle(handling((message) => (ackStrategy === 'manual' ? message.ack().then(() => []) : [])))
    const inputs = trackedSome(3, { attributes: { partitionkey: 'k' } })
    await router.run(sourceOf(...inputs))
    expect(inputs.map(verdicts)).toEqual([['ack'], ['ack'], ['ack']])
  })
})

/** Like a store: the message's verdicts wait for the end, and a nack or reject rolls back. */
function transactions(log: string[], commitFails = false): Middleware {
  return (next) =>
    async function transaction(message, context) {
      const scope = new TransactionScope(context, { logger: silentLogger })
      scope.hold(message)
      try {
        const outputs = await next(message, context)
        if (scope.rollbackOnly !== undefined) throw scope.rollbackOnly.error
        if (commitFails) throw broken
        log.push('commit')
        await scope.end('committed')
        return outputs
      } catch (error) {
        log.push('rollback')
        await scope.end('rolledBack')
        throw error
      }
    }
}

describe('verdicts inside a transaction', () => {
  async function settledIn(
    options: { readonly ackStrategy: 'onSuccess' | 'manual'; readonly commitFails?: boolean },
    handle: (message: Message) => unknown,
  ) {
    const { router } = openWorld({ ackStrategy: options.ackStrategy })
    const log: string[] = []
    router.use(transactions(log, options.commitFails)).handle(handling(handle))
    const publisher = recordingPublisher(async ({ messages }) => {
      log.push('publish')
      return messages.map(() => ({ ok: true }))
    })
    const input = tracked('m1', { answer: () => void log.push(...verdicts(input).slice(-1)) })
    await router.run(sourceOf(input), { publisher, destination: 'orders' })
    return { log, calls: input.calls }
  }

  it('reach the broker after the commit', async () => {
    const manual = await settledIn({ ackStrategy: 'manual' }, (message) => message.ack().then(() => []))
    expect(manual.log).toEqual(['commit', 'ack'])
    const onSuccess = await settledIn({ ackStrategy: 'onSuccess' }, () => [placed()])
    expect(onSuccess.log).toEqual(['commit', 'publish', 'ack'])
  })

  it('are dropped when the commit fails: an ack becomes a nack', async () => {
    const { log, calls } = await settledIn({ ackStrategy: 'manual', commitFails: true }, (message) => message.ack().then(() => []))
    expect(log).toEqual(['rollback', 'nack'])
    expect(calls).toMatchObject([{ verdict: 'nack', error: broken }])
  })

  it('roll back when they nack or reject the message, and then outputs are not delivered', async () => {
    const { log, calls } = await settledIn({ ackStrategy: 'onSuccess' }, async (message) => {
      await message.nack(broken, { retryAfter: 3 })
      return [placed()]
    })
    expect(log).toEqual(['rollback', 'nack'])
    expect(calls).toMatchObject([{ verdict: 'nack', error: broken, options: { retryAfter: 3 } }])
  })

  it('may be the ack of a duplicate, by middleware that ends the transaction itself', async () => {
    const { router } = openWorld({ ackStrategy: 'manual' })
    router.use(() => async (message, context) => {
      const scope = new TransactionScope(context, { logger: silentLogger })
      scope.hold(message)
      await message.ack()
      await scope.end('committed')
      return []
    })
    router.handle(handling(() => []))
    const input = tracked('m1')
    await router.run(sourceOf(input))
    expect(verdicts(input)).toEqual(['ack'])
  })
})

describe('a transaction in a retry', () => {
  async function retried(options: RouterOptions, handle: (message: Message) => unknown) {
    const { router, runtime } = openWorld(options)
    const log: string[] = []
    router.use(retryMiddleware({ runtime, logger: silentLogger }), transactions(log)).handle(handling(handle))
    const publisher = recordingPublisher()
    const input = tracked('m1')
    const run = router.run(sourceOf(input), { publisher, destination: 'orders' })
    await runtime.advance(100_000)
    await run
    return { log, input, publisher }
  }

  it('is rolled back once when the handler nacks without throwing', async () => {
    const { log, input, publisher } = await retried({}, (message) => message.nack(broken).then(() => [placed()]))
    expect(log).toEqual(['rollback'])
    expect(verdicts(input)).toEqual(['nack'])
    expect(publisher.calls).toEqual([])
  })

  it('drops the ack of a failed attempt, and keeps that of the next', async () => {
    let attempts = 0
    const { log, input } = await retried({ ackStrategy: 'manual' }, async (message) => {
      await message.ack()
      attempts += 1
      if (attempts === 1) throw broken
    })
    expect(log).toEqual(['rollback', 'commit'])
    expect(verdicts(input)).toEqual(['ack'])
  })
})

describe('forward', () => {
  async function forwarded(produce: (message: Message) => readonly Message[], input = tracked('m1')) {
    const { router, logger } = openWorld({ ackStrategy: 'forward' })
    router.handle(handling(produce))
    const outputs = await collect(router.pipe(sourceOf(input)))
    return { input, outputs, logger, router }
  }

  it('acks the input when every output is, later and in any order', async () => {
    const { input, outputs } = await forwarded(() => [placed('a'), placed('b'), placed('c')])
    expect(verdicts(input)).toEqual([])
    expect(await outputs[2]?.ack()).toBe(true)
    expect(await outputs[0]?.ack()).toBe(true)
    expect(verdicts(input)).toEqual([])
    expect(await outputs[1]?.ack()).toBe(true)
    expect(verdicts(input)).toEqual(['ack'])
    expect(await outputs[0]?.settled).toMatchObject({ verdict: 'acked' })
  })

  it('counts an output once, however often it is acked', async () => {
    const { input, outputs } = await forwarded(() => [placed('a'), placed('b')])
    await outputs[0]?.ack()
    await outputs[0]?.ack()
    await outputs[0]?.copy('x').ack()
    expect(verdicts(input)).toEqual([])
    await outputs[1]?.ack()
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('nacks the input with the first output that is nacked, and then no ack counts', async () => {
    const { input, outputs } = await forwarded(() => [placed('a'), placed('b')])
    expect(await outputs[0]?.nack(broken, { retryAfter: 30 })).toBe(true)
    expect(input.calls).toEqual([{ verdict: 'nack', error: broken, options: { retryAfter: 30 } }])
    expect(await outputs[1]?.ack()).toBe(false)
    expect(outputs[1]?.error).toBe(broken)
    expect(verdicts(input)).toEqual(['nack'])
  })

  it('rejects the input with the first output that is rejected', async () => {
    const { input, outputs } = await forwarded(() => [placed('a'), placed('b')])
    await outputs[0]?.ack()
    await outputs[1]?.reject(broken)
    expect(input.calls).toMatchObject([{ verdict: 'reject', error: broken }])
  })

  it('acks an input without outputs immediately', async () => {
    const { input, outputs } = await forwarded(() => [])
    expect(outputs).toEqual([])
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('lets the input itself be an output', async () => {
    const { input, outputs } = await forwarded((message) => [message])
    expect(verdicts(input)).toEqual([])
    await outputs[0]?.ack()
    expect(verdicts(input)).toEqual(['ack'])
    expect(input.message.state).toBe('acked')
  })

  it('lets the input be an output beside others', async () => {
    const { input, outputs } = await forwarded((message) => [message, placed('b')])
    await outputs[0]?.ack()
    expect(verdicts(input)).toEqual([])
    await outputs[1]?.ack()
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('lets copies of the input be outputs, each settled on its own', async () => {
    const { input, outputs } = await forwarded((message) => [
      message.copy('a').withAttributes({ id: 'a' }),
      message.copy('b').withAttributes({ id: 'b' }),
    ])
    await outputs[0]?.ack()
    expect(verdicts(input)).toEqual([])
    await outputs[1]?.nack(broken)
    expect(verdicts(input)).toEqual(['nack'])
  })

  it('lets forks of the input be outputs', async () => {
    const { input, outputs } = await forwarded((message) => message.fork(2).map((fork, index) => fork.withAttributes({ id: `f${index}` })))
    await outputs[0]?.ack()
    expect(verdicts(input)).toEqual([])
    await outputs[1]?.ack()
    await settlePromises()
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('treats the same output twice as two, unless it has an id', async () => {
    const twice = placed('a')
    const { input, outputs } = await forwarded(() => [twice, twice])
    expect(new Set(outputs.map(({ id }) => id)).size).toBe(2)
    await outputs[0]?.ack()
    expect(verdicts(input)).toEqual([])
    await outputs[1]?.ack()
    expect(verdicts(input)).toEqual(['ack'])

    const same = placed('a', { id: 'one' })
    const refused = await forwarded(() => [same, same])
    expect(refused.outputs).toEqual([])
    expect(refused.input.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_DUPLICATE_ID' } }])
  })

  it('chains the acking that an output has of its own', async () => {
    const own = trackedMessage('a', { type: 'order.placed' })
    const { input, outputs } = await forwarded(() => [own.message, placed('b')])
    await outputs[1]?.ack()
    expect(await outputs[0]?.ack()).toBe(true)
    expect(verdicts(own)).toEqual(['ack'])
    expect(verdicts(input)).toEqual(['ack'])
  })

  it.each(['nack', 'reject'] as const)('applies the %s of such an output to both', async (verdict) => {
    const own = trackedMessage('a', { type: 'order.placed' })
    const { input, outputs } = await forwarded(() => [own.message])
    await outputs[0]?.[verdict](broken)
    expect(verdicts(own)).toEqual([verdict])
    expect(verdicts(input)).toEqual([verdict])
  })

  it("nacks the input when the output's own broker does not accept the ack", async () => {
    const own = trackedMessage('a', { type: 'order.placed' }, { answer: () => Promise.reject(broken) })
    const { input, outputs } = await forwarded(() => [own.message])
    await expect(outputs[0]?.ack()).rejects.toBe(broken)
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: broken }])
  })

  it('passes outputs of an input without acking on unchanged', async () => {
    const { router } = openWorld({ ackStrategy: 'forward' })
    const own = trackedMessage('a', { type: 'order.placed' })
    router.handle(handling(() => [placed('plain'), own.message]))
    async function* messages() {
      yield new Message('in', { type: 'order.place' })
    }
    const outputs = await collect(router.pipe(messages()))
    expect(await outputs[0]?.ack()).toBe(false)
    expect(await outputs[1]?.ack()).toBe(true)
    expect(verdicts(own)).toEqual(['ack'])
  })

  it("copies the input's values to outputs that have none, and does not change those that have", async () => {
    const key = contextKey<string>('tenant')
    const other = contextKey<string>('other')
    const input = tracked('m1')
    input.message.withValue(key, 'blue')
    const { outputs } = await forwarded(() => [placed('a'), placed('b').withValue(other, 'own')], input)
    expect(outputs.map((output) => output.value(key))).toEqual(['blue', undefined])
    expect(outputs.map((output) => output.value(other))).toEqual([undefined, 'own'])
  })

  it('copies nothing of the context to outputs, such as a transaction', async () => {
    const { router } = openWorld({ ackStrategy: 'forward' })
    const transaction = contextKey<string>('transaction', { callScoped: true })
    const tenant = contextKey<string>('tenant')
    router.use((next) => (message, context) => next(message, context.with(transaction, 'open').with(tenant, 'blue')))
    router.handle(handling((_message, context) => [placed(context.get(transaction))]))
    const [output] = await collect(router.pipe(sourceOf(tracked('m1'))))
    expect(output?.data).toBe('open')
    expect(output?.value(transaction)).toBeUndefined()
    expect(output?.value(tenant)).toBeUndefined()
    expect(() => output?.withValue(transaction, 'leaked')).toThrow('belongs to one call')
  })

  it('acks the input when a run has published all outputs', async () => {
    const { router } = openWorld({ ackStrategy: 'forward' })
    router.handle(handling(() => [placed('a'), placed('b')]))
    const publisher = recordingPublisher()
    const input = tracked('m1')
    await router.run(sourceOf(input), { publisher, destination: 'orders' })
    expect(publisher.calls).toMatchObject([{ messages: [{}, {}] }])
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('treats a failed publish as any failure: with the delay, the limit of deliveries and the decision of onError', async () => {
    const publisher = recordingPublisher(async ({ messages }) => messages.map(() => ({ ok: false, error: broken })))
    const delayed = tracked('m1', { deliveryCount: 2 })
    const last = tracked('m2', { deliveryCount: 3 })
    const decided = tracked('m3', { deliveryCount: 1 })
    const { router } = openWorld({
      ackStrategy: 'forward',
      maxDeliveries: 3,
      redeliveryDelay: (attempt) => attempt * 100,
      onError: (_error, { id }) => (id === 'm3' ? 'reject' : undefined),
    })
    router.handle(handling(() => [placed('a'), placed('b')]))
    await router.run(sourceOf(delayed, last, decided), { publisher, destination: 'orders' })
    expect(delayed.calls).toMatchObject([{ verdict: 'nack', options: { retryAfter: 200 } }])
    expect(last.calls).toMatchObject([{ verdict: 'reject', error: { code: 'ACKORD_MAX_DELIVERIES' } }])
    expect(decided.calls).toMatchObject([
      { verdict: 'reject', error: { code: 'ACKORD_PUBLISH_FAILED', cause: { errors: [broken, broken] } } },
    ])
  })

  it('settles the own acking of an output whose publish failed', async () => {
    const own = trackedMessage('a', { type: 'order.placed' })
    const { router } = openWorld({ ackStrategy: 'forward' })
    router.handle(handling(() => [own.message, placed('b')]))
    const publisher = recordingPublisher(async () => [{ ok: false, error: broken }, { ok: true }])
    const input = tracked('m1')
    await router.run(sourceOf(input), { publisher, destination: 'orders' })
    expect(verdicts(own)).toEqual(['nack'])
    expect(verdicts(input)).toEqual(['nack'])
  })

  it('reports that the broker did not accept the ack of an input, also to the reader of the pipe that acked its outputs', async () => {
    const { router, logger } = openWorld({ ackStrategy: 'forward' })
    router.handle(handling(() => [placed('a')]))
    const source = new FedSource([tracked('m1', { answer: () => Promise.reject(broken) })])
    const outputs = router.pipe(source)
    const { value } = await outputs.next()
    await expect(value?.ack()).rejects.toBe(broken)
    await settlePromises()
    expect(router.health()).toMatchObject({ handled: 1, failed: 0, lastError: broken })
    expect(logger.at('error')).toMatchObject([{ fields: { err: broken, id: 'm1' } }])
    await outputs.return?.()
  })

  it('counts a message as handled when only the ack of its input fails', async () => {
    const { router } = openWorld({ ackStrategy: 'forward' })
    router.handle(handling(() => [placed('a')]))
    const input = tracked('m1', { answer: () => Promise.reject(broken) })
    await router.run(sourceOf(input), { publisher: recordingPublisher(), destination: 'orders' })
    expect(verdicts(input)).toEqual(['ack'])
    expect(router.health()).toMatchObject({ handled: 1, failed: 0, lastError: broken })
  })

  it('waits at the end of a pipe for acks in flight', async () => {
    const answer = deferred()
    const { router } = openWorld({ ackStrategy: 'forward' })
    router.handle(handling(() => [placed('a')]))
    const outputs = router.pipe(sourceOf(tracked('m1', { answer: () => answer.promise })))
    const { value } = await outputs.next()
    void value?.ack()
    let ended = false
    const end = outputs.next().then(() => {
      ended = true
    })
    await settlePromises()
    expect(ended).toBe(false)
    answer.resolve()
    await end
    expect(ended).toBe(true)
  })

  it('does not wait at the end of a pipe for unsettled outputs', async () => {
    const { router } = openWorld({ ackStrategy: 'forward' })
    router.handle(handling(() => [placed('a')]))
    const input = tracked('m1')
    const outputs = await collect(router.pipe(sourceOf(input)))
    expect(verdicts(input)).toEqual([])
    await outputs[0]?.ack()
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('handles forks of one message with one ordering key in order, without waiting for each other', async () => {
    const { router } = openWorld({ ackStrategy: 'forward', orderingKey: 'partitionkey', concurrency: 2 })
    router.handle(handling(() => [placed()]))
    const input = tracked('m1', { attributes: { partitionkey: 'key' } })
    let seen = 0
    for await (const output of router.pipe(sourceOf(...input.message.fork(2).map((message) => ({ message }))))) {
      seen += 1
      await output.ack()
    }
    expect(seen).toBe(2)
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('does not wait for a fork whose original was nacked through a sibling', async () => {
    const { router } = openWorld({ ackStrategy: 'forward', orderingKey: 'partitionkey', concurrency: 2 })
    router.handle(handling(() => [placed()]))
    const input = tracked('m1')
    const outputs = router.pipe(sourceOf(...input.message.fork(2).map((message) => ({ message }))))
    await outputs.next()
    const { value: second } = await outputs.next()
    await second.nack(broken)
    expect(await outputs.next()).toMatchObject({ done: true })
    expect(input.calls).toMatchObject([{ verdict: 'nack', error: broken }])
  })

  it('works through a chain of routers of which the second keeps an order', async () => {
    const first = openWorld({ ackStrategy: 'forward' }).router
    const second = openWorld({ ackStrategy: 'forward', orderingKey: 'partitionkey', concurrency: 4 }).router
    first.handle(handling(() => [1, 2].map((data) => placed(data, { partitionkey: 'key' }))))
    second.handle(handling(() => [placed()], 'order.placed'))
    const input = tracked('m1')
    let seen = 0
    for await (const output of second.pipe(first.pipe(sourceOf(input)))) {
      seen += 1
      await output.ack()
    }
    expect(seen).toBe(2)
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('waits at a forced stop for the answer to an ack, where an order is kept', async () => {
    const { router, runtime } = openWorld({ ackStrategy: 'forward', orderingKey: 'partitionkey', shutdownTimeout: 10 })
    router.handle(handling(() => [placed()]))
    const answer = deferred()
    const input = tracked('m1', { attributes: { partitionkey: 'key' }, answer: () => answer.promise })
    const { value: output } = await router.pipe(new FedSource([input])).next()
    void output.ack()
    await settlePromises()
    expect(verdicts(input)).toEqual(['ack'])
    let stopped = false
    const stop = router.stop().then(() => {
      stopped = true
    })
    await runtime.advance(20)
    expect(stopped).toBe(false)
    answer.resolve()
    await stop
    expect(verdicts(input)).toEqual(['ack'])
  })

  it("leaves no listener on the handlers' signal once an output is settled", async () => {
    const { router } = openWorld({ ackStrategy: 'forward', orderingKey: 'partitionkey' })
    let signal = new AbortController().signal
    router.handle(
      handling((_message, context) => {
        signal = context.signal
        return [placed()]
      }),
    )
    const outputs = router.pipe(new FedSource([tracked('m1', { attributes: { partitionkey: 'key' } })]))
    const { value: output } = await outputs.next()
    await settlePromises()
    const before = getEventListeners(signal, 'abort').length
    await output.ack()
    await settlePromises()
    expect([before, getEventListeners(signal, 'abort').length]).toEqual([1, 0])
    await outputs.return?.()
  })

  it('copies the values of each input to an output that is the same object every time', async () => {
    const { router } = openWorld({ ackStrategy: 'forward' })
    const tenant = contextKey<string>('tenant')
    const attributes = { type: 'order.placed', id: 'constant', source: '/s', specversion: '1.0', time: '2026-01-01T00:00:00Z' }
    const constant = new Message('constant', attributes)
    router.handle(handling(() => [constant]))
    async function* inputs() {
      for (const value of ['a', 'b']) yield new Message(value, { type: 'order.place' }).withValue(tenant, value)
    }
    const outputs = await collect(router.pipe(inputs()))
    expect(outputs.map((output) => output.value(tenant))).toEqual(['a', 'b'])
    expect(constant.value(tenant)).toBeUndefined()
  })

  it('works through a chain of routers', async () => {
    const first = openWorld({ ackStrategy: 'forward' }).router.handle(handling(({ id }) => [placed(id), placed(id)]))
    const second = openWorld({ ackStrategy: 'forward' }).router.handle(handling((message) => [message], 'order.placed'))
    const inputs = trackedSome(3)
    const outputs = await collect(second.pipe(first.pipe(sourceOf(...inputs))))
    expect(outputs).toHaveLength(6)
    await outputs[0]?.ack()
    expect(inputs.map(verdicts)).toEqual([[], [], []])
    await outputs[3]?.nack(broken)
    for (const output of outputs) await output.ack()
    expect(inputs.map(verdicts)).toEqual([['ack'], ['nack'], ['ack']])
  })
})
