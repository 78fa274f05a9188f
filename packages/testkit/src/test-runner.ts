import type { ResultTable } from './result-table.ts'
import { runScenario, type Scenario } from './scenario.ts'

/** What the kit needs of a test runner; vitest, node:test and jest have it. */
export interface TestRunner {
  readonly describe: (name: string, body: () => void) => unknown
  readonly it: (name: string, body: () => Promise<void>) => unknown
}

export interface Suite<Open> {
  /** What is tested, such as 'outbox store'. */
  readonly suite: string
  /** Which implementation of it. */
  readonly name: string
  readonly scenarios: readonly Scenario<Open>[]
  readonly open: Open
  /** Gets every result. */
  readonly results?: ResultTable | undefined
}

/** Makes one test of each scenario. */
export function registerSuite<Open>(runner: TestRunner, suite: Suite<Open>): void {
  const { name, scenarios, open, results } = suite
  runner.describe(`${suite.suite}: ${name}`, () => {
    for (const scenario of scenarios) {
      runner.it(scenario.name, async () => {
        const { error, ...result } = await runScenario(scenario, open)
        results?.add({ implementation: name, suite: suite.suite, ...result })
        if (result.result === 'failed') throw error
      })
    }
  })
}
