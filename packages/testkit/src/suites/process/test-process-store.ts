import type { ResultTable } from '../../run/result-table.ts'
import { registerSuite, type SuiteDepth, type TestRunner } from '../../run/scenario.ts'
import { adminScenarios } from './admin-scenarios.ts'
import { contentionScenarios } from './contention-scenarios.ts'
import { eventScenarios } from './event-scenarios.ts'
import type { OpenProcessWorld, ProcessScenario } from './process-world.ts'
import { timeoutScenarios } from './timeout-scenarios.ts'

export interface ProcessSubject {
  /** Names the implementation in titles and in the table. */
  readonly name: string
  /** Called once for each scenario. */
  readonly open: OpenProcessWorld
  /** Default: `whole`. */
  readonly depth?: SuiteDepth | undefined
  readonly results?: ResultTable | undefined
}

/** All scenarios of a store for processes. */
export const processScenarios: readonly ProcessScenario[] = [
  ...eventScenarios,
  ...contentionScenarios,
  ...timeoutScenarios,
  ...adminScenarios,
]

/** Registers a test per scenario: the promises of a store for processes. */
export function testProcessStore(runner: TestRunner, subject: ProcessSubject): void {
  const { name, open, depth, results } = subject
  registerSuite(runner, { suite: 'process store', name, scenarios: processScenarios, open, depth, results })
}
