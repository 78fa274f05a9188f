import type { ResultTable } from '../../run/result-table.ts'
import { registerSuite, type TestRunner } from '../../run/scenario.ts'
import type { OpenCrashWorld } from '../crash-points.ts'
import { type CrashOptions, crashScenarios } from './crash-scenarios.ts'

export interface CrashSubject extends CrashOptions {
  /** Names the store and the broker in titles and in the table. */
  readonly name: string
  /** Called once for each scenario. */
  readonly open: OpenCrashWorld
  readonly results?: ResultTable | undefined
}

/**
 * Registers a test per scenario: a real service is killed with SIGKILL between receive and ack, and between claim and settle, and started
 * again. In the end every command is applied once, its event has reached the broker, and nothing is left unprocessed.
 */
export function testCrashPoints(runner: TestRunner, subject: CrashSubject): void {
  const { name, open, results, ...options } = subject
  registerSuite(runner, { suite: 'crash points', name, scenarios: crashScenarios(options), open, results })
}
