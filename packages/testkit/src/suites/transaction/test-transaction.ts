import type { ResultTable } from '../../run/result-table.ts'
import { registerSuite, type TestRunner } from '../../run/scenario.ts'
import { callbackScenarios, savepointScenarios } from './callback-scenarios.ts'
import { commitScenarios, failCommitScenarios } from './commit-scenarios.ts'
import { inboxAdminScenarios } from './inbox-admin-scenarios.ts'
import { type Duplicates, inboxScenariosFor } from './inbox-scenarios.ts'
import { commitByHandScenarios, rollbackScenarios } from './rollback-scenarios.ts'
import { fixtureScenario, type OpenTransactionWorld, type TransactionFeatures, type TransactionScenario } from './transaction-world.ts'

export interface TransactionSubject {
  /** Names the implementation in titles and in the table. */
  readonly name: string
  /** Called once for each scenario. */
  readonly open: OpenTransactionWorld
  readonly features: TransactionFeatures
  readonly results?: ResultTable | undefined
}

export interface InboxSubject extends Omit<TransactionSubject, 'features'> {
  /** `handled`: a duplicate that arrives while the first delivery is in progress is handled too, and only one of them takes effect. Default: `wait`. */
  readonly duplicates?: Duplicates | undefined
}

export interface InboxAdminSubject extends Omit<TransactionSubject, 'features'> {
  /** Whether the inbox finds a message without its consumer and source. */
  readonly searches: boolean
}

/** All scenarios for transactions with these features: the base, and the scenarios that each feature adds. */
export function transactionScenarios(features: TransactionFeatures): readonly TransactionScenario[] {
  return [
    fixtureScenario(features),
    ...commitScenarios,
    ...(features.failCommit ? failCommitScenarios : []),
    ...rollbackScenarios,
    ...(features.commitByHand === true ? commitByHandScenarios : []),
    ...callbackScenarios,
    ...(features.savepoints ? savepointScenarios : []),
  ]
}

/** Registers a test per scenario: the promises of a transaction middleware to handlers. */
export function testTransaction(runner: TestRunner, subject: TransactionSubject): void {
  const { name, open, features, results } = subject
  registerSuite(runner, { suite: 'transaction', name, scenarios: transactionScenarios(features), open, results })
}

/** Registers a test per scenario: the promises of an inbox, with its transaction and outbox. */
export function testInbox(runner: TestRunner, subject: InboxSubject): void {
  const { name, open, duplicates = 'wait', results } = subject
  registerSuite(runner, { suite: 'inbox', name, scenarios: inboxScenariosFor(duplicates), open, results })
}

/** Registers a test per scenario: the promises of an inbox to operators. */
export function testInboxAdmin(runner: TestRunner, subject: InboxAdminSubject): void {
  const { name, open, searches, results } = subject
  registerSuite(runner, { suite: 'inbox administration', name, scenarios: inboxAdminScenarios({ searches }), open, results })
}
