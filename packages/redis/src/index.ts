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
export { fromIoredis, fromNodeRedis } from './from-client.ts'
export type { RedisIdempotencyOptions } from './idempotency/redis-idempotency.ts'
export { redisIdempotency } from './idempotency/redis-idempotency.ts'
export type { InboxOptions } from './inbox/inbox-middleware.ts'
export { inboxMiddleware } from './inbox/inbox-middleware.ts'
export type { RedisInboxOptions } from './inbox/redis-inbox.ts'
export { redisInbox } from './inbox/redis-inbox.ts'
export type { OutboxOptions } from './outbox/outbox-middleware.ts'
export { outboxMiddleware } from './outbox/outbox-middleware.ts'
export type { StreamOutbox, StreamOutboxOptions } from './outbox/stream/stream-outbox.ts'
export { streamOutbox } from './outbox/stream/stream-outbox.ts'
export type { RedisProcesses, RedisProcessesOptions } from './process/redis-processes.ts'
export { redisProcesses } from './process/redis-processes.ts'
export type { RedisRateLimiterOptions } from './rates/redis-rate-limiter.ts'
export { redisRateLimiter } from './rates/redis-rate-limiter.ts'
export type { CommandsOptions, RedisOptions } from './transaction/redis.ts'
export { Redis } from './transaction/redis.ts'
export type { RedisWrites, SetOptions, StreamAddOptions } from './transaction/redis-writes.ts'
export type { TransactionOptions } from './transaction/run-transaction.ts'
export type { RedisTransaction } from './transaction/transaction.ts'
export { transactionMiddleware } from './transaction/transaction-middleware.ts'
export type { TransactionalOptions } from './transactional.ts'
export { transactional } from './transactional.ts'
