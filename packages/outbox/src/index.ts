export type { OutboxTotals } from './delivery/relay-observer.ts'
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
export type { ClaimingOptions, PublisherMap, RelayCleanupOptions, RelayOptions } from './options/relay-options.ts'
export { relayDefaults } from './options/relay-options.ts'
export type { RelayBacklog } from './relay/backlog-watch.ts'
export type { RelayHealth } from './relay/relay.ts'
export { Relay } from './relay/relay.ts'
export type { OutboxDelivery, OutboxSource, OutboxSourceOptions } from './source/outbox-source.ts'
export { outboxSource } from './source/outbox-source.ts'
export { editMessage, isEmptyEdit, matchesFilter, OperatorLog, StatsSum } from './store/administration.ts'
export type { InboxAdmin, InboxEntry, InboxQuery } from './store/inbox-admin.ts'
export type { EventCompleter, NewEventOptions, NewEvents, OutboxEvent } from './store/new-events.ts'
export { eventCompleter } from './store/new-events.ts'
export type {
  DestinationStats,
  OutboxAdmin,
  OutboxEdit,
  OutboxFilter,
  OutboxPage,
  OutboxRecord,
  OutboxState,
  OutboxStats,
  RearmOptions,
} from './store/outbox-admin.ts'
export type {
  Claim,
  ClaimedRecord,
  ClaimOptions,
  NewOutboxRecord,
  OutboxCapabilities,
  OutboxReader,
  OutboxReference,
  OutboxStore,
  OutboxWriter,
  Outcome,
  RecordTaker,
} from './store/outbox-store.ts'
export { attributesToJson, checkRearm, checkRecordSize, checkReferences, defaultMaxSize, invalidCursor } from './store/record-checks.ts'
