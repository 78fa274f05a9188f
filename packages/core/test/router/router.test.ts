import { describe, expect, it } from 'vitest'
import { type ContextKey, contextKey } from '../../src/message/context.ts'
import { bytesMarshaler } from '../../src/message/marshaler.ts'
import { Message } from '../../src/message/message.ts'
import { Router } from '../../src/router/router.ts'
import type { RouterOptions } from '../../src/router/router-options.ts'
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

describe('routing', () => {
  it('passes each message to the handler of its type and acks it', async () => {
    const { router } = openWorld()
    const seen: string[] = []
    router.handle(handling(({ id }) => void seen.push(`place ${id}`), 'order.place'))
    router.handle(handling(({ id }) => void seen.push(`cancel ${id}`), 'order.cancel'))
    const inputs = [tracked('m1'), tracked('m2', { type: 'order.cancel' }), tracked('m3')]
    await router.run(sourceOf(...inputs))
    expect(seen).toEqual(['place m1', 'cancel m2', 'place m3'])
    expect(inputs.map(verdicts)).toEqual([['ack'], ['ack'], ['ack']])
  })

  it('adds several handlers at once by handleAll()', async () => {
    const { router } = openWorld()
    const seen: string[] = []
    router.handleAll(
      handling(({ id }) => void seen.push(`place ${id}`), 'order.place'),
      handling(({ id }) => void seen.push(`cancel ${id}`), 'order.cancel'),
    )
    await router.run(sourceOf(tracked('m1'), tracked('m2', { type: 'order.cancel' })))
    expect(seen).toEqual(['place m1', 'cancel m2'])
  })

  it('calls the handler as a method, so that classes work', async () => {
    class Orders {
      readonly type = 'order.place'
      readonly seen: unknown[] = []
      async handle(message: Message) {
        this.seen.push(message.data)
        return []
      }
    }
    const { router } = openWorld()
    const orders = new Orders()
    await router.handle(orders).run(sourceOf(tracked('m1', { data: { total: 3 } })))
    expect(orders.seen).toEqual([{ total: 3 }])
  })

  it('matches types by their whole name, also those that are names of object members', async () => {
    const { router } = openWorld()
    router.handle(handling(() => [], 'order.place'))
    const input = tracked('m1', { type: 'constructor' })
    await router.run(sourceOf(input))
    expect(verdicts(input)).toEqual(['reject'])
  })

  it('passes on what the matcher matches, and only that', async () => {
    const { router } = openWorld()
    const seen: unknown[] = []
    router.handle(
      handling(({ id }) => void seen.push(id)),
      { match: (attributes) => attributes.subject === 'vip' },
    )
    const inputs = [tracked('m1', { attributes: { subject: 'vip' } }), tracked('m2', { attributes: { subject: 'guest' } })]
    await router.run(sourceOf(...inputs))
    expect(seen).toEqual(['m1'])
    expect(inputs.map(verdicts)).toEqual([['ack'], ['reject']])
  })

  it('nacks a message whose matcher throws, and continues', async () => {
    const { router } = openWorld()
    const inputs = trackedSome(2)
    let calls = 0
    router.handle(
      handling(() => []),
      {
        match() {
          calls += 1
          if (calls === 1) throw new Error('broken matcher')
          return true
        },
      },
    )
    await router.run(sourceOf(...inputs))
    expect(inputs.map(verdicts)).toEqual([['nack'], ['ack']])
  })

  it('works for messages without acking', async () => {
    const { router } = openWorld()
    router.handle(handling(() => [placed()]))
    async function* messages() {
      yield new Message('a', { type: 'order.place' })
      yield new Message('b', { type: 'unknown' })
      yield new Message('c', { type: 'order.place' })
    }
    expect(await collect(router.pipe(messages()))).toHaveLength(2)
    expect(router.health()).toMatchObject({ handled: 2, failed: 1 })
  })
})

describe('reading', () => {
  it('reads the data with the JSON marshaler by default', async () => {
    const { router } = openWorld()
    const seen: unknown[] = []
    await router.handle(handling(({ data }) => void seen.push(data))).run(sourceOf(tracked('m1', { data: [1, 'a'] })))
    expect(seen).toEqual([[1, 'a']])
  })

  it('reads the data with the configured marshaler', async () => {
    const { router } = openWorld()
    const seen: unknown[] = []
    router.handle(handling(({ data }) => void seen.push(data)))
    await router.run(sourceOf(tracked('m1')), { marshaler: bytesMarshaler })
    expect(seen[0]).toBeInstanceOf(Uint8Array)
  })

  it('rejects unreadable messages and continues with the others', async () => {
    const { router, logger } = openWorld()
    router.handle(handling(() => []))
    const broken = tracked('m1')
    broken.message.data.fill(0)
    const foreign = tracked('m2', { attributes: { datacontenttype: 'image/png' } })
    const good = tracked('m3')
    await router.run(sourceOf(broken, foreign, good))
    expect([broken, foreign, good].map(verdicts)).toEqual([['reject'], ['reject'], ['ack']])
    expect(broken.calls[0]?.error).toMatchObject({ code: 'ACKORD_UNMARSHAL_FAILED', cause: expect.any(SyntaxError) })
    expect(foreign.calls[0]?.error).toMatchObject({ code: 'ACKORD_UNMARSHAL_FAILED' })
    expect(logger.at('error')).toHaveLength(2)
    expect(JSON.stringify(logger.lines)).not.toContain('\\u0000')
  })

  it('keeps acking, delivery count and values of the messages that it reads', async () => {
    const { router } = openWorld({ ackStrategy: 'manual' })
    const key: ContextKey<string> = contextKey('trace')
    const input = tracked('m1', { deliveryCount: 3 })
    input.message.withValue(key, 'v')
    const seen: unknown[] = []
    router.handle(
      handling(async (message, context) => {
        seen.push(message.deliveryCount, context.get(key))
        await message.ack()
      }),
    )
    await router.run(sourceOf(input))
    expect(seen).toEqual([3, 'v'])
    expect(verdicts(input)).toEqual(['ack'])
  })
})

