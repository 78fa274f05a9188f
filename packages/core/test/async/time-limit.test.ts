import { describe, expect, it } from 'vitest'
import { withTimeLimit } from '../../src/async/abort.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const late = () => new Error('too late')
const hangs = () => new Promise<never>(() => {})

describe('a time limit', () => {
  it('returns the result of the work, and leaves no timer', async () => {
    const runtime = new VirtualRuntime()
    await expect(withTimeLimit(runtime, 100, late, async () => 'done')).resolves.toBe('done')
    await expect(withTimeLimit(runtime, 100, late, () => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
    expect(runtime.timers).toBe(0)
  })

  it('rejects and aborts the signal when the time is over, without waiting for the work', async () => {
    const runtime = new VirtualRuntime()
    let signal: AbortSignal | undefined
    const call = withTimeLimit(runtime, 100, late, (given) => {
      signal = given
      return hangs()
    })
    const failed = expect(call).rejects.toThrow('too late')
    await runtime.advance(99)
    expect(signal?.aborted).toBe(false)
    await runtime.advance(1)
    await failed
    expect(signal?.reason).toEqual(late())
    expect(runtime.timers).toBe(0)
  })

  it('uses a result that the work returns in response to the abort, if that is configured', async () => {
    const runtime = new VirtualRuntime()
    const untilAborted = (signal: AbortSignal) =>
      new Promise<string>((resolve) => signal.addEventListener('abort', () => resolve('partial')))
    const used = withTimeLimit(runtime, 100, late, untilAborted, { useAbortResult: true })
    const hanging = expect(withTimeLimit(runtime, 100, late, hangs, { useAbortResult: true })).rejects.toThrow('too late')
    await runtime.advance(100)
    await expect(used).resolves.toBe('partial')
    await hanging
  })
})
