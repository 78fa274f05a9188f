import { describe, expect, it } from 'vitest'
import type { Message } from '../../src/message/message.ts'
import { InputMerger } from '../../src/router/input-merger.ts'
import { collect, deferred, FedSource, sourceOf, tracked, trackedSome, verdicts } from '../support/router-world.ts'
import { settlePromises } from '../support/virtual-runtime.ts'

/** A merger, a function that ends it, and the errors of its inputs. */
function open() {
  const merger = new InputMerger()
  const controller = new AbortController()
  const failures: unknown[] = []
  const events = { onMessage: () => {}, onFailed: (error: unknown) => void failures.push(error) }
  return { merger, controller, failures, events, start: () => merger.start(controller.signal) }
}

/** An iterable that ignores the signal and yields what the test resolves. */
function plain() {
  const next = deferred<IteratorResult<Message>>()
  const iterable = {
    returned: 0,
    next: () => next.promise,
    async return(): Promise<IteratorResult<Message>> {
      iterable.returned += 1
      return { done: true, value: undefined }
    },
    [Symbol.asyncIterator]: () => iterable,
  }
  return { iterable, next }
}

async function hasEnded(merger: AsyncIterable<Message>): Promise<boolean> {
  let ended = false
  void collect(merger).then(() => {
    ended = true
  })
  await settlePromises()
  return ended
}

describe('an input', () => {
  it('that is stopped before the start is never read', async () => {
    const { merger, events, start } = open()
    const source = new FedSource(trackedSome(1))
    const input = merger.add(source, events)
    input.stop()
    await input.ended
    merger.close()
    expect(await hasEnded(start())).toBe(true)
    expect(source.pulls).toBe(0)
  })

  it('that is stopped while the others start sees its signal aborted', async () => {
    const { merger, events, start } = open()
    const second = sourceOf()
    const first = {
      messages() {
        input.stop()
        return sourceOf()
      },
    }
    merger.add(first, events)
    const input = merger.add(second, events)
    start()
    await input.ended
    expect(second.signal?.aborted).toBe(true)
  })

  it('that is stopped does not affect the others', async () => {
    const { merger, events, start, failures } = open()
    const [stopped, kept] = [new FedSource(), new FedSource()]
    const input = merger.add(stopped, events)
    merger.add(kept, events)
    start()
    input.stop()
    await input.ended
    expect([stopped.signal?.aborted, kept.signal?.aborted]).toEqual([true, false])
    expect(failures).toEqual([])
  })

  it('that fails is reported, but not when it fails by the abort', async () => {
    const { merger, controller, events, failures, start } = open()
    const [early, late] = [new FedSource(), new FedSource([], { heedsSignal: false })]
    merger.add(early, events)
    const { ended } = merger.add(late, events)
    start()
    const failure = new Error('early')
    early.fail(failure)
    await settlePromises()
    controller.abort()
    late.fail(new Error('late'))
    await ended
    expect(failures).toEqual([failure])
  })

  it('that yields a message after the abort has it nacked', async () => {
    const { merger, controller, events, start } = open()
    const source = new FedSource([], { heedsSignal: false })
    const { ended } = merger.add(source, events)
    start()
    await settlePromises()
    controller.abort()
    const late = tracked('late')
    source.push(late)
    await ended
    expect(late.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_SHUTDOWN' } }])
    expect(source.returned).toBe(1)
  })

  it('whose message was not read before the abort has it nacked', async () => {
    const { merger, controller, events, start } = open()
    const waiting = tracked('m1')
    const { ended } = merger.add(new FedSource([waiting]), events)
    start()
    await settlePromises()
    expect(verdicts(waiting)).toEqual([])
    controller.abort()
    await ended
    expect(waiting.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_SHUTDOWN' } }])
  })
})

describe('an input that ignores the signal', () => {
  it('is abandoned at the abort, and its later messages are nacked', async () => {
    const { merger, controller, events, start, failures } = open()
    const { iterable, next } = plain()
    const { ended } = merger.add(iterable, events)
    start()
    await settlePromises()
    controller.abort()
    await ended
    expect(iterable.returned).toBe(1)
    const late = tracked('late')
    next.resolve({ done: false, value: late.message })
    await settlePromises()
    expect(late.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_SHUTDOWN' } }])
    expect(failures).toEqual([])
  })

  it('may fail after it was abandoned: the failure is ignored', async () => {
    const { merger, controller, events, start, failures } = open()
    const { iterable, next } = plain()
    const { ended } = merger.add(iterable, events)
    start()
    controller.abort()
    await ended
    next.reject(new Error('late'))
    await settlePromises()
    expect(failures).toEqual([])
  })
})

describe('the iteration', () => {
  it('ends immediately when its signal was aborted before the start, and its inputs see that', async () => {
    const { merger, controller, events, start } = open()
    const source = new FedSource([tracked('m1')])
    const { iterable } = plain()
    merger.add(source, events)
    merger.add(iterable, events)
    controller.abort()
    expect(await hasEnded(start())).toBe(true)
    expect(source.signal?.aborted).toBe(true)
    expect(iterable.returned).toBe(1)
  })

  it('continues without inputs until it is closed', async () => {
    const { merger, start } = open()
    start()
    expect(await hasEnded(merger)).toBe(false)
    merger.close()
    expect(await hasEnded(merger)).toBe(true)
  })
})
