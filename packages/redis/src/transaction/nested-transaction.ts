import { type Context, enter } from '@ackord/core'
import { transactionScopeKey } from '@ackord/core/internal'
import type { CommandQueue } from './command-queue.ts'
import type { RedisInternals } from './redis-internals.ts'
import type { TransactionTerms, TransactionWork } from './unit-of-work.ts'

/** A transaction inside of another: its writes are added to the outer one when it succeeds, and dropped when it fails. */
export async function nestedTransaction<R>(
  internals: RedisInternals,
  outer: CommandQueue,
  work: TransactionWork<R>,
  context: Context,
  { startWatching }: TransactionTerms,
): Promise<R> {
  context.signal.throwIfAborted()
  const scope = outer.scope.nested(context)
  const queue = outer.nested(scope)
  let result: R
  try {
    await startWatching?.(queue, work.message)
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
