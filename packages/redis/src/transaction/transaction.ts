import type { RedisKey, RedisValue } from '../client/argument.ts'
import type { RedisArgument } from '../client/port.ts'
import type { QueuedCommand } from '../client/queued-command.ts'

/**
 * The writes of one message, queued until they commit together. They cannot be read before the commit. All keys must be in one slot; a key in another slot is
 * refused when it is queued, by a throw.
 */
export interface RedisTransaction {
  queue(command: QueuedCommand): void
  /** Queues an outgoing event. Events run after all commands of `queue()`. */
  queueEvent(command: QueuedCommand): void
  /**
   * Adds an entry to this short stream when the transaction commits, so that its blocking readers look for what was written. Transactions that commit in one call add one entry
   * together. Only a hint: a stream that cannot be written to is ignored.
   */
  queueWakeUp(stream: RedisArgument): void
  /**
   * Lets the commit wait for work that queues commands when it is done. The transaction fails if the work does. Resolves and rejects as the work does.
   */
  waitFor?(work: Promise<void>): Promise<void>
  /** A key of the transaction, if it has one yet: further keys must be in the same slot. */
  readonly anchor: RedisArgument | undefined
  /**
   * For a key that was read before it is written: the transaction commits only if the key still holds this string, or, with `null`, does not exist.
   * Otherwise nothing is written, and the handler is run again.
   */
  expect(key: RedisKey, value: RedisValue | null): void
  /** The same for a field of a hash, such as a version. */
  expectField(key: RedisKey, field: RedisValue, value: RedisValue | null): void
}
