import { sharedRows } from '@ackord/bench/shared-rows'
import type { Bounds } from './bounds.ts'

const url = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'

/** Group commit on shared rows reaches at least this part of the rate of single messages, over a minute. */
const leastRatio = 0.8
/** The ratio is the median of this many runs, because a single run depends on what else the machine does. */
const runs = 3

export async function sharedRowsInGroups(bounds: Bounds): Promise<Record<string, unknown>> {
  const ratios: number[] = []
  for (let run = 1; run <= runs; run += 1) {
    const { alone, grouped } = await sharedRows(url)
    ratios.push(grouped / alone)
    console.error(`shared rows: ${Math.round(grouped)} messages per second in groups, ${Math.round(alone)} alone (run ${run} of ${runs})`)
  }
  const ratio = ratios.sort((one, other) => one - other)[Math.floor(runs / 2)] ?? 0
  bounds.atLeast('the rate of group commit on shared rows, compared with single messages', ratio, leastRatio)
  return { ratio: Math.round(ratio * 100) / 100, ratios: ratios.map((one) => Math.round(one * 100) / 100) }
}
