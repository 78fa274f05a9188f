import type { ResultTable } from '../../run/result-table.ts'
import { registerSuite, type SuiteDepth, type TestRunner } from '../../run/scenario.ts'
import { keyRingScenarios } from './key-ring-scenarios.ts'
import type { KeyRingFeatures, OpenKeyRingWorld } from './key-ring-world.ts'

export interface KeyRingSubject {
  /** Names the implementation in titles and in the table. */
  readonly name: string
  /** Called once or more for each scenario. */
  readonly open: OpenKeyRingWorld
  readonly features: KeyRingFeatures
  /** Default: `whole`. */
  readonly depth?: SuiteDepth | undefined
  readonly results?: ResultTable | undefined
}

/** Registers a test per scenario: the promises of a key ring for `encrypted()`. */
export function testKeyRing(runner: TestRunner, subject: KeyRingSubject): void {
  const { name, open, features, depth, results } = subject
  registerSuite(runner, { suite: 'key ring', name, scenarios: keyRingScenarios(features), open, depth, results })
}
