import { type ResultTable, runScenario, type Scenario } from '@ackord/testkit/suites'
import { describe, it } from 'vitest'

export interface FaultSuite<Open> {
  readonly suite: string
  /** The name of the implementation under test. */
  readonly name: string
  readonly scenarios: readonly Scenario<Open>[]
  readonly open: Open
  readonly results: ResultTable
}

/** Milliseconds; ends a scenario that hangs. */
const timeout = 170_000

/** Registers one test per scenario, and a row with its outcome in the table. */
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
