import { describe, expect, it } from 'vitest'
import { QueryTracker } from '../../src/contract/query-tracker.ts'

const failure = new Error('failed')

describe('a query tracker', () => {
  it('waits for running queries, and for those that they start', async () => {
    const tracker = new QueryTracker()
    const done: string[] = []
    void tracker.run(async () => void done.push('first')).then(() => tracker.run(async () => void done.push('second')))
    await tracker.drained()
    expect(done).toEqual(['first', 'second'])
  })

  it('does not wait if no query is running', async () => {
    await new QueryTracker().drained()
  })

  it('passes results and failures to the caller, and remembers the latest failure', async () => {
    const tracker = new QueryTracker()
    expect(await tracker.run(async () => 7)).toBe(7)
    await expect(tracker.run(() => Promise.reject(failure))).rejects.toBe(failure)
    expect(tracker.failure).toBe(failure)
  })

  it('turns a thrown error into a rejection', async () => {
    const tracker = new QueryTracker()
    await expect(
      tracker.run(() => {
        throw failure
      }),
    ).rejects.toBe(failure)
    await tracker.drained()
  })

  it('starts nothing after the end, and keeps the first reason', async () => {
    const tracker = new QueryTracker()
    tracker.end(() => failure)
    tracker.end(() => new Error('later'))
    let started = false
    await expect(
      tracker.run(async () => {
        started = true
      }),
    ).rejects.toBe(failure)
    expect(started).toBe(false)
    expect(() => tracker.checkOpen()).toThrow(failure)
  })

  it('reports unhandled failures, however a promise is handled', async () => {
    const tracker = new QueryTracker()
    const fail = () => tracker.watch(() => Promise.reject(failure))
    await fail().catch(() => {})
    await fail().then(undefined, () => {})
    await Promise.allSettled([fail()])
    await (async () => {
      try {
        await fail()
      } catch {}
    })()
    await tracker.drained()
    expect(tracker.neglected()).toBeUndefined()
    // A promise that is kept and handled later.
    const kept = fail()
    await tracker.drained()
    expect(tracker.neglected()).toMatchObject({ error: failure })
    await kept.catch(() => {})
    expect(tracker.neglected()).toBeUndefined()
    expect(await tracker.watch(async () => 'value')).toBe('value')
    expect(fail()).toBeInstanceOf(Promise)
    await tracker.drained()
    expect(tracker.neglected()).toMatchObject({ error: failure })
  })
})
