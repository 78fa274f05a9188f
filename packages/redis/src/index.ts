export type { DurabilityCheck, DurabilityReport } from './check-durability.ts'
export { checkDurability } from './check-durability.ts'
export type { RedisKey, RedisValue } from './client/argument.ts'
export type { IoredisClient } from './client/ioredis.ts'
export type { NodeRedisClient, NodeRedisCluster } from './client/node-redis.ts'
export type { CommitFragment, KeyKind, QueuedCommand } from './client/queued-command.ts'
export {
  CommandTooLongError,
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
export type { InboxOptions } from './inbox/inbox-middleware.ts'
export { inboxMiddleware } from './inbox/inbox-middleware.ts'
export type { EnqueueResult } from './outbox/lua/enqueue.ts'
export type { DueExpiries, DueExpiry } from './outbox/lua/expiry/due-expiry.ts'
export type { ExpiryWorker, ExpiryWorkerHealth, ExpiryWorkerOptions } from './outbox/lua/expiry/expiry-worker.ts'
export { expiryWorker } from './outbox/lua/expiry/expiry-worker.ts'
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
} from './outbox/lua/expiry/lua-expiry.ts'
export { luaExpiry } from './outbox/lua/expiry/lua-expiry.ts'
export type { ParkedExpiries, ParkedExpiry } from './outbox/lua/expiry/parked-expiries.ts'
export { expiryLua } from './outbox/lua/expiry/scripts.ts'
export type { LuaBackoff, LuaOutcome } from './outbox/lua/lua-claims.ts'
export type {
  LuaDurability,
  LuaDurabilityCheck,
  LuaDurabilityHealth,
  LuaDurabilityOptions,
  LuaDurabilityReport,
  WaitForReplicasOptions,
} from './outbox/lua/lua-durability.ts'
export { luaDurability, waitForReplicas } from './outbox/lua/lua-durability.ts'
export type { LuaOutbox, LuaOutboxOptions, PreparedRecords } from './outbox/lua/lua-outbox.ts'
export { luaOutbox } from './outbox/lua/lua-outbox.ts'
export type { RepairOptions, RepairReport } from './outbox/lua/repair/repair.ts'
export { repairLuaOutbox } from './outbox/lua/repair/repair.ts'
export type { RepairWorker, RepairWorkerHealth, RepairWorkerOptions } from './outbox/lua/repair/repair-worker.ts'
export { repairWorker } from './outbox/lua/repair/repair-worker.ts'
export type { RepairClass } from './outbox/lua/repair/scripts.ts'
export type { RunnerHealth } from './outbox/lua/round-runner.ts'
export { outboxLua } from './outbox/lua/scripts/prelude.ts'
export type { OutboxOptions } from './outbox/outbox-middleware.ts'
export { outboxMiddleware } from './outbox/outbox-middleware.ts'
export type { StreamOutbox, StreamOutboxOptions } from './outbox/stream/stream-outbox.ts'
export { streamOutbox } from './outbox/stream/stream-outbox.ts'
export type { CommandsOptions, RedisOptions } from './transaction/redis.ts'
export { Redis } from './transaction/redis.ts'
export type { RedisWrites, SetOptions, StreamAddOptions } from './transaction/redis-writes.ts'
export type { TransactionOptions } from './transaction/run-transaction.ts'
export type { RedisTransaction } from './transaction/transaction.ts'
export { transactionMiddleware } from './transaction/transaction-middleware.ts'
export type { TransactionalOptions } from './transactional.ts'
export { transactional } from './transactional.ts'
