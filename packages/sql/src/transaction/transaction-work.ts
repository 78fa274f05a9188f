import { AckordError, type Context, currentContext, enter, type Message } from '@ackord/core'
import { describeMessage, transactionScopeKey } from '@ackord/core/internal'
import { runWithoutDeferring, type Session } from '../contract/driver.ts'
import { QueryTracker } from '../contract/query-tracker.ts'
import { StatementQueue } from '../contract/statement-queue.ts'
import { TransactionAbortedError } from '../errors.ts'
import { type DatabasePort, type OpenTransaction, type OwnTransaction, openTransaction } from './open-transaction.ts'

/** The work of one transaction or savepoint. */
export interface TransactionWork<R> {
  /** The message being handled, whose verdicts wait for the end; `undefined` outside of a router. */
  readonly message: Message | undefined
  /** Names work without a message in errors. Default: `database.write()`. */
  readonly owner?: string | undefined
  readonly run: (context: Context) => Promise<R>
  /**
   * Runs the last statement before COMMIT: when nothing that the work has started is still running, and nothing more can be started. A savepoint of the work cannot
   * undo it. Not called in a savepoint. Optional.
   */
  readonly last?: ((result: R, session: Pick<Session<unknown>, 'change'>) => Promise<void>) | undefined
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
    tracker.end(() => ended(work))
    signal.throwIfAborted()
    if (scope.rollbackOnly !== undefined) throw new RollbackOnly(scope.rollbackOnly.error, result)
    return last === undefined ? result : last(result)
  }

  function fail(error: unknown): R {
    tracker.end(() => ended(work))
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

function ended({ message, owner: given = 'database.write()' }: Pick<TransactionWork<unknown>, 'message' | 'owner'>): AckordError {
  const owner = message === undefined ? given : describeMessage(message)
  return new AckordError(
    'ACKORD_SCOPE_ENDED',
    `A query was started after the transaction of ${owner} had ended. Await every query before ${message === undefined ? 'its function' : 'the handler'} returns.`,
  )
}

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
