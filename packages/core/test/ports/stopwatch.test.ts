import { expect, it } from 'vitest'
import { startStopwatch } from '../../src/ports/runtime.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

it('measures the elapsed time, whatever happens to the wall clock', async () => {
  const runtime = new VirtualRuntime()
  const elapsed = startStopwatch(runtime)
  await runtime.advance(100)
  expect(elapsed()).toBe(100)
  runtime.shiftClock(-600_000)
  expect(elapsed()).toBe(100)
})

it('counts a suspension during which only the wall clock went on', async () => {
  const runtime = new VirtualRuntime()
  const elapsed = startStopwatch(runtime)
  await runtime.advance(100)
  runtime.shiftClock(5000)
  expect(elapsed()).toBe(5100)
})
