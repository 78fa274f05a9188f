export type { InboxKey } from '@ackord/outbox'
export type {
  FromOptions,
  ModeOptions,
  OrderOptions,
  OutboxMode,
  StorageOptions,
  TableNames,
  TableOptions,
  Tables,
} from './contract/database-options.ts'
export type { Dialect, Isolation, TransactionSettings } from './contract/dialect.ts'
export type { Driver, FollowOptions, Notifications, RunStatement, Session, StatementResult } from './contract/driver.ts'
export type { QueryTracker } from './contract/query-tracker.ts'
export { CommitUnknownError, SchemaError, TransactionAbortedError } from './errors.ts'
export type { GroupCommitOptions } from './group-commit/group-commit.ts'
export type { CleanIdempotencyOptions } from './idempotency/clean-idempotency.ts'
export { cleanIdempotency } from './idempotency/clean-idempotency.ts'
export type { SqlIdempotencyOptions } from './idempotency/sql-idempotency.ts'
export { sqlIdempotency } from './idempotency/sql-idempotency.ts'
export type { CleanInboxOptions } from './inbox/clean-inbox.ts'
export { cleanInbox } from './inbox/clean-inbox.ts'
export type { InboxOptions } from './inbox/inbox.ts'
export { inboxMiddleware } from './inbox/inbox.ts'
export type { SqlInboxOptions } from './inbox/sql-inbox.ts'
export { sqlInbox } from './inbox/sql-inbox.ts'
export type { TransactionalFunction } from './outbox/command-handler-with-outbox.ts'
export { commandHandlerWithOutbox } from './outbox/command-handler-with-outbox.ts'
export type { OutboxOptions } from './outbox/outbox-middleware.ts'
export { outboxMiddleware } from './outbox/outbox-middleware.ts'
export type { SqlOutbox, SqlOutboxOptions } from './outbox/sql-outbox.ts'
export { sqlOutbox } from './outbox/sql-outbox.ts'
export type { SqlRateLimiterOptions } from './rates/sql-rate-limiter.ts'
export { sqlRateLimiter } from './rates/sql-rate-limiter.ts'
export type { OutboxRow } from './records/outbox-row.ts'
export type { Order, Row } from './records/row.ts'
export type { Cleanup, CleanupOptions } from './schema/cleanup.ts'
export { startCleanup } from './schema/cleanup.ts'
export type { InboxSchemaOptions, SchemaOptions } from './schema/schema.ts'
export { createSchema, printSchema, validateSchema } from './schema/schema.ts'
export type { DatabaseOptions, ExecutorOptions } from './transaction/database.ts'
export { Database } from './transaction/database.ts'
export type { TransactionOptions } from './transaction/run-transaction.ts'
export { transactionMiddleware } from './transaction/transaction-middleware.ts'
export type { TransactionalOptions } from './transactional.ts'
export { transactional } from './transactional.ts'
