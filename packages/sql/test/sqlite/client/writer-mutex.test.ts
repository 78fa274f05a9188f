import { describe, expect, it } from 'vitest'
import { WriterMutex } from '../../../src/sqlite/client/locks.ts'

const asIs = (release: () => void) => release

describe('WriterMutex', () => {
  it('admits one writer at a time, in order of arrival', async () => {
    const mutex = new WriterMutex()
    const log: string[] = []
    const work = async (name: string) => {
      const release = await mutex.acquire(asIs)
      log.push(`${name} in`)
      await Promise.resolve()
      log.push(`${name} out`)
      release()
    }
    await Promise.all(['a', 'b', 'c'].map(work))
    await work('d')
    expect(log).toEqual(['a in', 'a out', 'b in', 'b out', 'c in', 'c out', 'd in', 'd out'])
  })

  it('is released once, however often release is called', async () => {
    const mutex = new WriterMutex()
    const release = await mutex.acquire(asIs)
    const second = mutex.acquire(asIs)
    const third = mutex.acquire(asIs)
    release()
    release()
    const releaseSecond = await second
    let isThirdIn = false
    void third.then(() => {
      isThirdIn = true
    })
    await Promise.resolve()
    expect(isThirdIn).toBe(false)
    releaseSecond()
    await third
  })

  it('drops a waiter that is aborted, and does not admit one that was already aborted', async () => {
    const mutex = new WriterMutex()
    const release = await mutex.acquire(asIs)
    const abort = new AbortController()
    const waiting = mutex.acquire(asIs, abort.signal)
    const behind = mutex.acquire(asIs)
    const reason = new Error('too long')
    abort.abort(reason)
    await expect(waiting).rejects.toBe(reason)
    release()
    ;(await behind)()
    await expect(mutex.acquire(asIs, abort.signal)).rejects.toBe(reason)
    ;(await mutex.acquire(asIs))()
  })
})