describe('configuration', () => {
  it.each<[string, RouterOptions]>([
    ['ackStrategy', { ackStrategy: 'never' as 'manual' }],
    ['concurrency', { concurrency: 0 }],
    ['concurrency', { concurrency: 1.5 }],
    ['concurrency', { concurrency: Number.NaN }],
    ['orderingKey', { orderingKey: 'subject' as 'partitionkey' }],
    ['buffer', { buffer: -1 }],
    ['maxDeliveries', { maxDeliveries: 0 }],
    ['redeliveryDelay', { redeliveryDelay: 5 as never }],
    ['processTimeout', { processTimeout: 0 }],
    ['shutdownTimeout', { shutdownTimeout: -1 }],
    ['onUnknownType', { onUnknownType: 'drop' as 'nack' }],
    ['onError', { onError: 'nack' as never }],
    ['source', { source: '' }],
  ])('rejects an invalid %s when the router is created', async (option, options) => {
    const error = await failureOf(() => new Router(options), 'ACKORD_INVALID_OPTION')
    expect(error.message).toContain(option)
  })

  it('rejects a second handler of a type and names both', async () => {
    const { router } = openWorld()
    router.handle(
      handling(() => []),
      { name: 'first' },
    )
    const error = await failureOf(
      () =>
        router.handle(
          handling(() => []),
          { name: 'second' },
        ),
      'ACKORD_HANDLER_EXISTS',
    )
    expect(error.message).toContain("'first'")
    expect(error.message).toContain("'second'")
  })

  it.each<[string, () => unknown]>([
    ['a handler without handle', () => openWorld().router.handle({ type: 'a' } as never)],
    ['no handler at all', () => openWorld().router.handle(undefined as never)],
    ['an empty type', () => openWorld().router.handle(handling(() => [], ''))],
    [
      'an empty name',
      () =>
        openWorld().router.handle(
          handling(() => []),
          { name: '' },
        ),
    ],
    [
      'a concurrency of 0',
      () =>
        openWorld().router.handle(
          handling(() => []),
          { concurrency: 0 },
        ),
    ],
    [
      'a matcher that is not a function',
      () =>
        openWorld().router.handle(
          handling(() => []),
          { match: 'x' as never },
        ),
    ],
    ['middleware that is not a function', () => openWorld().router.use({} as never)],
    [
      'handler middleware that is not a function',
      () =>
        openWorld().router.handle(
          handling(() => []),
          { use: [1 as never] },
        ),
    ],
  ])('rejects %s', async (_what, configure) => {
    expect((await failureOf(configure, 'ACKORD_INVALID_OPTION')).message).not.toBe('')
  })

  it('refuses to start without handlers', async () => {
    expect((await failureOf(openWorld().router.run(sourceOf()), 'ACKORD_INVALID_OPTION')).message).toContain('handlers')
    await failureOf(() => openWorld().router.pipe(sourceOf()), 'ACKORD_INVALID_OPTION')
  })

  it('rejects a run without a source', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    expect((await failureOf(router.run(undefined as never), 'ACKORD_INVALID_OPTION')).message).toContain('run(source) must be a source')
    expect(router.health().state).toBe('idle')
  })

  it.each([undefined, '', 5])('rejects a publisher with the destination %j', async (destination) => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const run = router.run(sourceOf(), { publisher: recordingPublisher(), destination: destination as string })
    expect((await failureOf(run, 'ACKORD_INVALID_OPTION')).message).toContain('destination')
  })

  it('rejects a publisher that cannot publish', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const run = router.run(sourceOf(), { publisher: {} as never, destination: 'orders' })
    expect((await failureOf(run, 'ACKORD_INVALID_OPTION')).message).toContain('publisher')
  })

  it('rejects use() and handle() once it was started, also after it has ended', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const source = new FedSource()
    const run = router.run(source)
    await failureOf(() => router.use((next) => next), 'ACKORD_ALREADY_STARTED')
    await failureOf(() => router.handle(handling(() => [], 'other')), 'ACKORD_ALREADY_STARTED')
    source.end()
    await run
    await failureOf(() => router.use((next) => next), 'ACKORD_ALREADY_STARTED')
    expect(router.health().state).toBe('idle')
  })
})

