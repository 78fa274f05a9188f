import type { Context } from '@ackord/core'
import { changeNow } from './driver.ts'
import type { DatabasePort, OwnTransaction } from './open-transaction.ts'
import { QueryTracker } from './query-tracker.ts'
import { RollbackOnly, type TransactionWork, workInside } from './transaction-work.ts'

/** A transaction inside of one on the same database. What fails in it is undone alone, if whoever is outside goes on. */
export async function savepoint<Handle, R>(
  port: DatabasePort<Handle>,
  outer: OwnTransaction<Handle>,
  work: TransactionWork<R>,
  context: Context,
): Promise<R> {
  const { session, savepoints } = outer
  context.signal.throwIfAborted()
  savepoints.count += 1
  const name = `ackord_${savepoints.count}`
  await session.run(`SAVEPOINT ${name}`)

  const scope = outer.scope.nested(context)
  const tracker = new QueryTracker(context.signal)
  let result: R
  try {
    // What waited until after the savepoint was rolled back would not be rolled back with it.
    const inside = { ...session, changeLater: changeNow(session.change) }
    result = await workInside(port, { session: inside, scope, isSavepoint: true, savepoints }, tracker, work, context)
    // In a savepoint where a statement failed and its error was caught, this fails too.
    await session.run(`RELEASE SAVEPOINT ${name}`)
  } catch (error) {
    // If this fails, the transaction outside cannot be committed either: it is aborted, or its connection is lost.
    await session.script(`ROLLBACK TO SAVEPOINT ${name}; RELEASE SAVEPOINT ${name}`).catch(() => {})
    await scope.end('rolledBack')
    throw error instanceof RollbackOnly ? error.reason : error
  }
  await scope.end('committed')
  return result
}
