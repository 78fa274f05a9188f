import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { idle, sleep, systemRuntime } from '../../src/ports/runtime.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

describe('the system runtime', () => {
  it('returns the time, numbers from 0 to 1 and version 4 UUIDs', () => {
    expect(Math.abs(systemRuntime.now() - Date.now())).toBeLessThan(1000)
    expect(systemRuntime.random()).toBeGreaterThanOrEqual(0)
    expect(systemRuntime.random()).toBeLessThan(1)
    expect(systemRuntime.uuid()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  })

  it('runs a timer once, not before its time, and not when it was cancelled', async () => {
    const fired: string[] = []
    const cancelled = systemRuntime.setTimeout(() => fired.push('cancelled'), 1)
    cancelled.cancel()
    cancelled.cancel()
    await new Promise<void>((resolve) => systemRuntime.setTimeout(resolve, 5))
    fired.push('fired')
    expect(fired).toEqual(['fired'])
  })

  it('does not turn a very long delay into a very short one', async () => {
    const fired: string[] = []
    const timer = systemRuntime.setTimeout(() => fired.push('too early'), 1e12)
    await new Promise<void>((resolve) => systemRuntime.setTimeout(resolve, 5))
    timer.cancel()
    expect(fired).toEqual([])
  })
})

describe('sleep and idle', () => {
  it('wait, and leave no timer or listener behind', async () => {
    const runtime = new VirtualRuntime()
    const { signal } = new AbortController()
    const done: string[] = []
    const both = [
      sleep(runtime, 100, { signal }).then(() => done.push('slept')),
      idle(runtime, 200, signal).then((full) => done.push(`idled ${full}`)),
    ]
    await runtime.advance(99)
    expect(done).toEqual([])
    await runtime.advance(101)
    await Promise.all(both)
    expect(done).toEqual(['slept', 'idled true'])
    expect(runtime.timers).toBe(0)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it('end with an abort: sleep by rejecting with its reason, idle without an error', async () => {
    const runtime = new VirtualRuntime()
    const controller = new AbortController()
    const reason = new Error('stop')
    const sleeping = sleep(runtime, 100, { signal: controller.signal })
    const idling = idle(runtime, 100, controller.signal)
    controller.abort(reason)
    await expect(sleeping).rejects.toBe(reason)
    expect(await idling).toBe(false)
    expect(runtime.timers).toBe(0)
    await expect(sleep(runtime, 100, { signal: controller.signal })).rejects.toBe(reason)
    expect(await idle(runtime, 100, controller.signal)).toBe(false)
  })
})
