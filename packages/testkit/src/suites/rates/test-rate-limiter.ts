import type { ResultTable } from '../../run/result-table.ts'
import { registerSuite, type SuiteDepth, type TestRunner } from '../../run/scenario.ts'
import { rateScenarios } from './rate-scenarios.ts'
import type { OpenRateWorld } from './rate-world.ts'

export interface RateSubject {
  /** Names the implementation in titles and in the table. */
  readonly name: string
  /** Called once or more for each scenario. */
  readonly open: OpenRateWorld
  /** Default: `whole`. */
  readonly depth?: SuiteDepth | undefined
  readonly results?: ResultTable | undefined
}

/** Registers a test per scenario: the promises of a rate limiter. */
export function testRateLimiter(runner: TestRunner, { name, open, depth, results }: RateSubject): void {
  registerSuite(runner, { suite: 'rate limiter', name, scenarios: rateScenarios, open, depth, results })
}
