import { type ResultTable, runScenario, type Scenario } from '@ackord/testkit/suites'
import { describe, it } from 'vitest'

export interface FaultSuite<Open> {
  readonly suite: string
  /** Which implementation of it. */
  readonly name: string
  readonly scenarios: readonly Scenario<Open>[]
  readonly open: Open
  readonly results: ResultTable
}

/** Milliseconds; for one that hangs. */
const timeout = 170_000

/** Makes one test of each scenario, and a line in the table of what came of it. */
export function registerFaults<Open>({ suite, name, scenarios, open, results }: FaultSuite<Open>): void {
  describe(`${suite}: ${name}`, () => {
    for (const scenario of scenarios) {
      it(scenario.name, { timeout: timeout + 10_000 }, async () => {
        const { error, ...result } = await runScenario(scenario, open, { timeout })
        results.add({ implementation: name, suite, ...result })
        if (result.result === 'failed') throw error
      })
    }
  })
}
