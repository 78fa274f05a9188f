export type { RedisKey, RedisValue } from './argument.ts'
export type { DurabilityCheck, DurabilityReport } from './check-durability.ts'
export { checkDurability } from './check-durability.ts'
export {
  CommitUnknownError,
  CrossSlotError,
  InboxBusyError,
  LeaseLostError,
  PartialCommitError,
  TransactionAbortedError,
  TransactionConflictError,
} from './errors.ts'
export { fromIoredis } from './from-ioredis.ts'
export { fromNodeRedis } from './from-node-redis.ts'
export type { InboxOptions } from './inbox-middleware.ts'
export { inboxMiddleware } from './inbox-middleware.ts'
export type { IoredisClient } from './ioredis-port.ts'
export type { EnqueueResult } from './lua-outbox/enqueue-arguments.ts'
export type { DueExpiries, DueExpiry } from './lua-outbox/expiry/due-expiry.ts'
export { expiryLua } from './lua-outbox/expiry/expiry-lua.ts'
export type { ExpiryWorker, ExpiryWorkerHealth, ExpiryWorkerOptions } from './lua-outbox/expiry/expiry-worker.ts'
export { expiryWorker } from './lua-outbox/expiry/expiry-worker.ts'
export type {
  CutoffOptions,
  Expiry,
  ExpiryDecision,
  ExpiryEvent,
  ExpiryRecording,
  LuaExpiry,
  LuaExpiryOptions,
  RecordExpiryOptions,
  Revocation,
  RevokeOptions,
} from './lua-outbox/expiry/lua-expiry.ts'
export { luaExpiry } from './lua-outbox/expiry/lua-expiry.ts'
export type { ParkedExpiries, ParkedExpiry } from './lua-outbox/expiry/parked-expiries.ts'
export type {
  LuaDurability,
  LuaDurabilityCheck,
  LuaDurabilityHealth,
  LuaDurabilityOptions,
  LuaDurabilityReport,
} from './lua-outbox/lua-durability.ts'
export { luaDurability } from './lua-outbox/lua-durability.ts'
export type { LuaOutbox, LuaOutboxOptions, PreparedRecords } from './lua-outbox/lua-outbox.ts'
export { luaOutbox } from './lua-outbox/lua-outbox.ts'
export type { LuaBackoff, LuaOutcome } from './lua-outbox/lua-outcome.ts'
export { outboxLua } from './lua-outbox/outbox-lua.ts'
export type { RepairOptions, RepairReport } from './lua-outbox/repair/repair-lua-outbox.ts'
export { repairLuaOutbox } from './lua-outbox/repair/repair-lua-outbox.ts'
export type { RepairClass } from './lua-outbox/repair/repair-step-script.ts'
export type { RepairWorker, RepairWorkerHealth, RepairWorkerOptions } from './lua-outbox/repair/repair-worker.ts'
export { repairWorker } from './lua-outbox/repair/repair-worker.ts'
export type { RunnerHealth } from './lua-outbox/round-runner.ts'
export type { WaitForReplicasOptions } from './lua-outbox/wait-for-replicas.ts'
export { waitForReplicas } from './lua-outbox/wait-for-replicas.ts'
export type { NodeRedisClient, NodeRedisCluster } from './node-redis-port.ts'
export type { OutboxOptions } from './outbox-middleware.ts'
export { outboxMiddleware } from './outbox-middleware.ts'
export type { CommandsOptions, RedisOptions } from './redis.ts'
export { Redis } from './redis.ts'
export type { RedisWrites, SetOptions, StreamAddOptions } from './redis-writes.ts'
export type { TransactionOptions } from './run-transaction.ts'
export type { StreamOutbox, StreamOutboxOptions } from './stream-outbox/stream-outbox.ts'
export { streamOutbox } from './stream-outbox/stream-outbox.ts'
export type { KeyKind, QueuedCommand, RedisTransaction } from './transaction.ts'
export { transactionMiddleware } from './transaction-middleware.ts'
export type { TransactionalOptions } from './transactional.ts'
export { transactional } from './transactional.ts'
