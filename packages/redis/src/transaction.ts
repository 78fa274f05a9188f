import type { RedisKey, RedisValue } from './argument.ts'
import type { RedisArgument, RedisCommand } from './port.ts'

/**
 * What a key must hold, or hold nothing, for a write to be possible. `counter`: text that is a whole number. `any`: whatever. `outbox`: the keys of a
 * shard of a Lua outbox, each its own; `mark`: the marks of an expiry. Of both the command is the outbox's own, not one of Redis.
 */
export type KeyKind = 'string' | 'counter' | 'number' | 'hash' | 'list' | 'set' | 'zset' | 'stream' | 'outbox' | 'mark' | 'any'

export interface QueuedCommand extends RedisCommand {
  readonly kind: KeyKind
  /** Whether its first key must be there for it to be possible. Default: false. */
  readonly mustExist?: boolean | undefined
  /** Told what the commit answered to it, if it is of the kind `outbox`. Not called if the answer was lost. Must not throw. Default: nothing. */
  readonly onStored?: ((answer: string) => void) | undefined
}

/**
 * The writes of one message, gathered until they commit together. Nothing of it can be read before. Its keys are in one slot; one that is
 * elsewhere is refused here, in the caller's own stack.
 */
export interface RedisTransaction {
  queue(command: QueuedCommand): void
  /** After all that `queue` takes: the outgoing events. */
  queueEvent(command: QueuedCommand): void
  /** Any key of the transaction, if there is one yet: what is made for it must be in the same slot. */
  readonly anchor: RedisArgument | undefined
  /**
   * For what was read before and is written now: the transaction commits only if the key still holds this text, or, with `null`, nothing.
   * If it does not, nothing is written, and the handler is run again.
   */
  expect(key: RedisKey, value: RedisValue | null): void
  /** The same for a field of a hash, such as its version. */
  expectField(key: RedisKey, field: RedisValue, value: RedisValue | null): void
}
