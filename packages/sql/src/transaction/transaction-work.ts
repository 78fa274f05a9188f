import { AckordError, type Context, enter, type Message } from '@ackord/core'
import { describeMessage, transactionScopeKey } from '@ackord/core/internal'
import type { QueryTracker } from '../contract/query-tracker.ts'
import { TransactionAbortedError } from '../errors.ts'
import { type DatabasePort, type OwnTransaction, openTransaction } from './open-transaction.ts'

/** The work of one transaction or savepoint. */
export interface TransactionWork<R> {
  /** The message being handled, whose verdicts wait for the end; `undefined` outside of a router. */
  readonly message: Message | undefined
  readonly run: (context: Context) => Promise<R>
}

/** Rolls back a transaction whose work succeeded: its message was nacked or rejected inside. Never leaves the package. */
export class RollbackOnly<R> extends Error {
  readonly reason: unknown
  readonly result: R

  constructor(reason: unknown, result: R) {
    super('The transaction may only be rolled back.')
    this.reason = reason
    this.result = result
  }
}

/** Callbacks for the end of the work. */
export interface WorkEndings<R> {
  /** Called when nothing prevents a commit. Optional. */
  readonly last?: ((result: R) => R | Promise<R>) | undefined
  /** Called instead of rejecting. */
  readonly onFailure?: ((error: unknown) => R) | undefined
}

/**
 * Does the work inside of an open transaction or savepoint. Rejects if it must not be committed. No async/await on the hot path: saves promises per
 * message.
 */
export function workInside<Handle, R>(
  port: DatabasePort<Handle>,
  own: OwnTransaction<Handle>,
  tracker: QueryTracker,
  work: TransactionWork<R>,
  context: Context,
  { last, onFailure }: WorkEndings<R> = {},
): Promise<R> {
  const { signal } = context
  const { scope } = own

  function check(result: R): R | Promise<R> {
    const neglected = tracker.neglected()
    if (neglected !== undefined) return fail(new TransactionAbortedError({ cause: neglected.error }))
    const { failure } = own.savepoints
    if (failure !== undefined) return fail(new TransactionAbortedError({ cause: failure.error }))
    tracker.end(() => ended(work.message))
    signal.throwIfAborted()
    if (scope.rollbackOnly !== undefined) throw new RollbackOnly(scope.rollbackOnly.error, result)
    return last === undefined ? result : last(result)
  }

  function fail(error: unknown): R {
    tracker.end(() => ended(work.message))
    if (onFailure === undefined) throw error
    return onFailure(error)
  }

  function finish(result: R): R | Promise<R> {
    try {
      return check(result)
    } catch (error) {
      return fail(error)
    }
  }

  /** Checks again in the very turn in which it ends: COMMIT would overtake a query that was started meanwhile. */
  function finishWhenIdle(result: R): R | Promise<R> {
    return tracker.idle ? finish(result) : tracker.drained().then(() => finishWhenIdle(result))
  }

  let working: Promise<R>
  try {
    signal.throwIfAborted()
    if (work.message !== undefined) scope.hold(work.message)
    const inside = port.enter(context, openTransaction(own, tracker)).with(transactionScopeKey, scope)
    const running: unknown = enter(inside, () => work.run(inside))
    // A user's function may return no promise, or another kind of promise.
    working = running instanceof Promise ? running : Promise.resolve(running as R)
  } catch (error) {
    return Promise.reject(error).catch(fail)
  }
  return working.then(finishWhenIdle, fail)
}

function ended(message: Message | undefined): AckordError {
  const owner = message === undefined ? 'database.write()' : describeMessage(message)
  return new AckordError(
    'ACKORD_SCOPE_ENDED',
    `A query was started after the transaction of ${owner} had ended. Await every query before ${message === undefined ? 'its function' : 'the handler'} returns.`,
  )
}
