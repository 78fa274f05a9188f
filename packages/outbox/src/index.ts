export type { RelayBacklog } from './backlog-watch.ts'
export { relayDefaults } from './defaults.ts'
export { invalidCursor } from './invalid-cursor.ts'
export type { MemoryOutboxStoreOptions } from './memory-outbox-store.ts'
export { MemoryOutboxStore } from './memory-outbox-store.ts'
export { MemoryTransaction } from './memory-transaction.ts'
export type {
  DestinationStats,
  OutboxAdmin,
  OutboxEdit,
  OutboxFilter,
  OutboxPage,
  OutboxRecord,
  OutboxState,
  OutboxStats,
} from './outbox-admin.ts'
export type { OutboxTotals } from './outbox-meter.ts'
export type { OutboxDelivery, OutboxSource, OutboxSourceOptions } from './outbox-source.ts'
export { outboxSource } from './outbox-source.ts'
export type {
  Claim,
  ClaimedRecord,
  ClaimOptions,
  NewOutboxRecord,
  OutboxCapabilities,
  OutboxReader,
  OutboxStore,
  OutboxWriter,
  Outcome,
  RecordTaker,
} from './outbox-store.ts'
export type { RelayCleanupOptions } from './published-cleanup.ts'
export type { PublisherMap } from './publisher-routes.ts'
export { attributesToJson, checkRecordSize, defaultMaxSize } from './record-size.ts'
export type { RelayHealth } from './relay.ts'
export { Relay } from './relay.ts'
export type { RelayEvent } from './relay-events.ts'
export type { ClaimingOptions, RelayOptions } from './relay-options.ts'
export type { OnExhausted } from './relay-order.ts'
export type { MappedRecord, MapRecord, RelayRecord } from './relay-record.ts'
export type { ParkReason } from './verdict.ts'
