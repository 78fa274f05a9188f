import { VirtualRuntime } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { GroupSize } from '../../src/group-commit/group-size.ts'

const second = 1000

it('shrinks with each conflict down to single messages, and grows again one by one after a pause', async () => {
  const runtime = new VirtualRuntime()
  const size = new GroupSize(50, runtime)
  const limits: number[] = []
  for (let conflict = 0; conflict < 4; conflict += 1) {
    limits.push(size.limit)
    size.shrink()
  }
  expect([...limits, size.limit]).toEqual([50, 12, 3, 1, 1])
  await runtime.advance(9 * second)
  expect(size.limit).toBe(1)
  await runtime.advance(1 * second)
  expect(size.limit).toBe(2)
  for (const count of [2, 1, 3, 4, 2]) size.succeeded(count)
  expect(size.limit).toBe(5)
})

it('waits longer after each consecutive conflict, up to a minute, until groups are full again', async () => {
  const runtime = new VirtualRuntime()
  const size = new GroupSize(4, runtime)
  const pauses: number[] = []
  for (let conflict = 0; conflict < 5; conflict += 1) {
    size.shrink()
    // Groups that fail at the same time count as one conflict.
    size.shrink()
    let pause = 0
    for (; size.limit === 1; pause += 1) await runtime.advance(second)
    pauses.push(pause)
  }
  expect(pauses).toEqual([10, 20, 40, 60, 60])
  for (const count of [2, 3, 4]) size.succeeded(count)
  expect(size.limit).toBe(4)
  size.dissolve()
  await runtime.advance(10 * second)
  expect(size.limit).toBe(2)
})

it('does not depend on the wall clock', async () => {
  const runtime = new VirtualRuntime()
  const size = new GroupSize(50, runtime)
  size.dissolve()
  runtime.shiftClock(60 * second)
  expect(size.limit).toBe(1)
  runtime.shiftClock(-600 * second)
  await runtime.advance(10 * second)
  expect(size.limit).toBe(2)
})
