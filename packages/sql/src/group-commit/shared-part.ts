import type { Context, Message } from '@ackord/core'
import type { TransactionScope } from '@ackord/core/internal'
import type { Session } from '../contract/driver.ts'
import { QueryTracker } from '../contract/query-tracker.ts'
import type { StatementQueue } from '../contract/statement-queue.ts'
import { TransactionAbortedError } from '../errors.ts'
import type { DatabasePort, GatherRows, OwnTransaction } from '../transaction/open-transaction.ts'
import { workInside } from '../transaction/transaction-work.ts'

/** What the parts of a transaction share. */
export interface SharedTransaction<Handle> {
  readonly port: DatabasePort<Handle>
  readonly session: Session<Handle>
  /** Stores the gathered rows before the next statement. */
  readonly flush: () => Promise<void> | undefined
  readonly savepoints: OwnTransaction<Handle>['savepoints']
  /** The queue of the savepoints of all parts. Absent where no two parts are open at the same time: each then has its own. */
  readonly turns?: StatementQueue | undefined
}

/** The handling of one message, or one call for several, inside of a transaction that others use before and after it. */
export interface SharedPart<R> {
  /** `undefined` for a call that belongs to several messages. */
  readonly message: Message | undefined
  /** Names a call for several messages in errors. */
  readonly owner?: string | undefined
  readonly context: Context
  readonly scope: TransactionScope
  readonly gather: GatherRows
  readonly run: (inside: Context) => Promise<R>
  /** Called when nothing prevents a commit. */
  readonly done: (result: R) => R
  /** Called instead of `done`: the transaction must not be committed. */
  readonly failed: (error: unknown) => R
}

/** Starts a part. No async/await on the hot path: saves promises per message. */
export function runPart<Handle, R>(shared: SharedTransaction<Handle>, part: SharedPart<R>): void {
  const { port, session, flush, savepoints, turns } = shared
  const { message, owner, context, scope, gather, run, done, failed } = part
  const tracker = new QueryTracker(context.signal, { beforeSavepoint })

  /** Gathered rows must not be rolled back with the savepoint, and the savepoint must not exist for the next part. */
  function beforeSavepoint(isSecond: boolean): Promise<unknown> | undefined {
    const storing = flush()
    const marking = isSecond ? undefined : session.deferStatement({ sql: `SAVEPOINT ${partSavepoint}` }, unchanged)
    return storing === undefined ? marking : Promise.all([storing, marking])
  }

  function last(result: R): R | Promise<R> {
    // An error that a handler swallowed would surface at COMMIT, when it is no longer known which handler it was.
    if (tracker.failure !== undefined) throw new TransactionAbortedError({ cause: tracker.failure })
    // Comes first: on SQLite, checking whether the transaction has ended releases all savepoints.
    const releasing = tracker.usesSavepoints ? session.deferStatement({ sql: `RELEASE SAVEPOINT ${partSavepoint}` }, unchanged) : undefined
    return releasing === undefined ? doneUnlessEnded(result) : releasing.then(() => doneUnlessEnded(result)).catch(failed)
  }

  function doneUnlessEnded(result: R): R {
    const ended = session.ended?.()
    if (ended !== undefined) throw ended
    return done(result)
  }

  const own: OwnTransaction<Handle> = { session, gather, flush, isSavepoint: false, savepoints, scope, turns }
  void workInside(port, own, tracker, { message, owner, run }, context, { last, onFailure: failed })
}

/** Encloses the savepoints that a part creates itself, so that they end with the part. */
const partSavepoint = 'ackord_member'

const unchanged = (error: unknown) => error
