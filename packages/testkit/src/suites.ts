// Conformance suites for authors of stores, relays and brokers.

// Crashes of whole services
export type { CrashObservation, CrashPoint, CrashScenario, CrashWorld, OpenCrashWorld, ServiceProgram } from './crash/crash-points.ts'
export { crashPoints, idempotencyCrashPoints, processCrashPoints, rateCrashPoints } from './crash/crash-points.ts'
export type { CrashOptions } from './crash/process/crash-scenarios.ts'
export { crashScenarios } from './crash/process/crash-scenarios.ts'
export type { CrashableProcess, RunningService } from './crash/process/service-process.ts'
export { runCrashable } from './crash/process/service-process.ts'
export type { CrashSubject } from './crash/process/test-crash-points.ts'
export { testCrashPoints } from './crash/process/test-crash-points.ts'
// Running scenarios, and their results
export type { ResultRow } from './run/result-table.ts'
export { formatTable, ResultTable } from './run/result-table.ts'
export type { RunScenarioOptions, Scenario, ScenarioResult, SuiteDepth, TestRunner } from './run/scenario.ts'
export { runScenario } from './run/scenario.ts'
// Brokers
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
export { codecScenarios } from './suites/codecs/codec-scenarios.ts'
// Payload codecs and key rings
export type { CodecFeatures, CodecScenario, CodecWorld, OpenCodecWorld } from './suites/codecs/codec-world.ts'
export { encryptedFeatures, openEncryptedWorld } from './suites/codecs/codec-world.ts'
export type { CodecSubject } from './suites/codecs/test-payload-codec.ts'
export { testPayloadCodec } from './suites/codecs/test-payload-codec.ts'
// Idempotency stores
export type {
  IdempotencyFeatures,
  IdempotencyProcess,
  IdempotencyScenario,
  IdempotencyWorld,
  IdempotentWork,
  OpenIdempotencyWorld,
} from './suites/idempotency/idempotency-world.ts'
export { memoryIdempotencyFeatures, openMemoryIdempotencyWorld } from './suites/idempotency/idempotency-world.ts'
export type { IdempotencySubject } from './suites/idempotency/test-idempotency-store.ts'
export { idempotencyScenarios, testIdempotencyStore } from './suites/idempotency/test-idempotency-store.ts'
export { keyRingScenarios } from './suites/keys/key-ring-scenarios.ts'
export type { KeyRingFeatures, KeyRingScenario, KeyRingWorld, OpenKeyRingWorld } from './suites/keys/key-ring-world.ts'
export { memoryKeyRingFeatures, openMemoryKeyRingWorld } from './suites/keys/key-ring-world.ts'
export type { KeyRingSubject } from './suites/keys/test-key-ring.ts'
export { testKeyRing } from './suites/keys/test-key-ring.ts'
// Object stores
export type { ObjectFeatures, ObjectScenario, ObjectWorld, OpenObjectWorld } from './suites/objects/object-world.ts'
export { memoryObjectFeatures, openMemoryObjectWorld } from './suites/objects/object-world.ts'
export type { ObjectSubject } from './suites/objects/test-object-store.ts'
export { objectScenarios, testObjectStore } from './suites/objects/test-object-store.ts'
// Order per key
export type { OrderedOutboxSubject } from './suites/ordering/test-ordered-outbox.ts'
export { orderScenarios, testOrderedOutbox } from './suites/ordering/test-ordered-outbox.ts'
// Outbox stores
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
export { memoryOutboxFeatures, openMemoryOutboxWorld, openOrderedMemoryOutboxWorld } from './suites/outbox/outbox-world.ts'
export type { OutboxSubject } from './suites/outbox/test-outbox-store.ts'
export { outboxScenarios, testOutboxStore } from './suites/outbox/test-outbox-store.ts'
// Processes
export type { OpenProcessWorld, ProcessPeer, ProcessScenario, ProcessWorld } from './suites/process/process-world.ts'
export { openMemoryProcessWorld } from './suites/process/process-world.ts'
export type { ProcessSubject } from './suites/process/test-process-store.ts'
export { processScenarios, testProcessStore } from './suites/process/test-process-store.ts'
// Rate limiters
export { rateScenarios } from './suites/rates/rate-scenarios.ts'
export type { OpenRateWorld, RateScenario, RateWorld } from './suites/rates/rate-world.ts'
export { openMemoryRateWorld } from './suites/rates/rate-world.ts'
export type { RateSubject } from './suites/rates/test-rate-limiter.ts'
export { testRateLimiter } from './suites/rates/test-rate-limiter.ts'
// Relays
export type { CreateRelay, RelayPorts, RelayScenario, RelaySetup, RelayUnderTest } from './suites/relay/relay-world.ts'
export type { RelaySubject } from './suites/relay/test-relay.ts'
export { relayScenarios, testRelay } from './suites/relay/test-relay.ts'
// Transactions and inboxes
export { inboxAdminScenarios } from './suites/transaction/inbox-admin-scenarios.ts'
export { inboxScenarios } from './suites/transaction/inbox-scenarios.ts'
export type { InboxAdminSubject, InboxSubject, TransactionSubject } from './suites/transaction/test-transaction.ts'
export { testInbox, testInboxAdmin, testTransaction, transactionScenarios } from './suites/transaction/test-transaction.ts'
export type {
  OpenTransactionWorld,
  TransactionFeatures,
  TransactionScenario,
  TransactionWorld,
} from './suites/transaction/transaction-world.ts'
