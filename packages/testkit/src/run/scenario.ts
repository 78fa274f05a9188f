import { systemRuntime } from '@ackord/core'
import type { ResultTable } from './result-table.ts'

/** One promise of a contract, as a test that any implementation can run. */
export interface Scenario<Open> {
  /** A sentence about behaviour, unique in its suite. */
  readonly name: string
  /** Whether it belongs to the `basic` depth of its suite, which shows that each operation works. Default: false. */
  readonly basic?: boolean | undefined
  /** Whether another scenario of the suite does the same with other random numbers, or with another number of participants. Default: false. */
  readonly repeats?: boolean | undefined
  /** Rejects if the implementation breaks the promise. Resolves to an optional note for the table, such as the number of duplicates. */
  readonly run: (open: Open) => Promise<string | void>
}

export interface ScenarioResult {
  readonly scenario: string
  readonly result: 'passed' | 'failed'
  readonly note: string | undefined
  /** The error of a failed scenario. */
  readonly error: unknown
}

export interface RunScenarioOptions {
  /** Milliseconds after which a scenario that has not ended counts as failed. Default: 60,000. */
  readonly timeout?: number | undefined
}

/** Runs one scenario without a test runner. Never rejects. */
export async function runScenario<Open>(scenario: Scenario<Open>, open: Open, options: RunScenarioOptions = {}): Promise<ScenarioResult> {
  const { timeout = 60_000 } = options
  try {
    const note = await within(timeout, scenario.run(open), `'${scenario.name}'`)
    return { scenario: scenario.name, result: 'passed', note: note ?? undefined, error: undefined }
  } catch (error) {
    return { scenario: scenario.name, result: 'failed', note: undefined, error }
  }
}

/** Settles as the promise does, or rejects if that takes longer. For work that should end by itself: nothing waits for the limit to pass. */
export async function within<T>(limit: number, work: Promise<T>, what: string): Promise<T> {
  let cancel = () => {}
  const late = new Promise<never>((_, reject) => {
    const timer = systemRuntime.setTimeout(() => reject(new Error(`${what} did not end within ${limit} ms.`)), limit)
    cancel = () => timer.cancel()
  })
  try {
    return await Promise.race([work, late])
  } finally {
    cancel()
  }
}

/** The functions of a test runner that the suites need; vitest, node:test and jest have them. */
export interface TestRunner {
  readonly describe: (name: string, body: () => void) => unknown
  readonly it: (name: string, body: () => Promise<void>) => unknown
}

/**
 * - `whole`: every scenario.
 * - `once`: every scenario that does not repeat another one with other random numbers.
 * - `basic`: scenarios that show that each operation works, for a client of a store whose other scenarios run with another client.
 */
export type SuiteDepth = 'whole' | 'once' | 'basic'

export interface Suite<Open> {
  /** The name of the suite, such as 'outbox store'. */
  readonly suite: string
  /** The name of the implementation. */
  readonly name: string
  readonly scenarios: readonly Scenario<Open>[]
  readonly open: Open
  /** Default: `whole`. */
  readonly depth?: SuiteDepth | undefined
  /** Receives every result. */
  readonly results?: ResultTable | undefined
}

/** Registers one test per scenario. */
export function registerSuite<Open>(runner: TestRunner, suite: Suite<Open>): void {
  const { name, scenarios, open, depth = 'whole', results } = suite
  const chosen = scenarios.filter(({ basic, repeats }) => depth === 'whole' || (depth === 'once' ? repeats !== true : basic === true))
  runner.describe(`${suite.suite}: ${name}`, () => {
    for (const scenario of chosen) {
      runner.it(scenario.name, async () => {
        const { error, ...result } = await runScenario(scenario, open)
        results?.add({ implementation: name, suite: suite.suite, ...result })
        if (result.result === 'failed') throw error
      })
    }
  })
}
