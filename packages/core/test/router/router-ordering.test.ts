import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Message } from '../../src/message/message.ts'
import { sleep } from '../../src/ports/runtime.ts'
import { MemoryWorld } from '../broker/memory/memory-world.ts'
import {
  type Deferred,
  deferred,
  FedSource,
  handling,
  openWorld,
  placed,
  sourceOf,
  type Tracked,
  tracked,
  trackedSome,
  verdicts,
} from '../support/router-world.ts'
import { settlePromises } from '../support/virtual-runtime.ts'

const broken = new Error('broken')

/** Handlers that a test releases one by one. */
function gated() {
  const gates = new Map<string, Deferred<void>>()
  const started: string[] = []
  const ended: string[] = []
  let most = 0
  const handle = async ({ id = '' }: Message) => {
    const gate = deferred()
    gates.set(id, gate)
    started.push(id)
    most = Math.max(most, started.length - ended.length)
    try {
      await gate.promise
    } finally {
      ended.push(id)
    }
  }
  return {
    handle,
    started,
    most: () => most,
    async release(id: string, error?: unknown) {
      const gate = gates.get(id)
      if (gate === undefined) throw new Error(`${id} is not being handled`)
      if (error === undefined) gate.resolve()
      else gate.reject(error)
      await settlePromises()
    },
  }
}

function keyed(keys: string): Tracked[] {
  return [...keys].map((partitionkey, index) => tracked(`${partitionkey}${index + 1}`, { attributes: { partitionkey } }))
}

describe('concurrency', () => {
  it('handles one at a time by default', async () => {
    const { router } = openWorld()
    const work = gated()
    const run = router.handle(handling(work.handle)).run(sourceOf(...trackedSome(3)))
    await settlePromises()
    expect(work.started).toEqual(['m1'])
    for (const id of ['m1', 'm2', 'm3']) await work.release(id)
    await run
    expect(work.most()).toBe(1)
  })

  it('handles as many concurrently as allowed, never more, and reads no further', async () => {
    const { router } = openWorld({ concurrency: 3 })
    const work = gated()
    const source = new FedSource(trackedSome(5))
    const run = router.handle(handling(work.handle)).run(source)
    await settlePromises()
    expect(work.started).toEqual(['m1', 'm2', 'm3'])
    expect(source.pulls).toBe(3)
    await work.release('m2')
    expect(work.started).toEqual(['m1', 'm2', 'm3', 'm4'])
    for (const id of ['m4', 'm5', 'm1', 'm3']) await work.release(id)
    source.end()
    await run
    expect(work.most()).toBe(3)
  })

  it('counts a message as in flight until its ack is answered', async () => {
    const { router } = openWorld({ concurrency: 2 })
    const answer = deferred()
    const seen: unknown[] = []
    router.handle(handling(({ id }) => void seen.push(id)))
    const run = router.run(sourceOf(...trackedSome(4, { answer: () => answer.promise })))
    await settlePromises()
    expect(seen).toEqual(['m1', 'm2'])
    answer.resolve()
    await run
    expect(seen).toHaveLength(4)
  })

  it('handles no more messages of a handler concurrently than that handler allows', async () => {
    const { router } = openWorld({ concurrency: 4 })
    const narrow = gated()
    const wide = gated()
    router.handle(handling(narrow.handle, 'narrow'), { concurrency: 2 }).handle(handling(wide.handle, 'wide'))
    const inputs = [...trackedSome(3, { type: 'narrow' }, 'n'), tracked('w1', { type: 'wide' })]
    const run = router.run(sourceOf(...inputs))
    await settlePromises()
    expect(narrow.started).toEqual(['n1', 'n2'])
    expect(wide.started).toEqual(['w1'])
    await narrow.release('n2')
    expect(narrow.started).toEqual(['n1', 'n2', 'n3'])
    for (const id of ['n1', 'n3']) await narrow.release(id)
    await wide.release('w1')
    await run
    expect(narrow.most()).toBe(2)
    expect(inputs.map(verdicts)).toEqual([['ack'], ['ack'], ['ack'], ['ack']])
  })
})

