import type { ResultTable } from '../../run/result-table.ts'
import { registerSuite, type SuiteDepth, type TestRunner } from '../../run/scenario.ts'
import { answerScenarios } from './answer-scenarios.ts'
import { claimScenarios } from './claim-scenarios.ts'
import { concurrentClaimScenarios, contentionScenarios } from './contention-scenarios.ts'
import { fixtureScenario, type IdempotencyFeatures, type IdempotencyScenario, type OpenIdempotencyWorld } from './idempotency-world.ts'
import { concurrentOwnershipScenarios, ownershipScenarios } from './ownership-scenarios.ts'
import { writeScenarios } from './write-scenarios.ts'

export interface IdempotencySubject {
  /** Names the implementation in titles and in the table. */
  readonly name: string
  /** Called once or more for each scenario. */
  readonly open: OpenIdempotencyWorld
  readonly features: IdempotencyFeatures
  /** Default: `whole`. */
  readonly depth?: SuiteDepth | undefined
  readonly results?: ResultTable | undefined
}

/** All scenarios for stores with these features: the base, and the scenarios that each feature adds. */
export function idempotencyScenarios(features: IdempotencyFeatures): readonly IdempotencyScenario[] {
  return [
    fixtureScenario,
    ...claimScenarios,
    ...answerScenarios,
    ...ownershipScenarios,
    ...writeScenarios,
    ...contentionScenarios,
    ...(features.concurrentWrites ? [...concurrentOwnershipScenarios, ...concurrentClaimScenarios] : []),
  ]
}

/** Registers a test per scenario: the promises of an idempotency store. */
export function testIdempotencyStore(runner: TestRunner, subject: IdempotencySubject): void {
  const { name, open, features, depth, results } = subject
  registerSuite(runner, { suite: 'idempotency store', name, scenarios: idempotencyScenarios(features), open, depth, results })
}
