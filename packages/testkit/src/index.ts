// Users' own tests

export type { HandledOnceOptions, TestMessage } from './assertions/assert-handled-once.ts'
export { assertHandledOnce } from './assertions/assert-handled-once.ts'
export type { AssertPublishedOptions } from './assertions/assert-published.ts'
export { assertNothingPublished, assertPublished } from './assertions/assert-published.ts'
export type { ExpectedEvent } from './assertions/expected-event.ts'
export type { EventsIn, PublishedEvent } from './assertions/published-events.ts'
export type { TransactionalDatabase } from './assertions/rolled-back.ts'
export { insideTransaction, rolledBack } from './assertions/rolled-back.ts'
// Suites
export type {
  BrokerClaims,
  BrokerScenario,
  BrokerSourceOptions,
  BrokerSubject,
  BrokerTopic,
  BrokerWorld,
  OpenBrokerWorld,
} from './broker/broker-world.ts'
export { memoryBrokerClaims, openMemoryBrokerWorld } from './broker/memory-broker-world.ts'
export { publisherMutants } from './broker/publisher-mutants.ts'
export { sourceMutants } from './broker/source-mutants.ts'
export { publisherScenarios, testPublisher } from './broker/test-publisher.ts'
export { sourceScenarios, testSource } from './broker/test-source.ts'
export type { Chaos, ChaosCounts, ChaosMiddlewareOptions } from './chaos.ts'
export { createChaos } from './chaos.ts'
// Crash points
export type { CrashPoint } from './crash/crash-points.ts'
export { crashPoints } from './crash/crash-points.ts'
export type { CrashOptions } from './crash/crash-scenarios.ts'
export { crashScenarios } from './crash/crash-scenarios.ts'
export type { CrashObservation, CrashScenario, CrashWorld, OpenCrashWorld, ServiceProgram } from './crash/crash-world.ts'
export type { CrashableProcess, RunningService } from './crash/run-crashable.ts'
export { runCrashable } from './crash/run-crashable.ts'
export type { CrashSubject } from './crash/test-crash-points.ts'
export { testCrashPoints } from './crash/test-crash-points.ts'
export type { CrashTestWorld } from './crash-test/crash-course.ts'
export type { CrashTestLife, CrashTestService } from './crash-test/crash-life.ts'
export type { CrashTestOptions } from './crash-test/crash-test.ts'
export { crashTest } from './crash-test/crash-test.ts'
export type { EventOf } from './crash-test/crash-verdict.ts'
// Helpers for tests
export type { Deferred } from './deferred.ts'
export { deferred } from './deferred.ts'
export type { Fault, JudgePiece } from './faults/fault-link.ts'
export type { FaultProxy, SlowOptions } from './faults/fault-proxy.ts'
export { cutAt, startFaultProxy } from './faults/fault-proxy.ts'
export type { InlineRelay, InlineRelayOptions } from './inline-relay.ts'
export { inlineRelay } from './inline-relay.ts'
export type { MemoryTable } from './memory-changes.ts'
export type { MemoryStoreOptions, MemoryStoreTransaction, MemoryTransactionalOptions } from './memory-store.ts'
export { MemoryStore } from './memory-store.ts'
export { orderMutants } from './order/order-mutants.ts'
export type { OrderedOutboxSubject } from './order/test-ordered-outbox.ts'
export { orderScenarios, testOrderedOutbox } from './order/test-ordered-outbox.ts'
// Worlds in memory, and mutants
export { memoryOutboxFeatures, openMemoryOutboxWorld, openOrderedMemoryOutboxWorld } from './outbox/memory-outbox-world.ts'
export type { ModelOptions } from './outbox/model-scenario.ts'
export { outboxMutants } from './outbox/outbox-mutants.ts'
export type {
  OpenOutboxTransaction,
  OpenOutboxWorld,
  OutboxFeatures,
  OutboxScenario,
  OutboxTransaction,
  OutboxWorld,
  OutboxWorldOptions,
} from './outbox/outbox-world.ts'
export type { OutboxSubject } from './outbox/test-outbox-store.ts'
export { outboxScenarios, testOutboxStore } from './outbox/test-outbox-store.ts'
export type { LogLine, RecordingLogger } from './recording-logger.ts'
export { recordingLogger } from './recording-logger.ts'
export { relayMutants } from './relay/relay-mutants.ts'
export type { CreateRelay, RelayPorts, RelayScenario, RelaySetup, RelayUnderTest } from './relay/relay-world.ts'
export type { RelaySubject } from './relay/test-relay.ts'
export { relayScenarios, testRelay } from './relay/test-relay.ts'
// Running scenarios, and what came of it
export type { ResultRow } from './result-table.ts'
export { formatTable, ResultTable } from './result-table.ts'
export type { Mutant, RunScenarioOptions, Scenario, ScenarioResult } from './scenario.ts'
export { runScenario } from './scenario.ts'
export type { Invariant, Violation } from './simulation/invariants.ts'
// Histories in virtual time
export { invariants } from './simulation/invariants.ts'
export { reportFailure } from './simulation/report-failure.ts'
export type { SearchOptions, SearchResult } from './simulation/search-histories.ts'
export { searchHistories } from './simulation/search-histories.ts'
export type { SimulateOptions, SimulationResult } from './simulation/simulate.ts'
export { simulate } from './simulation/simulate.ts'
export type { SimulationMutant } from './simulation/simulation-mutants.ts'
export { simulationMutants } from './simulation/simulation-mutants.ts'
export type { PlanStep, SimulationPlan, SimulationShape } from './simulation/simulation-plan.ts'
export type { SimulationRules } from './simulation/simulation-rules.ts'
export type { TestRunner } from './test-runner.ts'
export type { TrackedMessage, TrackedMessageOptions, VerdictCall } from './tracked-message.ts'
export { sourceOf, trackedMessage } from './tracked-message.ts'
export { inboxScenarios } from './transaction/inbox-scenarios.ts'
export type { MemoryRules } from './transaction/memory-rules.ts'
export { memoryTransactionFeatures, memoryTransactionWorld } from './transaction/memory-transaction-world.ts'
export type { TransactionSubject } from './transaction/test-transaction.ts'
export { testInbox, testTransaction, transactionScenarios } from './transaction/test-transaction.ts'
export { inboxMutants, transactionMutants } from './transaction/transaction-mutants.ts'
export type { OpenTransactionWorld, TransactionFeatures, TransactionScenario, TransactionWorld } from './transaction/transaction-world.ts'
export type { VirtualRuntimeOptions } from './virtual-runtime.ts'
export { settlePromises, VirtualRuntime } from './virtual-runtime.ts'
