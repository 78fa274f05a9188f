import type { RedisCommand } from './port.ts'

/**
 * What a key must hold, or hold nothing, for a write to be possible. `counter`: text that is a whole number, and stays within 64 bits; `number`: text
 * that is a number; `hash-counter`, `hash-number`: a hash whose field, the first argument, is one. `members`: sets or sorted sets under all keys but the
 * first, which may hold anything; `sets`, `strings`: the same with sets or strings only. `any`: whatever. `outbox`: the keys of a shard of a Lua outbox,
 * each its own; `delayed`: the keys of a destination of a stream outbox; `mark`: the marks of an expiry. Of these three the command is the outbox's own, not
 * one of Redis.
 */
export type KeyKind =
  | 'string'
  | 'counter'
  | 'number'
  | 'hyperloglog'
  | 'hash'
  | 'hash-counter'
  | 'hash-number'
  | 'list'
  | 'set'
  | 'zset'
  | 'stream'
  | 'members'
  | 'sets'
  | 'strings'
  | 'outbox'
  | 'delayed'
  | 'mark'
  | 'any'

/** A command that waits for the commit of its transaction. */
export interface QueuedCommand extends RedisCommand {
  readonly kind: KeyKind
  /** Whether its first key must be there for it to be possible. Default: false. */
  readonly mustExist?: boolean | undefined
  /** Told what the commit answered to it, if it is of the kind `outbox`. Not called if the answer was lost. Must not throw. Default: nothing. */
  readonly onStored?: ((answer: string) => void) | undefined
  /** Which events that were queued before it are dropped, because it cancels what they would store. Default: none. */
  readonly cancels?: ((event: QueuedCommand) => boolean) | undefined
}
