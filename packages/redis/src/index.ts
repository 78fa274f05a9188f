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
