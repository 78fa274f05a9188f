import type { ResultTable } from '../../run/result-table.ts'
import { registerSuite, type SuiteDepth, type TestRunner } from '../../run/scenario.ts'
import { abortScenarios } from './abort-scenarios.ts'
import { concurrencyScenarios } from './concurrency-scenarios.ts'
import { contentScenarios } from './content-scenarios.ts'
import { deleteScenarios } from './delete-scenarios.ts'
import { keyScenarios } from './key-scenarios.ts'
import { listScenarios, pageScenarios } from './list-scenarios.ts'
import { fixtureScenario, type ObjectFeatures, type ObjectScenario, type OpenObjectWorld } from './object-world.ts'

export interface ObjectSubject {
  /** Names the implementation in titles and in the table. */
  readonly name: string
  /** Called once or more for each scenario. */
  readonly open: OpenObjectWorld
  readonly features: ObjectFeatures
  /** Default: `whole`. */
  readonly depth?: SuiteDepth | undefined
  readonly results?: ResultTable | undefined
}

/** All scenarios for object stores with these features. */
export function objectScenarios(features: ObjectFeatures): readonly ObjectScenario[] {
  return [
    fixtureScenario,
    ...contentScenarios,
    ...keyScenarios,
    ...abortScenarios,
    ...concurrencyScenarios,
    ...deleteScenarios,
    ...listScenarios,
    ...pageScenarios(features),
  ]
}

/** Registers a test per scenario: the promises of an object store for `claimCheck()`. */
export function testObjectStore(runner: TestRunner, subject: ObjectSubject): void {
  const { name, open, features, depth, results } = subject
  registerSuite(runner, { suite: 'object store', name, scenarios: objectScenarios(features), open, depth, results })
}
