export type { OutboxTotals } from './delivery/relay-observer.ts'
export type { MemoryIdempotencyStoreOptions } from './memory/memory-idempotency-store.ts'
export { MemoryIdempotencyStore } from './memory/memory-idempotency-store.ts'
export type { MemoryOutboxStoreOptions } from './memory/memory-outbox-store.ts'
export { MemoryOutboxStore } from './memory/memory-outbox-store.ts'
export { MemoryTransaction } from './memory/memory-transaction.ts'
export type {
  HandleRecorded,
  Inbox,
  InboxFinding,
  InboxKey,
  InboxMiddlewareParts,
  InboxOptions,
  InboxStore,
  KeyProblem,
} from './middleware/inbox-middleware.ts'
export { createInboxMiddleware, openInbox, outputsWithoutOutbox } from './middleware/inbox-middleware.ts'
export type { OutboxOptions, OutboxTransactions } from './middleware/outbox-middleware.ts'
export { createOutboxMiddleware } from './middleware/outbox-middleware.ts'
export type { OnExhausted } from './options/key-order.ts'
export type { MetricDescription } from './options/outbox-metrics.ts'
export { outboxMetrics } from './options/outbox-metrics.ts'
export type { MappedRecord, MapRecord, ParkReason, RelayEvent, RelayRecord } from './options/relay-events.ts'
export type {
  ClaimingOptions,
  DiscoveredStore,
  PublisherMap,
  RelayCleanupOptions,
  RelayDiscoveryOptions,
  RelayGroupOptions,
  RelayOptions,
} from './options/relay-options.ts'
export { relayDefaults } from './options/relay-options.ts'
export type { ProcessDefinition, ProcessOptions } from './process/define-process.ts'
export { defineProcess, when } from './process/define-process.ts'
export { checkProcessKey, checkProcessQuery, processConflict } from './process/process-checks.ts'
export type { Correlate, IgnoredEvent, ProcessReaction, ProcessStepFunction } from './process/process-rules.ts'
export type { ProcessSendOptions, ProcessStep, ProcessTimeout } from './process/process-step.ts'
export type {
  ProcessAdmin,
  ProcessChange,
  ProcessKey,
  ProcessPage,
  ProcessPhase,
  ProcessQuery,
  ProcessRecord,
  ProcessStore,
  StoredProcess,
} from './process/process-store.ts'
export type { RelayBacklog } from './relay/backlog-watch.ts'
export type { DrainedBacklog, DrainOptions, DrainReason, DrainResult } from './relay/drain.ts'
export type { RelayHealth } from './relay/relay.ts'
export { Relay } from './relay/relay.ts'
export type { RelayGroupHealth } from './relay/relay-group.ts'
export { RelayGroup } from './relay/relay-group.ts'
export type { ReplayFilter, ReplayProgress, ReplayPublishedOptions, ReplayResult } from './replay/replay-options.ts'
export { ReplayFailedError, replayPublished } from './replay/replay-published.ts'
export type { OutboxDelivery, OutboxSource, OutboxSourceOptions } from './source/outbox-source.ts'
export { outboxSource } from './source/outbox-source.ts'
export type { FilteredRecord } from './store/administration.ts'
export { editMessage, isEmptyEdit, matchesFilter, OperatorLog, StatsSum } from './store/administration.ts'
export { addToHistory, historyLine, maxHistoryLength, readHistory } from './store/failure-text.ts'
export { checkClaimOptions, checkIdempotencyKey, checkStoredAnswer, claimLost, writeInsideTransaction } from './store/idempotency-checks.ts'
export type {
  IdempotencyClaim,
  IdempotencyClaimOptions,
  IdempotencyKey,
  IdempotencyStore,
  IdempotentWriteOptions,
  StoredAnswer,
} from './store/idempotency-store.ts'
export type { InboxAdmin, InboxEntry, InboxQuery } from './store/inbox-admin.ts'
export type { EventCompleter, NewEventOptions, NewEvents, NewOutboxRecord, OutboxEvent, RecordEncoder } from './store/new-events.ts'
export { eventCompleter, recordEncoder } from './store/new-events.ts'
export type { BaseAdministration, CompleteAdministration } from './store/note-administration.ts'
export { completeAdministration } from './store/note-administration.ts'
export type { Note, NoteKind, NoteQuery, OutboxNotes } from './store/notes.ts'
export type {
  AuditEntry,
  AuditedSteps,
  ChosenRecords,
  DestinationPause,
  DestinationStats,
  Operator,
  OutboxActivity,
  OutboxAdmin,
  OutboxEdit,
  OutboxFilter,
  OutboxGroup,
  OutboxGroups,
  OutboxListOptions,
  OutboxPage,
  OutboxRate,
  OutboxRecord,
  OutboxState,
  OutboxStats,
  PauseOptions,
  RearmOptions,
  RecordFailure,
  RelayReport,
} from './store/outbox-admin.ts'
export type {
  Claim,
  ClaimedRecord,
  ClaimOptions,
  EventReference,
  EventReferences,
  OutboxCapabilities,
  OutboxReader,
  OutboxReference,
  OutboxStore,
  OutboxWriter,
  Outcome,
  RecordTaker,
} from './store/outbox-store.ts'
export type { RecordPartition } from './store/partition-ranges.ts'
export { findPartition } from './store/partition-ranges.ts'
export { attributesToJson, checkRearm, checkRecordSize, completeReferences, defaultMaxSize, invalidCursor } from './store/record-checks.ts'
