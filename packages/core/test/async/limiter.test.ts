import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { limiter } from '../../src/async/limiter.ts'
import { sleep } from '../../src/ports/runtime.ts'
import { deferred } from '../support/router-world.ts'
import { settlePromises, VirtualRuntime } from '../support/virtual-runtime.ts'

const never = new AbortController().signal

describe('limiter', () => {
  it('runs up to the limit concurrently and the others in their order', async () => {
    const limit = limiter(2)
    const gates = [deferred(), deferred(), deferred(), deferred()]
    const started: number[] = []
    const all = gates.map((gate, index) =>
      limit(async () => {
        started.push(index)
        await gate.promise
        return index
      }, never),
    )
    await settlePromises()
    expect(started).toEqual([0, 1])
    gates[1]?.resolve()
    await settlePromises()
    expect(started).toEqual([0, 1, 2])
    gates[0]?.resolve()
    await settlePromises()
    expect(started).toEqual([0, 1, 2, 3])
    gates[2]?.resolve()
    gates[3]?.resolve()
    expect(await Promise.all(all)).toEqual([0, 1, 2, 3])
  })

  it('frees the slot of work that fails, also when it throws synchronously', async () => {
    const limit = limiter(1)
    await expect(limit(() => Promise.reject(new Error('rejected')), never)).rejects.toThrow('rejected')
    await expect(
      limit(() => {
        throw new Error('thrown')
      }, never),
    ).rejects.toThrow('thrown')
    expect(await limit(async () => 'next', never)).toBe('next')
  })

  it('lets a waiting call leave when its signal is aborted, with the reason', async () => {
    const limit = limiter(1)
    const gate = deferred()
    const first = limit(() => gate.promise, never)
    const controller = new AbortController()
    let ran = false
    const second = limit(async () => {
      ran = true
    }, controller.signal)
    const third = limit(async () => 'third', never)
    const reason = new Error('gone')
    controller.abort(reason)
    await expect(second).rejects.toBe(reason)
    gate.resolve()
    await first
    expect(await third).toBe('third')
    expect(ran).toBe(false)
  })

  it('does not let a call wait whose signal was aborted before', async () => {
    const limit = limiter(1)
    const gate = deferred()
    const first = limit(() => gate.promise, never)
    const reason = new Error('gone')
    await expect(limit(async () => 'x', AbortSignal.abort(reason))).rejects.toBe(reason)
    gate.resolve()
    await first
    expect(await limit(async () => 'next', never)).toBe('next')
  })

  it('leaves no listener behind', async () => {
    const limit = limiter(1)
    const controller = new AbortController()
    const { signal } = controller
    let listeners = 0
    const add = signal.addEventListener.bind(signal)
    const remove = signal.removeEventListener.bind(signal)
    signal.addEventListener = ((...parameters: Parameters<typeof add>) => {
      listeners += 1
      add(...parameters)
    }) as typeof add
    signal.removeEventListener = ((...parameters: Parameters<typeof remove>) => {
      listeners -= 1
      remove(...parameters)
    }) as typeof remove
    const gate = deferred()
    const all = [1, 2, 3].map(() => limit(() => gate.promise, signal))
    await settlePromises()
    expect(listeners).toBe(2)
    gate.resolve()
    await Promise.all(all)
    expect(listeners).toBe(0)
  })

  it('never exceeds the limit, loses no call and starves none, whichever leaves', async () => {
    const job = fc.record({
      at: fc.integer({ min: 0, max: 30 }),
      duration: fc.integer({ min: 1, max: 20 }),
      leaves: fc.option(fc.integer({ min: 0, max: 40 }), { nil: undefined }),
      fails: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(job, { maxLength: 20 }), fc.integer({ min: 1, max: 4 }), async (jobs, most) => {
        const runtime = new VirtualRuntime()
        const limit = limiter(most)
        let running = 0
        let highest = 0
        const ends = jobs.map(async ({ at, duration, leaves, fails }) => {
          await sleep(runtime, at)
          const controller = new AbortController()
          const timer = leaves === undefined ? undefined : runtime.setTimeout(() => controller.abort('left'), leaves)
          let ran = false
          const end = await limit(async () => {
            ran = true
            running += 1
            highest = Math.max(highest, running)
            await sleep(runtime, duration)
            running -= 1
            if (fails) throw 'failed'
            return 'done'
          }, controller.signal).catch((reason: unknown) => reason)
          timer?.cancel()
          return [end, ran]
        })
        await runtime.advance(2000)
        const results = await Promise.all(ends)
        expect(highest).toBeLessThanOrEqual(most)
        for (const [index, [end, ran]] of results.entries()) expect(end).toBe(ran ? (jobs[index]?.fails ? 'failed' : 'done') : 'left')
        expect(runtime.timers).toBe(0)
        expect(await limit(async () => 'free', never)).toBe('free')
      }),
      { numRuns: 100, seed: 7 },
    )
  })
})
