import { checkCount } from '@ackord/core/internal'
import { type SimulateOptions, type SimulationResult, simulate } from './simulate.ts'

/** Which histories are played, and how. */
export interface SearchOptions extends SimulateOptions {
  /** The first seed. Default: 1. */
  readonly from?: number | undefined
}

/** What a search has played. */
export interface SearchResult {
  readonly histories: number
  readonly commands: number
  readonly events: number
  /** Publishes of events that had been published before; each is explained by a fault. */
  readonly duplicates: number
  /** The first history that broke an invariant. */
  readonly failure: SimulationResult | undefined
}

/** Plays the histories of `count` seeds in a row, up to the first that breaks an invariant. */
export async function searchHistories(count: number, options: SearchOptions = {}): Promise<SearchResult> {
  const { from = 1, ...simulateOptions } = options
  checkCount('count', count)
  const totals = { histories: 0, commands: 0, events: 0, duplicates: 0 }
  for (let seed = from; seed < from + count; seed += 1) {
    const result = await simulate(seed, simulateOptions)
    totals.histories += 1
    totals.commands += result.commands
    totals.events += result.events
    totals.duplicates += result.duplicates
    if (result.violations.length > 0) return { ...totals, failure: result }
  }
  return { ...totals, failure: undefined }
}
