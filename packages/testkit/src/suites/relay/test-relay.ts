import type { ResultTable } from '../../run/result-table.ts'
import { registerSuite, type SuiteDepth, type TestRunner } from '../../run/scenario.ts'
import type { OpenOutboxWorld } from '../outbox/outbox-world.ts'
import { deadLetterScenarios } from './dead-letter-scenarios.ts'
import { deliveryScenarios } from './delivery-scenarios.ts'
import { drainScenarios } from './drain-scenarios.ts'
import { failureScenarios } from './failure-scenarios.ts'
import { operatorScenarios } from './operator-scenarios.ts'
import type { CreateRelay, RelayScenario } from './relay-world.ts'
import { selectionScenarios } from './selection-scenarios.ts'
import { shutdownScenarios } from './shutdown-scenarios.ts'
import { stallScenarios } from './stall-scenarios.ts'

export interface RelaySubject {
  /** Names the relay and its store in titles and in the table. */
  readonly name: string
  readonly openStore: OpenOutboxWorld
  /** Creates a relay without starting it: `(store, setup) => new Relay(store, setup)`. */
  readonly createRelay: CreateRelay
  /** Whether the store has notes, with which operators pause destinations and relays are listed. Default: false. */
  readonly insight?: boolean | undefined
  /** Default: `whole`. */
  readonly depth?: SuiteDepth | undefined
  readonly results?: ResultTable | undefined
}

export const relayScenarios: readonly RelayScenario[] = [
  ...deliveryScenarios,
  ...stallScenarios,
  ...shutdownScenarios,
  ...failureScenarios,
  ...deadLetterScenarios,
  ...selectionScenarios,
  ...drainScenarios,
]

/** Registers a test per scenario: the promises of a relay on this store to the transactions that committed the events. */
export function testRelay(runner: TestRunner, subject: RelaySubject): void {
  const { name, openStore, createRelay, insight = false, depth, results } = subject
  const scenarios = insight ? [...relayScenarios, ...operatorScenarios] : relayScenarios
  registerSuite(runner, { suite: 'relay', name, scenarios, open: { openStore, createRelay }, depth, results })
}
