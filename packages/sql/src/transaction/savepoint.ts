import { type Context, currentContext } from '@ackord/core'
import { runWithoutDeferring } from '../contract/driver.ts'
import { QueryTracker } from '../contract/query-tracker.ts'
import { StatementQueue } from '../contract/statement-queue.ts'
import type { DatabasePort, OpenTransaction, OwnTransaction } from './open-transaction.ts'
import { RollbackOnly, type TransactionWork, workInside } from './transaction-work.ts'

/**
 * A transaction inside of another one on the same database. A failure in it is undone alone, if the outer work continues. Savepoints of the same
 * transaction take turns: they form a stack, and rolling back or releasing one affects all later ones.
 */
export function savepoint<Handle, R>(
  port: DatabasePort<Handle>,
  outer: OwnTransaction<Handle>,
  work: TransactionWork<R>,
  context: Context,
): Promise<R> {
  const around = innermost(port, outer)
  around.turns ??= new StatementQueue()
  return around.turns.run(() => runSavepoint(port, outer, work, context))
}

async function runSavepoint<Handle, R>(
  port: DatabasePort<Handle>,
  outer: OwnTransaction<Handle>,
  work: TransactionWork<R>,
  context: Context,
): Promise<R> {
  const { session, savepoints } = outer
  context.signal.throwIfAborted()
  savepoints.count += 1
  const name = `ackord_${savepoints.count}`
  const flushing = outer.flush?.()
  if (flushing !== undefined) await flushing
  await session.run(`SAVEPOINT ${name}`)

  const scope = outer.scope.nested(context)
  const tracker = new QueryTracker(context.signal)
  // A statement deferred until after the rollback of the savepoint would not be rolled back with it.
  const inside = { ...session, deferStatement: runWithoutDeferring(session.change) }
  const own: OwnTransaction<Handle> = { session: inside, scope, isSavepoint: true, savepoints, outer }
  let result: R
  try {
    result = await workInside(port, own, tracker, work, context)
    // Also fails in a savepoint in which a statement failed and its error was caught.
    await session.run(`RELEASE SAVEPOINT ${name}`)
  } catch (error) {
    try {
      await session.script(`ROLLBACK TO SAVEPOINT ${name}; RELEASE SAVEPOINT ${name}`)
    } catch (failure) {
      // The changes to be undone still exist, unless the whole transaction was rolled back, as by a deadlock.
      savepoints.failure ??= { error: port.dialect.isConflict(error) ? error : failure }
    }
    await scope.end('rolledBack')
    throw error instanceof RollbackOnly ? error.reason : error
  } finally {
    own.isOver = true
  }
  await scope.end('committed')
  return result
}

/**
 * Does work in a transaction while none of its savepoints is open, unless the caller is inside of one, or may be: work beside a savepoint would be
 * rolled back with it.
 */
export function besideSavepoints<Handle, R>(
  port: DatabasePort<Handle>,
  { own }: OpenTransaction<Handle>,
  work: () => Promise<R>,
): Promise<R> {
  const isBeside = own?.turns?.busy === true && currentContext() !== undefined && innermost(port, own) === own
  return isBeside && own.turns !== undefined ? own.turns.run(work) : work()
}

/**
 * The transaction or savepoint in whose queue a new savepoint waits. Code inside of a savepoint may request another one in the outer transaction,
 * through the outer context: it would wait for the savepoint that waits for it.
 */
function innermost<Handle>(port: DatabasePort<Handle>, outer: OwnTransaction<Handle>): OwnTransaction<Handle> {
  const ambient = currentContext()
  const current = ambient === undefined ? undefined : port.find(ambient)?.own
  let open: OwnTransaction<Handle> | undefined
  for (let own = current; own !== undefined; own = own.outer) {
    if (own === outer) return open ?? outer
    if (own.isOver !== true) open ??= own
  }
  return outer
}
