import { describe, expect, it } from 'vitest'
import { inChunks } from '../../src/async/collections.ts'
import { PublishCalls } from '../../src/broker/create-publisher.ts'
import { currentContext, enter, type PublishResult, rootContext } from '../../src/index.ts'
import { deferred } from '../support/router-world.ts'

const { signal } = new AbortController()
const ok: readonly PublishResult[] = [{ ok: true }]

describe('PublishCalls', () => {
  it('gives what the call gives, and rejects with what it rejects with', async () => {
    const calls = new PublishCalls('The publisher')
    expect(await calls.run('orders', signal, async () => ok)).toBe(ok)
    await expect(calls.run('orders', signal, () => Promise.reject(new Error('down')))).rejects.toThrow('down')
  })

  it('begins nothing without a destination, or when nobody waits any more', async () => {
    const calls = new PublishCalls('The publisher')
    let begun = 0
    const publish = async () => {
      begun += 1
      return ok
    }
    await expect(calls.run('', signal, publish)).rejects.toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    await expect(calls.run('orders', AbortSignal.abort(new Error('stopped')), publish)).rejects.toThrow('stopped')
    expect(begun).toBe(0)
  })

  it('is closed for new ones at once, and waits for those under way, also for one that fails', async () => {
    const calls = new PublishCalls('The publisher')
    const answer = deferred<readonly PublishResult[]>()
    const failing = calls.run('orders', signal, () => answer.promise)
    const failed = expect(failing).rejects.toThrow('down')
    let closed = false
    const closing = calls.close().then(() => {
      closed = true
    })
    await expect(calls.run('orders', signal, async () => ok)).rejects.toMatchObject({
      code: 'ACKORD_SHUTDOWN',
      message: 'The publisher is closed.',
    })
    expect(closed).toBe(false)
    answer.reject(new Error('down'))
    await closing
    await failed
  })

  it('runs them outside of the context of whoever publishes', async () => {
    const calls = new PublishCalls('The publisher')
    let inside: unknown = 'not called'
    await enter(rootContext(), () =>
      calls.run('orders', signal, async () => {
        inside = currentContext()
        return ok
      }),
    )
    expect(inside).toBeUndefined()
  })
})

describe('inChunks', () => {
  const sizes = (chunks: Iterable<readonly { readonly size: number }[]>) => Array.from(chunks, (chunk) => chunk.map(({ size }) => size))
  const items = (...given: number[]) => given.map((size) => ({ size }))

  it('keeps the order, and to both limits', () => {
    expect(sizes(inChunks(items(1, 2, 3, 4), { count: 3, size: 100 }))).toEqual([[1, 2, 3], [4]])
    expect(sizes(inChunks(items(4, 4, 2, 9), { count: 10, size: 8 }))).toEqual([[4, 4], [2], [9]])
  })

  it('gives one alone that is larger than the limit, and nothing for nothing', () => {
    expect(sizes(inChunks(items(1, 50, 1), { count: 10, size: 8 }))).toEqual([[1], [50], [1]])
    expect(sizes(inChunks([], { count: 10, size: 8 }))).toEqual([])
  })
})
