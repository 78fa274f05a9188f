import { AckordError, type Context, enter, type Message, transactionScopeKey } from '@ackord/core'
import { nameOf } from '@ackord/core/internal'
import { TransactionAbortedError } from './errors.ts'
import { type DatabasePort, type OwnTransaction, openTransaction } from './open-transaction.ts'
import type { QueryTracker } from './query-tracker.ts'

/** What is done in one transaction or savepoint. */
export interface TransactionWork<R> {
  /** The one that is being handled, whose verdicts wait for the end; `undefined` outside of a router. */
  readonly message: Message | undefined
  readonly run: (context: Context) => Promise<R>
}

/** Rolls a transaction back whose work succeeded: its message was nacked or rejected inside. Never leaves the package. */
export class RollbackOnly<R> extends Error {
  readonly reason: unknown
  readonly result: R

  constructor(reason: unknown, result: R) {
    super('The transaction may only be rolled back.')
    this.reason = reason
    this.result = result
  }
}

/** Does the work inside of a transaction or savepoint that is open. Rejects if it must not be committed. */
export async function workInside<Handle, R>(
  port: DatabasePort<Handle>,
  own: OwnTransaction<Handle>,
  tracker: QueryTracker,
  work: TransactionWork<R>,
  context: Context,
): Promise<R> {
  const { signal } = context
  const { scope } = own
  signal.throwIfAborted()
  if (work.message !== undefined) scope.hold(work.message)
  const inside = port.enter(context, openTransaction(own, tracker)).with(transactionScopeKey, scope)
  let result: R
  try {
    result = await enter(inside, () => work.run(inside))
    if (!tracker.idle) await tracker.drained()
    const neglected = tracker.neglected()
    if (neglected !== undefined) throw new TransactionAbortedError({ cause: neglected.error })
  } finally {
    tracker.end(() => ended(work.message))
  }
  signal.throwIfAborted()
  if (scope.rollbackOnly !== undefined) throw new RollbackOnly(scope.rollbackOnly.error, result)
  return result
}

function ended(message: Message | undefined): AckordError {
  const owner = message === undefined ? 'database.write()' : nameOf(message)
  return new AckordError(
    'ACKORD_SCOPE_ENDED',
    `A query was started after the transaction of ${owner} had ended. Await every query before ${message === undefined ? 'its function' : 'the handler'} returns.`,
  )
}
