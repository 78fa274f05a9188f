import type { ResultTable } from '../../run/result-table.ts'
import { registerSuite, type SuiteDepth, type TestRunner } from '../../run/scenario.ts'
import { appendScenarios, cancelScenarios, delayScenarios, fixtureScenario, savepointScenarios } from './append-scenarios.ts'
import { cancelWaitingScenarios } from './cancel-waiting-scenarios.ts'
import { claimScenarios } from './claim-scenarios.ts'
import { codecScenarios } from './codec-scenarios.ts'
import { contentScenarios } from './content-scenarios.ts'
import { insightScenarios } from './insight-scenarios.ts'
import { leaseScenarios } from './lease-scenarios.ts'
import { listingScenarios } from './listing-scenarios.ts'
import { type ModelOptions, modelScenario } from './model-scenario.ts'
import { operatorScenarios, retainScenarios } from './operator-scenarios.ts'
import type { OpenOutboxWorld, OutboxFeatures, OutboxScenario } from './outbox-world.ts'
import { settleScenarios } from './settle-scenarios.ts'

export interface OutboxSubject {
  /** Names the implementation in titles and in the table. */
  readonly name: string
  /** Called for each scenario, some of them more than once. */
  readonly open: OpenOutboxWorld
  readonly features: OutboxFeatures
  /** Options of the scenario with random histories. */
  readonly model?: ModelOptions | undefined
  /** Default: `whole`. */
  readonly depth?: SuiteDepth | undefined
  readonly results?: ResultTable | undefined
}

/** All scenarios for a store with these features: the base, and the scenarios that each feature adds. */
export function outboxScenarios(features: OutboxFeatures, model: ModelOptions = {}): readonly OutboxScenario[] {
  return [
    fixtureScenario(features),
    ...appendScenarios,
    ...(features.savepoints ? savepointScenarios : []),
    ...(features.delay ? [...delayScenarios, ...cancelScenarios] : []),
    ...(features.codecs === true ? codecScenarios : []),
    ...claimScenarios,
    ...leaseScenarios,
    ...settleScenarios,
    ...contentScenarios,
    ...operatorScenarios,
    ...listingScenarios,
    ...(features.retain ? retainScenarios : []),
    ...(features.insight === true ? insightScenarios : []),
    ...(features.insight === true && features.delay ? cancelWaitingScenarios : []),
    modelScenario(model),
  ]
}

/** Registers a test per scenario: the promises of an outbox store to relays and operators. */
export function testOutboxStore(runner: TestRunner, subject: OutboxSubject): void {
  const { name, open, features, model, depth, results } = subject
  registerSuite(runner, { suite: 'outbox store', name, scenarios: outboxScenarios(features, model), open, depth, results })
}
