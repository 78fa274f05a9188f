import { describe, expect, it } from 'vitest'
import { exponentialBackoff } from '../../src/index.ts'
import { FailurePause } from '../../src/internal.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

/** Counts the tries of a loop that always fails, within a second. */
async function triesInASecond(backoff: () => number): Promise<number> {
  const runtime = new VirtualRuntime()
  const stop = new AbortController()
  const pause = new FailurePause({ backoff, runtime })
  let tries = 0
  const loop = (async () => {
    while (!stop.signal.aborted) {
      tries += 1
      await pause.failed(stop.signal)
    }
  })()
  await runtime.advance(1000)
  stop.abort()
  await loop
  expect(runtime.timers).toBe(0)
  return tries
}

describe('the pause after a failure', () => {
  it.each([0, 1, 5, Number.NEGATIVE_INFINITY])('keeps a loop below 103 tries a second with a back-off of %d ms', async (milliseconds) => {
    expect(await triesInASecond(() => milliseconds)).toBeGreaterThan(99)
    expect(await triesInASecond(() => milliseconds)).toBeLessThan(103)
  })

  it('grows with consecutive failures, and is short again after a success', () => {
    const backoff = exponentialBackoff({ initial: 100, max: 30_000, jitter: 0 })
    const pause = new FailurePause({ backoff, runtime: new VirtualRuntime() })
    expect(pause.isFailing).toBe(false)
    expect([pause.next(), pause.next(), pause.next()]).toEqual([100, 200, 400])
    expect(pause.isFailing).toBe(true)
    pause.succeeded()
    expect(pause.isFailing).toBe(false)
    expect(pause.next()).toBe(100)
  })
})
