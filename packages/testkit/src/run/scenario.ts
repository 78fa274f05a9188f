import { systemRuntime } from '@ackord/core'
import type { ResultTable } from './result-table.ts'

/** One promise of a seam, as a test that any implementation of it can run. */
export interface Scenario<Open> {
  /** A sentence about behaviour, unique in its suite. */
  readonly name: string
  /** Whether it belongs to the short form of its suite, which shows that each operation works. Default: false. */
  readonly basic?: boolean | undefined
  /** Rejects if the implementation breaks the promise. What it resolves to is a note for the table, such as how many duplicates there were. */
  readonly run: (open: Open) => Promise<string | void>
}

export interface ScenarioResult {
  readonly scenario: string
  readonly result: 'passed' | 'failed'
  readonly note: string | undefined
  /** What it failed with. */
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

/** The promise's own end, or an error if that takes longer. For what should end by itself: nothing waits for the time to pass. */
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

/** What the kit needs of a test runner; vitest, node:test and jest have it. */
export interface TestRunner {
  readonly describe: (name: string, body: () => void) => unknown
  readonly it: (name: string, body: () => Promise<void>) => unknown
}

/** `whole`: every scenario. `basic`: those that show that each operation works, for a client of a store that another client has taken through all of them. */
export type SuiteDepth = 'whole' | 'basic'

export interface Suite<Open> {
  /** What is tested, such as 'outbox store'. */
  readonly suite: string
  /** Which implementation of it. */
  readonly name: string
  readonly scenarios: readonly Scenario<Open>[]
  readonly open: Open
  /** Default: `whole`. */
  readonly depth?: SuiteDepth | undefined
  /** Gets every result. */
  readonly results?: ResultTable | undefined
}

/** Makes one test of each scenario. */
export function registerSuite<Open>(runner: TestRunner, suite: Suite<Open>): void {
  const { name, scenarios, open, depth = 'whole', results } = suite
  const chosen = depth === 'whole' ? scenarios : scenarios.filter(({ basic }) => basic === true)
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
