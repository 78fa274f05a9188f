import { type Context, enter, type Message, transactionScopeKey } from '@ackord/core'
import type { CommandQueue } from './command-queue.ts'
import type { RedisInternals } from './redis.ts'
import type { TransactionWork } from './run-transaction.ts'

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