describe('orderingKey', () => {
  it('handles messages of a key in order and others in parallel', async () => {
    const { router } = openWorld({ concurrency: 3, orderingKey: 'partitionkey' })
    const work = gated()
    const run = router.handle(handling(work.handle)).run(sourceOf(...keyed('aabac')))
    await settlePromises()
    expect(work.started).toEqual(['a1', 'b3', 'c5'])
    await work.release('b3')
    expect(work.started).toEqual(['a1', 'b3', 'c5'])
    await work.release('a1')
    expect(work.started).toEqual(['a1', 'b3', 'c5', 'a2'])
    await work.release('a2')
    await work.release('a4')
    await work.release('c5')
    await run
  })

  it('does not start a message of a key before the previous one is settled at the broker', async () => {
    const { router } = openWorld({ concurrency: 2, orderingKey: 'partitionkey' })
    const answer = deferred()
    const seen: unknown[] = []
    router.handle(handling(({ id }) => void seen.push(id)))
    const first = tracked('m1', { attributes: { partitionkey: 'k' }, answer: () => answer.promise })
    const run = router.run(sourceOf(first, tracked('m2', { attributes: { partitionkey: 'k' } })))
    await settlePromises()
    expect(seen).toEqual(['m1'])
    answer.resolve()
    await run
    expect(seen).toEqual(['m1', 'm2'])
  })

  it('accepts a function, and messages without a key wait for no other', async () => {
    const { router } = openWorld({ concurrency: 3, orderingKey: ({ subject }) => subject })
    const work = gated()
    const inputs = [
      tracked('s1', { attributes: { subject: 's' } }),
      tracked('s2', { attributes: { subject: 's' } }),
      tracked('m3'),
      tracked('m4'),
    ]
    const run = router.handle(handling(work.handle)).run(sourceOf(...inputs))
    await settlePromises()
    expect(work.started).toEqual(['s1', 'm3', 'm4'])
    for (const id of ['m3', 'm4', 's1', 's2']) await work.release(id)
    await run
  })

  it('compares keys exactly, also those that are names of object members', async () => {
    const { router } = openWorld({ concurrency: 2, orderingKey: ({ subject }) => subject })
    const seen: unknown[] = []
    router.handle(handling(({ id }) => void seen.push(id)))
    const subjects = ['__proto__', 'constructor', '', '__proto__']
    await router.run(sourceOf(...subjects.map((subject, index) => tracked(`m${index + 1}`, { attributes: { subject } }))))
    expect(seen).toHaveLength(4)
  })

  it('nacks messages of a key that were read after a nacked one, with its delay', async () => {
    const { router } = openWorld({ concurrency: 2, orderingKey: 'partitionkey', redeliveryDelay: () => 700 })
    const work = gated()
    const inputs = keyed('aabaa')
    const source = new FedSource(inputs)
    const run = router.handle(handling(work.handle)).run(source)
    await settlePromises()
    await work.release('a1', broken)
    expect(inputs.map(verdicts)).toEqual([['nack'], ['nack'], [], ['nack'], ['nack']])
    for (const index of [0, 1, 3, 4]) expect(inputs[index]?.calls[0]?.options).toEqual({ retryAfter: 700 })
    expect(inputs[1]?.calls[0]?.error).toMatchObject({ code: 'ACKORD_KEY_NACKED' })
    expect(work.started).toEqual(['a1', 'b3'])

    const again = keyed('a')
    source.push(...again)
    await settlePromises()
    await work.release('a1')
    await work.release('b3')
    expect(again.map(verdicts)).toEqual([['ack']])
    source.end()
    await run
  })

  it('does the same when the handler itself nacks', async () => {
    const { router } = openWorld({ ackStrategy: 'manual', concurrency: 2, orderingKey: 'partitionkey' })
    const gate = deferred()
    router.handle(
      handling(async (message) => {
        await gate.promise
        await message.nack(broken, { retryAfter: 55 })
      }),
    )
    const inputs = keyed('aa')
    const run = router.run(sourceOf(...inputs))
    await settlePromises()
    gate.resolve()
    await run
    expect(inputs.map(({ calls }) => calls[0]?.options)).toEqual([{ retryAfter: 55 }, { retryAfter: 55 }])
  })

  it.each(['reject', 'ack'] as const)('continues with a key after %s', async (decision) => {
    const { router } = openWorld({ concurrency: 2, orderingKey: 'partitionkey', onError: () => decision })
    const inputs = keyed('aa')
    router.handle(
      handling(({ id }) => {
        if (id === 'a1') throw broken
      }),
    )
    await router.run(sourceOf(...inputs))
    expect(inputs.map(verdicts)).toEqual([[decision], ['ack']])
  })

  it('reads past a busy key until the buffer is full', async () => {
    const { router } = openWorld({ concurrency: 2, orderingKey: 'partitionkey', buffer: 2 })
    const work = gated()
    const source = new FedSource(keyed('aaaaab'))
    const run = router.handle(handling(work.handle)).run(source)
    await settlePromises()
    expect(source.pulls).toBe(4)
    expect(router.health()).toMatchObject({ inFlight: 1, queued: 3 })
    await work.release('a1')
    expect(source.pulls).toBe(5)
    await work.release('a2')
    expect(work.started).toEqual(['a1', 'a2', 'a3', 'b6'])
    source.end()
    for (const id of ['a3', 'a4', 'a5', 'b6']) await work.release(id)
    await run
  })

  it('works with a buffer of 0', async () => {
    const { router } = openWorld({ concurrency: 2, orderingKey: 'partitionkey', buffer: 0 })
    const inputs = keyed('aabbabab')
    const seen: unknown[] = []
    router.handle(handling(({ id }) => void seen.push(id)))
    await router.run(sourceOf(...inputs))
    expect(seen).toHaveLength(8)
  })

  it('handles one at a time with a concurrency of 1, in the order they were read', async () => {
    const { router } = openWorld({ concurrency: 1, orderingKey: 'partitionkey' })
    const work = gated()
    const run = router.handle(handling(work.handle)).run(sourceOf(...keyed('abc')))
    await settlePromises()
    for (const id of ['a1', 'b2', 'c3']) await work.release(id)
    await run
    expect(work.started).toEqual(['a1', 'b2', 'c3'])
    expect(work.most()).toBe(1)
  })

  it('nacks a message whose key cannot be determined, and continues', async () => {
    const { router, logger } = openWorld({
      concurrency: 2,
      orderingKey({ id }) {
        if (id === 'm1') throw broken
        return 'k'
      },
    })
    const told: unknown[] = []
    router.handle(handling(({ id }) => void told.push(id)))
    const inputs = trackedSome(3)
    await router.run(sourceOf(...inputs))
    expect(inputs.map(verdicts)).toEqual([['nack'], ['ack'], ['ack']])
    expect(inputs[0]?.calls[0]?.error).toBe(broken)
    expect(told).toEqual(['m2', 'm3'])
    expect(router.health()).toMatchObject({ failed: 1, handled: 2, lastError: broken })
    expect(logger.at('error')).toHaveLength(1)
  })

  it('reads no further than its buffer while messages without a known key are being nacked', async () => {
    const answer = deferred()
    const { router } = openWorld({
      concurrency: 1,
      buffer: 2,
      orderingKey() {
        throw broken
      },
    })
    router.handle(handling(() => []))
    const source = new FedSource(trackedSome(50, { answer: () => answer.promise }))
    const run = router.run(source)
    await settlePromises()
    expect(source.pulls).toBeLessThanOrEqual(4)
    answer.resolve()
    source.end()
    await run
    expect(router.health().failed).toBe(50)
  })

  it('waits under forward until the outputs of a message are settled', async () => {
    const { router } = openWorld({ ackStrategy: 'forward', concurrency: 2, orderingKey: 'partitionkey' })
    const seen: unknown[] = []
    router.handle(
      handling(({ id }) => {
        seen.push(id)
        return [placed(id)]
      }),
    )
    const inputs = keyed('aab')
    const outputs = router.pipe(sourceOf(...inputs))
    const first = (await outputs.next()).value
    const other = (await outputs.next()).value
    await settlePromises()
    expect(seen).toEqual(['a1', 'b3'])
    await other?.ack()
    await settlePromises()
    expect(seen).toEqual(['a1', 'b3'])
    await first?.ack()
    await settlePromises()
    expect(seen).toEqual(['a1', 'b3', 'a2'])
    await (await outputs.next()).value?.ack()
    expect((await outputs.next()).done).toBe(true)
    expect(inputs.map(verdicts)).toEqual([['ack'], ['ack'], ['ack']])
  })

  it('nacks those behind a message whose output is nacked under forward', async () => {
    const { router } = openWorld({ ackStrategy: 'forward', concurrency: 2, orderingKey: 'partitionkey' })
    const seen: unknown[] = []
    router.handle(
      handling(({ id }) => {
        seen.push(id)
        return [placed(id)]
      }),
    )
    const inputs = keyed('aa')
    const outputs = router.pipe(sourceOf(...inputs))
    const first = (await outputs.next()).value
    await settlePromises()
    await first?.nack(broken, { retryAfter: 9 })
    expect((await outputs.next()).done).toBe(true)
    expect(seen).toEqual(['a1'])
    expect(inputs.map(({ calls }) => calls[0]?.options)).toEqual([{ retryAfter: 9 }, { retryAfter: 9 }])
  })

  it('nacks those behind a message at a stop only after that one', async () => {
    const { router } = openWorld({ concurrency: 4, orderingKey: 'partitionkey' })
    const work = gated()
    router.handle(handling(work.handle))
    const order: string[] = []
    const inputs = ['m1', 'm2'].map((id) => tracked(id, { attributes: { partitionkey: 'key' }, answer: () => void order.push(id) }))
    const run = router.run(sourceOf(...inputs))
    await settlePromises()
    const stop = router.stop()
    await settlePromises()
    expect(order).toEqual([])
    await work.release('m1', broken)
    await Promise.all([stop, run])
    expect(order).toEqual(['m1', 'm2'])
    expect(inputs.map(verdicts)).toEqual([['nack'], ['nack']])
  })

  it('is kept from one run to the next when a message fails at the stop', async () => {
    await using world = new MemoryWorld()
    const { router } = openWorld({ concurrency: 4, orderingKey: 'partitionkey', redeliveryDelay: () => 0 })
    const source = world.broker.source('orders')
    await world.broker.publish(
      'orders',
      keyed('kk').map(({ message }) => message),
    )
    const seen: (string | undefined)[] = []
    router.handle(
      handling(async ({ id }) => {
        seen.push(id)
        if (seen.length > 1) return
        await settlePromises()
        void router.stop()
        await settlePromises()
        throw broken
      }),
    )
    await router.run(source)
    const run = router.run(source)
    await world.broker.idle('orders')
    await router.stop()
    await run
    expect(seen).toEqual(['k1', 'k1', 'k2'])
  })

  it('does not nack a message behind itself: each delivery is an attempt', async () => {
    await using world = new MemoryWorld()
    const { router } = openWorld({ concurrency: 4, orderingKey: 'partitionkey', maxDeliveries: 3, redeliveryDelay: () => 0 })
    await world.broker.publish(
      'orders',
      keyed('k').map(({ message }) => message),
    )
    const attempts: (number | undefined)[] = []
    router.handle(
      handling(async ({ deliveryCount }) => {
        attempts.push(deliveryCount)
        await settlePromises()
        throw broken
      }),
    )
    const run = router.run(world.broker.source('orders', { deadLetter: 'dead' }))
    await world.broker.idle('orders')
    await router.stop()
    await run
    expect(attempts).toEqual([1, 2, 3])
    expect(world.broker.stats('dead').published).toBe(1)
  })

  it('keeps the order of every key, whatever takes long and whatever fails', async () => {
    const step = fc.record({
      key: fc.constantFrom('a', 'b', 'c', undefined),
      duration: fc.integer({ min: 0, max: 20 }),
      pause: fc.integer({ min: 0, max: 10 }),
      outcome: fc.constantFrom('ok', 'ok', 'ok', 'nack', 'reject'),
    })
    const scenario = fc.record({
      steps: fc.array(step, { maxLength: 25 }),
      concurrency: fc.integer({ min: 1, max: 4 }),
      buffer: fc.integer({ min: 0, max: 6 }),
      stopAt: fc.option(fc.integer({ min: 0, max: 120 }), { nil: undefined }),
    })
    await fc.assert(
      fc.asyncProperty(scenario, async ({ steps, concurrency, buffer, stopAt }) => {
        const { router, runtime } = openWorld({
          concurrency,
          buffer,
          orderingKey: 'partitionkey',
          onError: () => undefined,
          redeliveryDelay: () => 5,
        })
        const inputs = steps.map(({ key }, index) => tracked(`${index}`, { attributes: key === undefined ? {} : { partitionkey: key } }))
        const read: number[] = []
        const events: { readonly kind: 'start' | 'end'; readonly index: number; readonly readSoFar: number }[] = []
        let running = 0
        let most = 0
        async function* messages({ signal }: { signal: AbortSignal }) {
          for (const [index, input] of inputs.entries()) {
            const pause = steps[index]?.pause ?? 0
            if (pause > 0) await sleep(runtime, pause)
            if (signal.aborted) return
            read.push(index)
            yield input.message
          }
        }
        router.handle(
          handling(async (message) => {
            const index = Number(message.id)
            const { duration = 0, outcome } = steps[index] ?? {}
            events.push({ kind: 'start', index, readSoFar: read.length })
            running += 1
            most = Math.max(most, running)
            if (duration > 0) await sleep(runtime, duration)
            running -= 1
            events.push({ kind: 'end', index, readSoFar: read.length })
            if (outcome === 'nack') throw broken
            if (outcome === 'reject') await message.reject(broken)
          }),
        )
        const run = router.run({ messages })
        if (stopAt !== undefined) {
          await runtime.advance(stopAt)
          const stopped = router.stop()
          await runtime.advance(2000)
          await stopped
        } else {
          await runtime.advance(2000)
        }
        await run

        expect(most).toBeLessThanOrEqual(concurrency)
        expect(runtime.timers).toBe(0)
        // Everything that was read is settled, once; the rest is unchanged.
        for (const [index, input] of inputs.entries()) expect(input.calls).toHaveLength(read.includes(index) ? 1 : 0)
        for (const key of ['a', 'b', 'c']) {
          const own = events.filter(({ index }) => steps[index]?.key === key)
          // In order: start, end, start, end, with rising indexes.
          own.forEach((event, place) => {
            expect(event.kind).toBe(place % 2 === 0 ? 'start' : 'end')
            if (place % 2 === 1) expect(event.index).toBe(own[place - 1]?.index)
            else if (place > 0) expect(event.index).toBeGreaterThan(own[place - 1]?.index ?? Infinity)
          })
          // Messages that had been read behind a nacked one were not handled.
          for (const end of own.filter(({ kind, index }) => kind === 'end' && steps[index]?.outcome === 'nack')) {
            const behind = read.slice(0, end.readSoFar).filter((index) => index > end.index && steps[index]?.key === key)
            for (const index of behind) {
              expect(own.some((event) => event.index === index)).toBe(false)
              expect(inputs[index]?.calls[0]?.verdict).toBe('nack')
            }
          }
        }
      }),
      { numRuns: 150, seed: 20260101 },
    )
  })
})
