import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { AbortWatch } from '../../src/async/abort.ts'

describe('AbortWatch', () => {
  it('has one listener per signal while something waits', () => {
    const { signal } = new AbortController()
    const watch = new AbortWatch(() => {})
    const listeners = () => getEventListeners(signal, 'abort').length
    watch.add(signal)
    watch.add(signal)
    expect(listeners()).toBe(1)
    watch.remove(signal)
    expect(listeners()).toBe(1)
    watch.remove(signal)
    expect(listeners()).toBe(0)
  })

  it('reports an abort once, for the aborted signal', () => {
    const one = new AbortController()
    const other = new AbortController()
    const reported: AbortSignal[] = []
    const watch = new AbortWatch((signal) => reported.push(signal))
    for (const { signal } of [one, one, other]) watch.add(signal)
    one.abort()
    expect(reported).toEqual([one.signal])
    // A waiter removes its signal after it was notified, and no longer counts.
    watch.remove(one.signal)
    watch.remove(other.signal)
    other.abort()
    expect(reported).toEqual([one.signal])
  })
})
