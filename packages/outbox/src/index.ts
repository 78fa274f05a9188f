export { relayDefaults } from './defaults.ts'
export type { MemoryOutboxStoreOptions } from './memory-outbox-store.ts'
export { MemoryOutboxStore, MemoryTransaction } from './memory-outbox-store.ts'
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
  OutboxStore,
  OutboxWriter,
  Outcome,
} from './outbox-store.ts'
export type { RelayHealth } from './relay.ts'
export { Relay } from './relay.ts'
export type { ClaimingOptions, RelayOptions } from './relay-options.ts'