describe('runs', () => {
  it('rejects a second run at the same time, and the first continues', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const source = new FedSource()
    const run = router.run(source)
    await failureOf(router.run(sourceOf()), 'ACKORD_ALREADY_STARTED')
    await failureOf(() => router.pipe(sourceOf()), 'ACKORD_ALREADY_STARTED')
    const input = tracked('m1')
    source.push(input)
    source.end()
    await run
    expect(verdicts(input)).toEqual(['ack'])
  })

  it('rejects the second of two pipes that were created before one was read', async () => {
    const { router } = openWorld()
    router.handle(handling(() => [placed()]))
    const [first, second] = [router.pipe(sourceOf(tracked('m1'))), router.pipe(sourceOf(tracked('m2')))]
    const read = first.next()
    await failureOf(second.next(), 'ACKORD_ALREADY_STARTED')
    expect((await read).done).toBe(false)
    await first.return?.()
  })

  it('runs again after it has ended, and continues to count', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    await router.run(sourceOf(...trackedSome(2)))
    await router.run(sourceOf(...trackedSome(3)))
    expect(router.health()).toMatchObject({ state: 'idle', handled: 5 })
  })

  it('does not start a pipe before it is read', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const source = new FedSource()
    const outputs = router.pipe(source)
    await settlePromises()
    expect(source.pulls).toBe(0)
    expect(await outputs.return?.()).toEqual({ done: true, value: undefined })
    expect(await outputs.next()).toEqual({ done: true, value: undefined })
    expect(source.pulls).toBe(0)
    expect(router.health().state).toBe('idle')
  })

  it('yields the outputs of a pipe in the order of the inputs and ends with the source', async () => {
    const { router } = openWorld()
    router.handle(handling(({ id }) => [placed(`${id}-a`), placed(`${id}-b`)]))
    const outputs = await collect(router.pipe(sourceOf(...trackedSome(2))))
    expect(outputs.map(({ data }) => data)).toEqual(['m1-a', 'm1-b', 'm2-a', 'm2-b'])
  })

  it('reads no further ahead than it works', async () => {
    const { router } = openWorld()
    const gate = deferred()
    router.handle(handling(() => gate.promise))
    const source = new FedSource(trackedSome(3))
    const run = router.run(source)
    await settlePromises()
    expect(source.pulls).toBe(1)
    gate.resolve()
    source.end()
    await run
    expect(source.pulls).toBe(4)
  })
})

describe('health', () => {
  it('reports the state, messages in flight and failures', async () => {
    const { router } = openWorld({ concurrency: 2, orderingKey: 'partitionkey' })
    const gates = new Map(['m1', 'm2', 'm3', 'm4'].map((id) => [id, deferred()]))
    router.handle(handling(({ id }) => gates.get(id ?? '')?.promise))
    expect(router.health()).toEqual({
      state: 'idle',
      inFlight: 0,
      queued: 0,
      waitingTenants: 0,
      paused: false,
      handled: 0,
      failed: 0,
      lastError: undefined,
    })

    const source = new FedSource()
    const run = router.run(source)
    expect(router.health()).toMatchObject({ state: 'running', inFlight: 0, queued: 0 })

    const inputs = ['a', 'a', 'b', 'b'].map((partitionkey, index) => tracked(`m${index + 1}`, { attributes: { partitionkey } }))
    source.push(...inputs)
    await settlePromises()
    expect(router.health()).toMatchObject({ state: 'running', inFlight: 2, queued: 2, handled: 0 })

    const broken = new Error('broken')
    gates.get('m1')?.resolve()
    gates.get('m3')?.reject(broken)
    await settlePromises()
    expect(router.health()).toMatchObject({ state: 'running', inFlight: 1, queued: 0, handled: 1, failed: 1, lastError: broken })

    const stopped = router.stop()
    expect(router.health()).toMatchObject({ state: 'stopping', inFlight: 1 })
    gates.get('m2')?.resolve()
    await stopped
    await run
    expect(router.health()).toEqual({
      state: 'idle',
      inFlight: 0,
      queued: 0,
      waitingTenants: 0,
      paused: false,
      handled: 2,
      failed: 1,
      lastError: broken,
    })
    expect(inputs.map(verdicts)).toEqual([['ack'], ['ack'], ['nack'], ['nack']])
  })

  it('counts the message in flight of one-by-one handling', async () => {
    const { router } = openWorld()
    const gate = deferred()
    router.handle(handling(() => gate.promise))
    const run = router.run(sourceOf(tracked('m1')))
    await settlePromises()
    expect(router.health()).toMatchObject({ inFlight: 1, queued: 0, handled: 0 })
    gate.resolve()
    await run
    expect(router.health()).toMatchObject({ state: 'idle', inFlight: 0, handled: 1 })
  })
})
