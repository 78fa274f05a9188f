import type { ResultTable } from '../result-table.ts'
import { registerSuite, type TestRunner } from '../test-runner.ts'
import { callbackScenarios, savepointScenarios } from './callback-scenarios.ts'
import { commitScenarios, failCommitScenarios } from './commit-scenarios.ts'
import { fixtureScenario } from './fixture-scenario.ts'
import { inboxScenarios } from './inbox-scenarios.ts'
import { rollbackScenarios } from './rollback-scenarios.ts'
import type { OpenTransactionWorld, TransactionFeatures, TransactionScenario } from './transaction-world.ts'

export interface TransactionSubject {
  /** Names the implementation in titles and in the table. */
  readonly name: string
  /** Called once for each scenario. */
  readonly open: OpenTransactionWorld
  readonly features: TransactionFeatures
  readonly results?: ResultTable | undefined
}

/** All scenarios for transactions with these features: the base, and what each claim adds. */
export function transactionScenarios(features: TransactionFeatures): readonly TransactionScenario[] {
  return [
    fixtureScenario(features),
    ...commitScenarios,
    ...(features.failCommit ? failCommitScenarios : []),
    ...rollbackScenarios,
    ...callbackScenarios,
    ...(features.savepoints ? savepointScenarios : []),
  ]
}

/** Registers a test per scenario: what every transaction middleware promises to handlers. */
export function testTransaction(runner: TestRunner, subject: TransactionSubject): void {
  const { name, open, features, results } = subject
  registerSuite(runner, { suite: 'transaction', name, scenarios: transactionScenarios(features), open, results })
}

/** Registers a test per scenario: what every inbox, with the transaction and outbox it belongs to, promises. */
export function testInbox(runner: TestRunner, subject: Omit<TransactionSubject, 'features'>): void {
  const { name, open, results } = subject
  registerSuite(runner, { suite: 'inbox', name, scenarios: inboxScenarios, open, results })
}
