import { describe, expect, it } from 'vitest'
import { MemoryBroker } from '../../src/broker/memory/memory-broker.ts'
import { Message } from '../../src/message/message.ts'
import { silentLogger } from '../../src/ports/observability.ts'
import { Router } from '../../src/router/router.ts'
import {
  collect,
  deferred,
  FedSource,
  failureOf,
  handling,
  openWorld,
  placed,
  sourceOf,
  tracked,
  trackedSome,
  verdicts,
} from '../support/router-world.ts'
import { settlePromises } from '../support/virtual-runtime.ts'

const lost = new Error('connection lost')

describe('a source that fails', () => {
  it.each([1, 3])('lets messages in flight be finished and settled, then fails the run (concurrency %i)', async (concurrency) => {
    const { router } = openWorld({ concurrency, orderingKey: 'partitionkey' })
    const gate = deferred()
    router.handle(handling(() => gate.promise))
    const inputs = trackedSome(3, { attributes: { partitionkey: 'k' } })
    const source = new FedSource(inputs)
    source.fail(lost)
    let ended = false
    const run = router.run(source).finally(() => {
      ended = true
    })
    const failed = expect(run).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', cause: lost })
    await settlePromises()
    expect(ended).toBe(false)
    gate.resolve()
    await failed
    expect(inputs.map(verdicts)).toEqual([['ack'], ['ack'], ['ack']])
    expect(source.returned).toBe(0)
    expect(router.health().state).toBe('idle')
  })

  it("waits for the broker's answers before the run fails", async () => {
    const { router } = openWorld({ concurrency: 2 })
    const answer = deferred()
    router.handle(handling(() => []))
    const source = new FedSource([tracked('m1', { answer: () => answer.promise })])
    source.fail(lost)
    let ended = false
    const run = router.run(source).catch(() => {
      ended = true
    })
    await settlePromises()
    expect(ended).toBe(false)
    answer.resolve()
    await run
    expect(ended).toBe(true)
  })

  it('fails the reader of a pipe after the outputs that were produced', async () => {
    const { router } = openWorld()
    router.handle(handling(({ id }) => [placed(id)]))
    const source = new FedSource(trackedSome(2))
    source.fail(lost)
    const seen: unknown[] = []
    const read = (async () => {
      for await (const { data } of router.pipe(source)) seen.push(data)
    })()
    await expect(read).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', cause: lost })
    expect(seen).toEqual(['m1', 'm2'])
  })

  it('fails the first of several waiting readers, and ends the others', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const source = new FedSource()
    const outputs = router.pipe(source)
    const reads = [outputs.next(), outputs.next()]
    source.fail(lost)
    const results = await Promise.allSettled(reads)
    expect(results).toMatchObject([
      { status: 'rejected', reason: { code: 'ACKORD_SOURCE_FAILED' } },
      { status: 'fulfilled', value: { done: true } },
    ])
    expect(await outputs.next()).toEqual({ done: true, value: undefined })
  })

  it('may fail immediately, in messages() or when iterated', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const throwing = {
      messages(): never {
        throw lost
      },
    }
    await expect(router.run(throwing)).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', cause: lost })
    expect(router.health().state).toBe('idle')
    const iterated = {
      [Symbol.asyncIterator](): never {
        throw lost
      },
    }
    await expect(collect(router.pipe(iterated))).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', cause: lost })
    await router.run(sourceOf(tracked('m1')))
    expect(router.health()).toMatchObject({ state: 'idle', handled: 1 })
  })

  it.each([
    ['nothing', undefined],
    ['a list', [new Message('a')]],
    ['a promise', Promise.resolve([])],
  ])('fails the run when messages() returns %s', async (_what, value) => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    await expect(router.run({ messages: () => value as never })).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED' })
    expect(router.health().state).toBe('idle')
  })

  it('removes its listener from the signal of the run', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    const { signal } = new AbortController()
    let listeners = 0
    const add = signal.addEventListener.bind(signal)
    const remove = signal.removeEventListener.bind(signal)
    signal.addEventListener = ((...parameters: Parameters<typeof add>) => {
      listeners += 1
      add(...parameters)
    }) as typeof add
    signal.removeEventListener = ((...parameters: Parameters<typeof remove>) => {
      listeners -= 1
      remove(...parameters)
    }) as typeof remove
    await router
      .run(
        {
          messages() {
            throw lost
          },
        },
        { signal },
      )
      .catch(() => {})
    expect(listeners).toBe(0)
  })
})

describe('a source that yields something else', () => {
  it.each([
    ['undefined', undefined],
    ['null', null],
    ['a text', 'message'],
    ['something of the same shape', { data: 1, attributes: { type: 'order.place' } }],
  ])('fails and is ended: %s', async (_what, value) => {
    const { router } = openWorld({ concurrency: 2 })
    router.handle(handling(() => []))
    const input = tracked('m1')
    let released = false
    async function* messages() {
      try {
        yield input.message
        yield value as never
        yield tracked('never').message
      } finally {
        released = true
      }
    }
    await expect(router.run({ messages })).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', cause: expect.any(TypeError) })
    expect(verdicts(input)).toEqual(['ack'])
    expect(released).toBe(true)
  })

  it('fails when the source cannot be ended', async () => {
    const { router } = openWorld()
    const source = new FedSource([tracked('m1')], { heedsSignal: false })
    source.return = () => Promise.reject(lost)
    router.handle(handling(() => void router.stop()))
    await expect(router.run(source)).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', cause: lost })
    expect(router.health()).toMatchObject({ state: 'idle', handled: 1 })
  })
})

describe('a source that never waits for I/O', () => {
  // More messages than are read before the event loop turns, but few enough that the test ends even if it never turns.
  const most = 5000

  it.each([1, 4])('does not starve timers and signals (concurrency %i)', async (concurrency) => {
    const router = new Router({ logger: silentLogger, concurrency }).handle(handling(() => []))
    const controller = new AbortController()
    let read = 0
    async function* messages() {
      while (read < most) {
        read += 1
        yield tracked(`m${read}`).message
      }
    }
    setImmediate(() => controller.abort())
    await router.run({ messages }, { signal: controller.signal })
    expect(read).toBeGreaterThan(0)
    expect(read).toBeLessThan(most)
  })

  it('may be a topic that the handlers publish to', async () => {
    const broker = new MemoryBroker({ logger: silentLogger })
    const router = new Router({ logger: silentLogger, source: '/orders' })
    const controller = new AbortController()
    let handled = 0
    router.handle(
      handling(() => {
        handled += 1
        if (handled === most) controller.abort()
        return [placed({}, { type: 'order.place' })]
      }),
    )
    await broker.publish('orders', [tracked('m1').message])
    setImmediate(() => controller.abort())
    await router.run(broker.source('orders'), { publisher: broker, destination: 'orders', signal: controller.signal })
    await broker.close()
    expect(handled).toBeGreaterThan(0)
    expect(handled).toBeLessThan(most)
  })
})

describe('a pipe of nothing', () => {
  it('is rejected when it is created', async () => {
    const { router } = openWorld()
    router.handle(handling(() => []))
    await failureOf(() => router.pipe(undefined as never), 'ACKORD_INVALID_OPTION')
    expect(router.health().state).toBe('idle')
  })
})
