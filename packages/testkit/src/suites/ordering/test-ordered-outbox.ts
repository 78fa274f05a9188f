import { Relay } from '@ackord/outbox'
import type { ResultTable } from '../../run/result-table.ts'
import { registerSuite, type SuiteDepth, type TestRunner } from '../../run/scenario.ts'
import type { OpenOutboxWorld } from '../outbox/outbox-world.ts'
import type { CreateRelay, RelayScenario } from '../relay/relay-world.ts'
import { commitScenarios } from './commit-scenarios.ts'
import { memberScenarios } from './member-scenarios.ts'
import { parkedScenarios } from './parked-scenarios.ts'
import { partitionScenarios } from './partition-scenarios.ts'
import { relayOrderScenarios } from './relay-order-scenarios.ts'
import { runScenarios } from './run-scenarios.ts'

export interface OrderedOutboxSubject {
  /** Names the store in titles and in the table. */
  readonly name: string
  /** Opens worlds whose store has `order: 'perKey'`. */
  readonly open: OpenOutboxWorld
  /** Creates a relay without starting it. Default: `Relay` of `@ackord/outbox`. */
  readonly createRelay?: CreateRelay | undefined
  /** Whether each store object knows which partitions it owns. Default: true. */
  readonly partitions?: boolean | undefined
  /** Default: `whole`. */
  readonly depth?: SuiteDepth | undefined
  readonly results?: ResultTable | undefined
}

export const orderScenarios: readonly RelayScenario[] = [
  ...runScenarios,
  ...memberScenarios,
  ...partitionScenarios,
  ...commitScenarios,
  ...parkedScenarios,
  ...relayOrderScenarios,
]

/** Registers a test per scenario: the promises of a store with order per key, alone and with relays that start and stop. */
export function testOrderedOutbox(runner: TestRunner, subject: OrderedOutboxSubject): void {
  const { name, open, createRelay = (store, setup) => new Relay(store, setup), partitions = true, depth, results } = subject
  const scenarios = partitions ? orderScenarios : orderScenarios.filter((scenario) => !partitionScenarios.includes(scenario))
  registerSuite(runner, { suite: 'order per key', name, scenarios, open: { openStore: open, createRelay }, depth, results })
}
