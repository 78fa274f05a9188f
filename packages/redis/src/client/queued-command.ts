import type { RedisCommand, Script } from './port.ts'

/**
 * The type that a key must have, unless it does not exist, for a write to succeed.
 *
 * - `counter`: a string that is an integer, and stays within 64 bits. `number`: a string that is a number.
 * - `hash-counter`, `hash-number`: a hash whose field, the first argument, is one.
 * - `members`: sets or sorted sets under all keys but the first, which may hold anything. `sets`, `strings`: the same with sets or strings only.
 * - `any`: every type.
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
  | 'any'

/**
 * A command that Redis does not have: the Lua with which the commit script checks and runs it. An outbox defines one and queues commands of it, so that the
 * commit script knows no outbox. All commands of a fragment name their keys before their other arguments.
 *
 * The Lua runs once, at the top of the script, in a block of its own, and fills a table `fragment`. `k` is the index of the command's first key in KEYS, `a`
 * that of its first argument in ARGV, `argc` the number of arguments, `name` the name of the command:
 *
 *     fragment.begin()                    optional: called before the checks of each transaction
 *     fragment.check(name, k, a, argc)    gives the text of an error, or nil. Called before the transaction's first write, and must not write
 *     fragment.run(name, k, a, argc)      gives the answer for `onStored`, a string without blanks; nil; or the error reply of a command. May throw.
 *                                         Must not change the type of an existing key
 *     fragment.hasWritten()               whether the last run has written anything: that cannot be rolled back
 *     fragment.type                       optional: the type of all its keys, or a list of their types. The commit script then checks them, and can roll back what it writes, as for a command of
 *                                         Redis; `check` and `hasWritten` are not called. With a list, only the first key is rolled back
 *     fragment.undo(key)                  with a list of types: called for each other key when the first is rolled back. Must not throw
 */
export interface CommitFragment extends Script {
  /** Stands for it in the plan of a transaction: a lower-case letter that no `KeyKind` and no other fragment has. */
  readonly letter: string
}

/** A command that waits for the commit of its transaction. */
export interface QueuedCommand extends RedisCommand {
  readonly kind: KeyKind | CommitFragment
  /** Whether its first key must exist. Default: false. */
  readonly mustExist?: boolean | undefined
  /** Called with what the commit answered to a command of a fragment. Not called if the answer was lost or empty. Must not throw. Default: none. */
  readonly onStored?: ((answer: string) => void) | undefined
  /** Which events that were queued before it are dropped, because it cancels what they would store. Default: none. */
  readonly cancels?: ((event: QueuedCommand) => boolean) | undefined
}
