// Helpers for the tests of services. Conformance suites for authors of stores and brokers: `@ackord/testkit/suites`.

// Faults and crashes
export type { CrashTestLife, CrashTestService } from './crash/in-process/crash-life.ts'
export type { CrashTestOptions, CrashTestWorld } from './crash/in-process/crash-test.ts'
export { crashTest } from './crash/in-process/crash-test.ts'
export type { EventOf } from './crash/in-process/crash-verdict.ts'

// Assertions
export type { HandledOnceOptions, TestMessage } from './helpers/assert-handled-once.ts'
export { assertHandledOnce } from './helpers/assert-handled-once.ts'
export type { AssertPublishedOptions, EventsIn, ExpectedEvent, PublishedEvent } from './helpers/assertions.ts'
export { assertNothingPublished, assertPublished } from './helpers/assertions.ts'
export type { Chaos, ChaosCounts, ChaosMiddlewareOptions } from './helpers/chaos.ts'
export { createChaos } from './helpers/chaos.ts'
export type { Fault, FaultProxy, JudgePiece, SlowOptions } from './helpers/fault-proxy.ts'
export { cutAt, startFaultProxy } from './helpers/fault-proxy.ts'
// Stores and relays in memory
export type { InlineRelay, InlineRelayOptions } from './helpers/inline-relay.ts'
export { inlineRelay } from './helpers/inline-relay.ts'
export type { MemoryObjectsOptions } from './helpers/memory-objects.ts'
export { memoryObjects } from './helpers/memory-objects.ts'
export type { MemoryProcesses, MemoryProcessesOptions } from './helpers/memory-processes.ts'
export { memoryProcesses } from './helpers/memory-processes.ts'
export type { MemoryStoreOptions, MemoryStoreTransaction, MemoryTable, MemoryTransactionalOptions } from './helpers/memory-store.ts'
export { MemoryStore } from './helpers/memory-store.ts'
// Transactions that are rolled back
export type { TransactionalDatabase } from './helpers/rolled-back.ts'
export { insideTransaction, rolledBack } from './helpers/rolled-back.ts'
// Messages, time and logs
export type { Deferred, LogLine, RecordingLogger, TrackedMessage, TrackedMessageOptions, VerdictCall } from './helpers/tracked-message.ts'
export { deferred, recordingLogger, sourceOf, trackedMessage } from './helpers/tracked-message.ts'
export type { VirtualRuntimeOptions } from './helpers/virtual-runtime.ts'
export { settlePromises, VirtualRuntime } from './helpers/virtual-runtime.ts'
export type { ResultRow, ResultTable } from './run/result-table.ts'
