import fc from 'fast-check'
import { expect, it } from 'vitest'
import { constantBackoff, exponentialBackoff } from '../../src/async/backoff.ts'
import { isAckordError } from '../../src/errors.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const middle = () => 0.5

it('waits the same each time with a constant back-off', () => {
  const backoff = constantBackoff(250)
  expect([1, 2, 50].map((attempt) => backoff(attempt, middle))).toEqual([250, 250, 250])
})

it('waits a second by default, plus or minus a fifth', () => {
  expect(constantBackoff()(1, () => 0)).toBe(800)
  expect(constantBackoff()(1, () => 1)).toBe(1200)
})

it('doubles the delay after each failure up to the maximum', () => {
  const backoff = exponentialBackoff({ jitter: 0 })
  expect([1, 2, 3, 6, 7, 8].map((attempt) => backoff(attempt, middle))).toEqual([1000, 2000, 4000, 32_000, 60_000, 60_000])
})

it('multiplies by the configured factor', () => {
  const backoff = exponentialBackoff({ initial: 10, factor: 3, max: 100, jitter: 0 })
  expect([1, 2, 3, 4].map((attempt) => backoff(attempt, middle))).toEqual([10, 30, 90, 100])
})

it('never waits longer than the maximum delay, even if the first one is longer', () => {
  expect(exponentialBackoff({ initial: 5000, max: 1000, jitter: 0 })(1, middle)).toBe(1000)
})

it('treats an attempt before the first like the first', () => {
  expect(exponentialBackoff({ jitter: 0 })(0, middle)).toBe(1000)
})

it('does not wait at all from an initial delay of 0, however many attempts there were', () => {
  const backoff = exponentialBackoff({ initial: 0 })
  for (const attempt of [1, 2, 2000, 1e9]) expect(backoff(attempt, middle)).toBe(0)
})

it('stays a finite number at attempts whose power overflows', () => {
  const backoff = exponentialBackoff()
  for (const attempt of [2000, 1e9, Number.MAX_SAFE_INTEGER]) {
    for (const random of [0, 0.5, 0.999]) {
      const delay = backoff(attempt, () => random)
      expect(Number.isFinite(delay)).toBe(true)
      expect(delay).toBeGreaterThanOrEqual(48_000)
      expect(delay).toBeLessThanOrEqual(72_000)
    }
  }
})

it('keeps within its jitter of the capped delay for all options', () => {
  const options = fc.record({
    initial: fc.integer({ min: 0, max: 100_000 }),
    factor: fc.double({ min: 1, max: 100, noNaN: true }),
    max: fc.integer({ min: 0, max: 10_000_000 }),
    jitter: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  fc.assert(
    fc.property(options, fc.integer({ min: 1, max: 1_000_000_000 }), fc.integer(), (given, attempt, seed) => {
      const exact = exponentialBackoff({ ...given, jitter: 0 })(attempt, middle)
      const delay = exponentialBackoff(given)(attempt, new VirtualRuntime({ start: 0, seed }).random)
      expect(exact).toBeLessThanOrEqual(given.max)
      // Half a millisecond for the rounding.
      expect(Math.abs(delay - exact)).toBeLessThanOrEqual(exact * given.jitter + 0.5)
      expect(delay).toBeGreaterThanOrEqual(0)
    }),
  )
})

it('spreads equal delays', () => {
  const { random } = new VirtualRuntime()
  const backoff = constantBackoff(10_000)
  expect(new Set(Array.from({ length: 50 }, () => backoff(1, random))).size).toBeGreaterThan(40)
})

it.each([
  ['delay', () => constantBackoff(-1)],
  ['delay', () => constantBackoff(Number.POSITIVE_INFINITY)],
  ['jitter', () => constantBackoff(1, { jitter: 1.1 })],
  ['initial', () => exponentialBackoff({ initial: Number.NaN })],
  ['max', () => exponentialBackoff({ max: Number.POSITIVE_INFINITY })],
  ['factor', () => exponentialBackoff({ factor: 0.5 })],
  ['factor', () => exponentialBackoff({ factor: Number.POSITIVE_INFINITY })],
  ['jitter', () => exponentialBackoff({ jitter: -0.1 })],
])('rejects an invalid option and names it: %s', (option, make) => {
  expect(make).toThrow(new RegExp(`^${option} must be`))
  expect(make).toThrow(expect.toSatisfy((error: unknown) => isAckordError(error, 'ACKORD_INVALID_OPTION')))
})
