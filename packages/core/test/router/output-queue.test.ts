import { describe, expect, it } from 'vitest'
import { OutputQueue } from '../../src/router/output-queue.ts'
import { deferred, placed } from '../support/router-world.ts'
import { settlePromises } from '../support/virtual-runtime.ts'

const broken = new Error('broken')
const [a, b, c] = [placed('a'), placed('b'), placed('c')]

function openQueue(onLeave: () => Promise<void> = async () => {}): OutputQueue {
  return new OutputQueue(onLeave)
}

function stateOf(promise: Promise<void> | undefined): { state: string; error?: unknown } {
  const result: { state: string; error?: unknown } = { state: promise === undefined ? 'at once' : 'waiting' }
  promise?.then(
    () => {
      result.state = 'taken'
    },
    (error: unknown) => {
      result.state = 'refused'
      result.error = error
    },
  )
  return result
}

describe('OutputQueue', () => {
  it('counts an offer as delivered when the reader has read all of it', async () => {
    const queue = openQueue()
    const offer = stateOf(queue.offer([a, b]))
    expect((await queue.next()).value).toBe(a)
    await settlePromises()
    expect(offer.state).toBe('waiting')
    expect((await queue.next()).value).toBe(b)
    await settlePromises()
    expect(offer.state).toBe('taken')
  })

  it('serves waiting readers immediately, in their order', async () => {
    const queue = openQueue()
    const [first, second] = [queue.next(), queue.next()]
    expect(queue.offer([a, b])).toBeUndefined()
    expect([(await first).value, (await second).value]).toEqual([a, b])
  })

  it('keeps the rest for the next readers', async () => {
    const queue = openQueue()
    const first = queue.next()
    const offer = stateOf(queue.offer([a, b]))
    expect((await first).value).toBe(a)
    expect(offer.state).toBe('waiting')
    expect((await queue.next()).value).toBe(b)
    await settlePromises()
    expect(offer.state).toBe('taken')
  })

  it('keeps the order of offers', async () => {
    const queue = openQueue()
    void queue.offer([a, b])
    void queue.offer([c])
    expect([(await queue.next()).value, (await queue.next()).value, (await queue.next()).value]).toEqual([a, b, c])
  })

  it('counts an empty offer as delivered', () => {
    expect(openQueue().offer([])).toBeUndefined()
  })

  it('ends waiting readers and later ones', async () => {
    const queue = openQueue()
    const waiting = queue.next()
    queue.end()
    queue.end({ error: broken })
    expect(await waiting).toEqual({ done: true, value: undefined })
    expect(await queue.next()).toEqual({ done: true, value: undefined })
  })

  it('passes the error to the waiting reader, and only to that', async () => {
    const queue = openQueue()
    const [first, second] = [queue.next(), queue.next()]
    queue.end({ error: broken })
    await expect(first).rejects.toBe(broken)
    expect((await second).done).toBe(true)
    expect((await queue.next()).done).toBe(true)
  })

  it('passes the error to the next reader when none waits, after the offered outputs', async () => {
    const queue = openQueue()
    void queue.offer([a])
    queue.end({ error: broken })
    expect((await queue.next()).value).toBe(a)
    await expect(queue.next()).rejects.toBe(broken)
    expect((await queue.next()).done).toBe(true)
  })

  it('rejects offers that were not read, and later ones without a waiting reader', async () => {
    const queue = openQueue()
    const [first, second] = [stateOf(queue.offer([a, b])), stateOf(queue.offer([c]))]
    await queue.next()
    queue.refuse(broken)
    await settlePromises()
    expect([first, second]).toEqual([
      { state: 'refused', error: broken },
      { state: 'refused', error: broken },
    ])
    const later = stateOf(queue.offer([a]))
    const waiting = queue.next()
    await settlePromises()
    expect(later).toEqual({ state: 'refused', error: broken })
    expect(queue.offer([c])).toBeUndefined()
    expect((await waiting).value).toBe(c)
  })

  it('rejects everything once the reader has left, and waits for what leaving starts', async () => {
    const stopped = deferred()
    const queue = openQueue(() => stopped.promise)
    const before = stateOf(queue.offer([a]))
    let left = false
    const leaving = queue.return().then((result) => {
      left = true
      return result
    })
    await settlePromises()
    expect(before).toMatchObject({ state: 'refused', error: { code: 'ACKORD_SHUTDOWN' } })
    const after = stateOf(queue.offer([b]))
    await settlePromises()
    expect(after).toMatchObject({ state: 'refused', error: { code: 'ACKORD_SHUTDOWN' } })
    expect(left).toBe(false)
    stopped.resolve()
    expect(await leaving).toEqual({ done: true, value: undefined })
    expect(await queue.next()).toEqual({ done: true, value: undefined })
  })

  it('passes nothing to a waiting reader once the queue was left', async () => {
    const queue = openQueue()
    const waiting = queue.next()
    const leaving = queue.return()
    const offer = stateOf(queue.offer([a]))
    await leaving
    expect((await waiting).done).toBe(true)
    await settlePromises()
    expect(offer.state).toBe('refused')
  })
})
