import type { Context, Message, Process } from '@ackord/core'
import type { DatabasePort, OwnTransaction } from './database.ts'
import { QueryTracker } from './query-tracker.ts'
import { RollbackOnly, transactionWork } from './transaction-work.ts'

/** A transaction inside of one on the same database. What fails in it is undone alone, if whoever is outside goes on. */
export async function savepoint<Handle>(
  port: DatabasePort<Handle>,
  outer: OwnTransaction<Handle>,
  next: Process,
  message: Message,
  context: Context,
): Promise<readonly Message[]> {
  const { session, savepoints } = outer
  context.signal.throwIfAborted()
  savepoints.count += 1
  const name = `ackord_${savepoints.count}`
  await session.run(`SAVEPOINT ${name}`)

  const scope = outer.scope.nested(context)
  const tracker = new QueryTracker()
  let outputs: readonly Message[]
  try {
    outputs = await transactionWork(port, { session, scope, savepoints }, tracker, next, message, context)
    // In a savepoint where a statement failed and its error was caught, this fails too.
    await session.run(`RELEASE SAVEPOINT ${name}`)
  } catch (error) {
    // If this fails, the transaction outside cannot be committed either: it is aborted, or its connection is lost.
    await session.script(`ROLLBACK TO SAVEPOINT ${name}; RELEASE SAVEPOINT ${name}`).catch(() => {})
    await scope.end('rolledBack')
    throw error instanceof RollbackOnly ? error.reason : error
  }
  await scope.end('committed')
  return outputs
}
