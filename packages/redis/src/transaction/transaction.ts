import { type Context, enter, type Message, transactionScopeKey } from '@ackord/core'
import type { RedisKey, RedisValue } from '../client/argument.ts'
import type { RedisArgument } from '../client/port.ts'
import type { QueuedCommand } from '../client/queued-command.ts'
import type { CommandQueue } from './command-queue.ts'
import type { RedisInternals } from './redis.ts'
import type { TransactionWork } from './run-transaction.ts'

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

/** A transaction inside of one: what it writes comes into the outer one when it succeeds, and is forgotten when it fails. */
export async function nestedTransaction<R>(
  internals: RedisInternals,
  outer: CommandQueue,
  work: TransactionWork<R>,
  context: Context,
  startWatching: (queue: CommandQueue, message: Message | undefined) => Promise<void>,
): Promise<R> {
  context.signal.throwIfAborted()
  const scope = outer.scope.nested(context)
  const queue = outer.nested(scope)
  let result: R
  try {
    await startWatching(queue, work.message)
    const inside = internals.enter(context, queue).with(transactionScopeKey, scope)
    result = await enter(inside, () => work.run(inside))
    await queue.checks
    context.signal.throwIfAborted()
    if (scope.rollbackOnly !== undefined) throw scope.rollbackOnly.error
    outer.absorb(queue)
  } catch (error) {
    await scope.end('rolledBack')
    throw error
  } finally {
    queue.end()
  }
  await scope.end('committed')
  return result
}
