import { describe, expect, it } from 'vitest'
import { VirtualRuntime } from '../../src/helpers/virtual-runtime.ts'

describe('VirtualRuntime', () => {
  it('fires timers at their instants, in order, also those that timers set', async () => {
    const runtime = new VirtualRuntime({ start: 0 })
    const fired: [string, number][] = []
    const note = (name: string) => () => void fired.push([name, runtime.now()])
    runtime.setTimeout(note('late'), 30)
    runtime.setTimeout(() => {
      note('early')()
      runtime.setTimeout(note('set by early'), 5)
    }, 10)
    runtime.setTimeout(note('cancelled'), 20).cancel()
    runtime.setTimeout(note('too late'), 31)
    expect(runtime.nextTimer).toBe(10)
    await runtime.advance(30)
    expect(fired).toEqual([
      ['early', 10],
      ['set by early', 15],
      ['late', 30],
    ])
    expect([runtime.now(), runtime.timers]).toEqual([30, 1])
  })

  it('returns the same random numbers and ids for the same seed', () => {
    const draw = (seed: number) => {
      const { random, uuid } = new VirtualRuntime({ seed })
      return [random(), random(), uuid(), uuid()]
    }
    expect(draw(7)).toEqual(draw(7))
    expect(draw(7)).not.toEqual(draw(8))
    expect(new Set(draw(7)).size).toBe(4)
  })
})
