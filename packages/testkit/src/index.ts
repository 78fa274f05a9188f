// Users' own tests

// Crash points
export type { CrashObservation, CrashPoint, CrashScenario, CrashWorld, OpenCrashWorld, ServiceProgram } from './crash/crash-points.ts'
export { crashPoints } from './crash/crash-points.ts'
export type { CrashTestLife, CrashTestService } from './crash/in-process/crash-life.ts'
export type { CrashTestOptions, CrashTestWorld } from './crash/in-process/crash-test.ts'
export { crashTest } from './crash/in-process/crash-test.ts'
export type { EventOf } from './crash/in-process/crash-verdict.ts'
export type { CrashOptions } from './crash/process/crash-scenarios.ts'
export { crashScenarios } from './crash/process/crash-scenarios.ts'
export type { CrashableProcess, RunningService } from './crash/process/service-process.ts'
export { runCrashable } from './crash/process/service-process.ts'
export type { CrashSubject } from './crash/process/test-crash-points.ts'
export { testCrashPoints } from './crash/process/test-crash-points.ts'
export type { HandledOnceOptions, TestMessage } from './helpers/assert-handled-once.ts'
export { assertHandledOnce } from './helpers/assert-handled-once.ts'
export type { AssertPublishedOptions, EventsIn, ExpectedEvent, PublishedEvent } from './helpers/assertions.ts'
export { assertNothingPublished, assertPublished } from './helpers/assertions.ts'
export type { Chaos, ChaosCounts, ChaosMiddlewareOptions } from './helpers/chaos.ts'
export { createChaos } from './helpers/chaos.ts'
export type { Fault, FaultProxy, JudgePiece, SlowOptions } from './helpers/fault-proxy.ts'
export { cutAt, startFaultProxy } from './helpers/fault-proxy.ts'
export type { InlineRelay, InlineRelayOptions } from './helpers/inline-relay.ts'
export { inlineRelay } from './helpers/inline-relay.ts'
export type { MemoryStoreOptions, MemoryStoreTransaction, MemoryTable, MemoryTransactionalOptions } from './helpers/memory-store.ts'
export { MemoryStore } from './helpers/memory-store.ts'
export type { TransactionalDatabase } from './helpers/rolled-back.ts'
export { insideTransaction, rolledBack } from './helpers/rolled-back.ts'
// Helpers for tests
export type { Deferred, LogLine, RecordingLogger, TrackedMessage, TrackedMessageOptions, VerdictCall } from './helpers/tracked-message.ts'
export { deferred, recordingLogger, sourceOf, trackedMessage } from './helpers/tracked-message.ts'
export type { VirtualRuntimeOptions } from './helpers/virtual-runtime.ts'
export { settlePromises, VirtualRuntime } from './helpers/virtual-runtime.ts'
// Running scenarios, and what came of it
export type { ResultRow } from './run/result-table.ts'
export { formatTable, ResultTable } from './run/result-table.ts'
export type { RunScenarioOptions, Scenario, ScenarioResult, SuiteDepth, TestRunner } from './run/scenario.ts'
export { runScenario } from './run/scenario.ts'
// Suites
export type {
  BrokerClaims,
  BrokerScenario,
  BrokerSourceOptions,
  BrokerSubject,
  BrokerTopic,
  BrokerWorld,
  OpenBrokerWorld,
} from './suites/broker/broker-world.ts'
export { memoryBrokerClaims, openMemoryBrokerWorld } from './suites/broker/broker-world.ts'
export { publisherScenarios, sourceScenarios, testPublisher, testSource } from './suites/broker/test-broker.ts'
export type { OrderedOutboxSubject } from './suites/ordering/test-ordered-outbox.ts'
export { orderScenarios, testOrderedOutbox } from './suites/ordering/test-ordered-outbox.ts'
export type { ModelOptions } from './suites/outbox/model-scenario.ts'
export type {
  OpenOutboxTransaction,
  OpenOutboxWorld,
  OutboxFeatures,
  OutboxScenario,
  OutboxTransaction,
  OutboxWorld,
  OutboxWorldOptions,
} from './suites/outbox/outbox-world.ts'
// Worlds in memory
export { memoryOutboxFeatures, openMemoryOutboxWorld, openOrderedMemoryOutboxWorld } from './suites/outbox/outbox-world.ts'
export type { OutboxSubject } from './suites/outbox/test-outbox-store.ts'
export { outboxScenarios, testOutboxStore } from './suites/outbox/test-outbox-store.ts'
export type { CreateRelay, RelayPorts, RelayScenario, RelaySetup, RelayUnderTest } from './suites/relay/relay-world.ts'
export type { RelaySubject } from './suites/relay/test-relay.ts'
export { relayScenarios, testRelay } from './suites/relay/test-relay.ts'
export { inboxScenarios } from './suites/transaction/inbox-scenarios.ts'
export type { TransactionSubject } from './suites/transaction/test-transaction.ts'
export { testInbox, testTransaction, transactionScenarios } from './suites/transaction/test-transaction.ts'
export type {
  OpenTransactionWorld,
  TransactionFeatures,
  TransactionScenario,
  TransactionWorld,
} from './suites/transaction/transaction-world.ts'
