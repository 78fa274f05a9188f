import type { Bounds } from './bounds.ts'
import { reportFailure, searchHistories } from './simulation/simulate.ts'
import { simulationMutants } from './simulation/simulation-mutants.ts'

/** `make test` plays the first 500. */
const histories = 20_000
const atATime = 1000

/** Plays many simulated histories. One that breaks an invariant is shrunk and printed. */
export async function simulation(bounds: Bounds): Promise<Record<string, unknown>> {
  const totals = { histories: 0, commands: 0, events: 0, duplicates: 0 }
  const failing: number[] = []
  for (let from = 1; from <= histories; ) {
    const { failure, ...played } = await searchHistories(Math.min(atATime, histories + 1 - from), { from })
    totals.histories += played.histories
    totals.commands += played.commands
    totals.events += played.events
    totals.duplicates += played.duplicates
    from += played.histories
    if (failure !== undefined) {
      failing.push(failure.plan.seed)
      console.error(await reportFailure(failure))
    }
    console.error(`simulation: ${totals.histories} of ${histories} histories`)
  }
  bounds.atMost('the number of simulated histories that break an invariant', failing.length, 0)
  bounds.atLeast('the number of commands in simulated histories', totals.commands, 5 * histories)
  bounds.atLeast('the number of duplicates that faults caused in simulated histories', totals.duplicates, histories / 20)
  const mutants = simulationMutants.map(({ name, pitfall, breaks, seed }) => ({ name, pitfall, breaks, histories: seed, seed }))
  return { ...totals, failing, mutants }
}
