import type { BacklogPoint, OutboxRate } from '../../src/api/types.ts'

/** Columns of a chart: `at` is the start of each minute, in milliseconds since the epoch. */
export interface RatesPerMinute {
  readonly at: readonly number[]
  readonly published: readonly number[]
  readonly failed: readonly number[]
  readonly parked: readonly number[]
}

const minute = 60_000
const kinds = ['published', 'failed', 'parked'] as const

/**
 * Sums what all relays did in each of the last `minutes` minutes. An interval that lies in two minutes counts for both, by its share of each. The last minute shown ended
 * at least a minute ago: relays report about once a minute, and a minute whose reports are missing would look like a drop.
 */
export function ratesPerMinute(rates: readonly OutboxRate[], now: number, minutes = 30): RatesPerMinute {
  const end = Math.floor(now / minute - 1) * minute
  const start = end - minutes * minute
  const zeros = () => Array.from({ length: minutes }, () => 0)
  const sums = { published: zeros(), failed: zeros(), parked: zeros() }
  for (const rate of rates) {
    const length = Math.max(1, rate.duration)
    const from = rate.at - length
    for (let index = Math.max(0, Math.floor((from - start) / minute)); index < minutes; index += 1) {
      const opens = start + index * minute
      if (opens >= rate.at) break
      const share = (Math.min(rate.at, opens + minute) - Math.max(from, opens)) / length
      for (const kind of kinds) sums[kind][index] = (sums[kind][index] ?? 0) + rate[kind] * share
    }
  }
  const rounded = (values: readonly number[]) => values.map((value) => Math.round(value * 10) / 10)
  return {
    at: Array.from({ length: minutes }, (_, index) => start + index * minute),
    published: rounded(sums.published),
    failed: rounded(sums.failed),
    parked: rounded(sums.parked),
  }
}

/** Two points further apart than this, in milliseconds, say nothing about the time between them. */
const maxGap = 2 * minute

/**
 * About how many records were stored in each minute: those that were published, and those by which the number of unpublished records grew. Records that operators discard
 * count as less. `null` where the number is unknown: no browser was looking, or there were too many records to count.
 */
export function storedPerMinute({ at, published }: RatesPerMinute, backlog: readonly BacklogPoint[]): readonly (number | null)[] {
  return at.map((start, index) => {
    const [before, after] = [unpublishedAt(backlog, start), unpublishedAt(backlog, start + minute)]
    if (before === undefined || after === undefined) return null
    return Math.max(0, Math.round((published[index] ?? 0) + after - before))
  })
}

/** On the line between the two points around the instant. */
function unpublishedAt(backlog: readonly BacklogPoint[], instant: number): number | undefined {
  const after = backlog.findIndex(({ at }) => at >= instant)
  const [one, other] = [backlog[after - 1], backlog[after]]
  if (other?.at === instant) return other.unpublished
  if (one?.unpublished === undefined || other?.unpublished === undefined || other.at - one.at > maxGap) return undefined
  return one.unpublished + ((other.unpublished - one.unpublished) * (instant - one.at)) / (other.at - one.at)
}
