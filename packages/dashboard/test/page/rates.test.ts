import { describe, expect, it } from 'vitest'
import { ratesPerMinute, storedPerMinute } from '../../page/state/rates.ts'

const minute = 60_000
const now = 1000 * minute + 30_000

function rate(
  at: number,
  published: number,
  more: { readonly duration?: number; readonly failed?: number; readonly parked?: number } = {},
) {
  return { at, duration: minute, destination: 'billing', published, failed: 0, parked: 0, ...more }
}

describe('ratesPerMinute()', () => {
  it('has a value for each minute, the last of which ended at least a minute ago', () => {
    const { at, published } = ratesPerMinute([], now, 3)
    expect(at).toEqual([996 * minute, 997 * minute, 998 * minute])
    expect(published).toEqual([0, 0, 0])
  })

  it('sums what several relays did in a minute', () => {
    const rates = [rate(998 * minute, 10, { failed: 1 }), rate(998 * minute, 20, { parked: 2 })]
    expect(ratesPerMinute(rates, now, 3)).toMatchObject({ published: [0, 30, 0], failed: [0, 1, 0], parked: [0, 2, 0] })
  })

  it('divides an interval that lies in two minutes', () => {
    expect(ratesPerMinute([rate(998 * minute + 15_000, 60)], now, 3).published).toEqual([0, 45, 15])
  })

  it('divides a long interval, and leaves out what is before or after the chart', () => {
    expect(ratesPerMinute([rate(1001 * minute, 100, { duration: 10 * minute })], now, 3).published).toEqual([10, 10, 10])
    expect(ratesPerMinute([rate(900 * minute, 7), rate(1000 * minute, 9)], now, 3).published).toEqual([0, 0, 0])
  })

  it('survives an interval without a length', () => {
    expect(ratesPerMinute([rate(997 * minute + 5, 4, { duration: 0 })], now, 3).published).toEqual([0, 4, 0])
  })
})

describe('storedPerMinute()', () => {
  const rates = ratesPerMinute([rate(997 * minute, 10), rate(998 * minute, 20), rate(999 * minute, 30)], now, 3)
  const point = (at: number, unpublished: number | undefined) => ({ at, records: 0, unpublished })

  it('adds the growth of the backlog to what was published', () => {
    const backlog = [996, 997, 998, 999].map((number, index) => point(number * minute, [5, 8, 8, 0][index]))
    expect(storedPerMinute(rates, backlog)).toEqual([13, 20, 22])
  })

  it('takes the backlog between two points from the line between them', () => {
    const backlog = [point(996 * minute - 10_000, 0), point(996 * minute + 10_000, 10), point(997 * minute, 10)]
    expect(storedPerMinute(rates, backlog)).toEqual([15, null, null])
  })

  it('is unknown without counts at both ends of a minute, and is never negative', () => {
    expect(storedPerMinute(rates, [])).toEqual([null, null, null])
    expect(storedPerMinute(rates, [point(995 * minute, 1), point(999 * minute, 1)])).toEqual([null, null, null])
    expect(storedPerMinute(rates, [point(996 * minute, undefined), point(997 * minute, 3), point(998 * minute, 1)])).toEqual([
      null,
      18,
      null,
    ])
    expect(storedPerMinute(rates, [point(996 * minute, 100), point(997 * minute, 3)])).toEqual([0, null, null])
  })
})
