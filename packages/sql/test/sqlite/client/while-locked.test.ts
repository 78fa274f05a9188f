import { VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { BegunManually, whileLocked } from '../../../src/sqlite/client/locks.ts'
import { failureOf } from '../../support/world.ts'

const locked = Object.assign(new Error('database is locked'), { errcode: 5 })

/** An operation that fails a given number of times. */
function failing(times: number, error: Error = locked): { readonly attempt: () => string; count: number } {
  const state = {
    count: 0,
    attempt() {
      state.count += 1
      if (state.count <= times) throw error
      return 'done'
    },
  }
  return state
}

describe('whileLocked()', () => {
  it('does not wait if nothing is locked', async () => {
    const runtime = new VirtualRuntime()
    expect(await whileLocked(() => 'done', { runtime, timeout: 1000 })).toBe('done')
    expect(runtime.timers).toBe(0)
  })

  it('retries at growing intervals with jitter, none longer than 75 ms', async () => {
    const runtime = new VirtualRuntime()
    const { attempt } = failing(12)
    const waiting = whileLocked(attempt, { runtime, timeout: 5000 })
    const delays: number[] = []
    for (let n = 0; n < 12; n += 1) {
      const delay = runtime.nextTimer ?? -1
      delays.push(delay)
      await runtime.advance(delay)
    }
    expect(await waiting).toBe('done')
    expect(delays[0]).toBeLessThanOrEqual(2)
    expect(Math.max(...delays)).toBeLessThanOrEqual(75)
    expect(Math.max(...delays)).toBeGreaterThanOrEqual(25)
    expect(new Set(delays.slice(-5)).size).toBeGreaterThan(1)
  })

  it.each([
    { cause: locked, text: /another connection keeps it locked/ },
    { cause: new BegunManually('by hand'), text: /begun by hand/ },
  ])('gives up after its timeout and reports the reason: $text', async ({ cause, text }) => {
    const runtime = new VirtualRuntime()
    const { attempt } = failing(Infinity, cause)
    const failed = failureOf(whileLocked(attempt, { runtime, timeout: 1000 }))
    await runtime.advance(1100)
    expect(await failed).toMatchObject({ code: 'ACKORD_DATABASE_BUSY', cause, message: expect.stringMatching(text), retryable: true })
    expect(runtime.timers).toBe(0)
  })

  it('retries forever with a limit of 0, until it is aborted', async () => {
    const runtime = new VirtualRuntime()
    const abort = new AbortController()
    const reason = new Error('stopped')
    const failed = failureOf(whileLocked(failing(Infinity).attempt, { runtime, timeout: 0, signal: abort.signal }))
    await runtime.advance(60_000)
    expect(runtime.timers).toBe(1)
    abort.abort(reason)
    expect(await failed).toBe(reason)
    expect(runtime.timers).toBe(0)
  })

  it('rethrows other errors immediately', async () => {
    const runtime = new VirtualRuntime()
    const other = new Error('disk I/O error')
    expect(await failureOf(whileLocked(failing(1, other).attempt, { runtime, timeout: 1000 }))).toBe(other)
  })
})
