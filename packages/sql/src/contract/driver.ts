import type { TransactionEndedError } from '../errors.ts'
import type { Row } from '../records/row.ts'
import type { QueryTracker } from './query-tracker.ts'

export interface StatementResult {
  readonly rows: readonly Row[]
  /** How many rows it changed. */
  readonly count: number
}

/** Runs one statement of ours, unnamed: a named one would get a generic plan, which ruins the claim. */
export type RunStatement = (sql: string, parameters?: readonly unknown[]) => Promise<StatementResult>

/** A statement whose number of rows is what matters, so that it can be sent together with others. */
export interface Statement {
  readonly sql: string
  readonly parameters?: readonly unknown[] | undefined
  /** Whether it is worth preparing: always the same text, and a plan that does not depend on the parameters. */
  readonly prepare?: boolean | undefined
  /** Told each row that it gives, as the values of its columns. Only in a session that `tellsRows`. Default: nobody is. */
  readonly onRow?: ((values: readonly unknown[]) => void) | undefined
  /** Whether an error means that it changed no row, and undid nothing else. Default: none does. */
  readonly none?: ((error: unknown) => boolean) | undefined
  /** What must give a row before `none` is believed: the error may be that of a trigger. Default: it is believed. */
  readonly confirm?: Confirmation | undefined
}

interface Confirmation {
  readonly sql: string
  readonly parameters: readonly unknown[]
  /** Whether an error of it means that we may not ask; there is nothing left then but to believe. */
  refused(error: unknown): boolean
}

/** A connection with a transaction open on it. */
export interface Session<Handle> {
  readonly run: RunStatement
  /** Runs a statement and gives the number of rows it changed: at once where the database is in this process, and then it throws at once too. */
  change(statement: Statement): number | Promise<number>
  /**
   * Carries a statement out before whatever comes next, COMMIT at the latest: in the same round trip where the driver can, which is why
   * its failure is that one's, or the transaction's. `explain` makes a better error of it. `undefined` where it only waits, or is done.
   */
  changeLater(statement: Statement, explain: (error: unknown) => unknown): Promise<void> | undefined
  /** Whether several statements that wait cost one round trip, so that none need be saved. */
  readonly sendsTogether: boolean
  /** Whether `onRow` is told, by the end of the transaction. Default: false. */
  readonly tellsRows?: boolean | undefined
  /**
   * An error if the transaction that was begun is known to have ended already, or to be another one now: by what the server has said so far, without asking.
   * Absent where the client does not show it; the end of the transaction is then the first to find out.
   */
  ended?(): TransactionEndedError | undefined
  /** Several statements without parameters, in one round trip. */
  script(sql: string): Promise<void>
  /** What adapters get: the user's own client type. Every query goes through the tracker, which waits for it and can refuse it. */
  track(tracker: QueryTracker): Handle
}

/**
 * What a `from…` adapter makes of a client. Transactions are callbacks, because that is what every ORM can do.
 */
export interface Driver<Handle> {
  /** What is used outside of a transaction. */
  readonly pool: Handle

  /** Runs one statement on a handle: the pool, or a transaction of the user's own. `prepare` is as in a `Statement`. */
  run(
    handle: Handle,
    sql: string,
    parameters: readonly unknown[],
    options?: { readonly prepare?: boolean | undefined },
  ): Promise<StatementResult>

  /** Whether a handle of the user's own is in a transaction, where the driver knows; `undefined` where only the server does. */
  inTransaction(handle: Handle): boolean | undefined

  /**
   * Begins with these settings (the dialect's statements), does the work, then commits; rolls back if the work rejects, and
   * rejects with its error. Once the work has resolved, a `CommitUnknownError` means that the outcome is not known and every other
   * rejection that nothing was committed. A connection in an unknown state is never used again. Does not begin on an aborted signal;
   * may begin as late as with the first statement.
   */
  transaction<R>(settings: readonly string[], work: (session: Session<Handle>) => Promise<R>, signal: AbortSignal): Promise<R>

  /** Does work on one connection in no transaction, for databases where DDL would end it. Absent where a transaction can hold DDL. */
  connection?<R>(work: (session: Pick<Session<Handle>, 'run' | 'script'>) => Promise<R>): Promise<R>
}

/** `changeLater` where nothing is gained by waiting. */
export function changeNow(change: Session<unknown>['change']): Session<unknown>['changeLater'] {
  return function changeLater(statement, explain) {
    const fail = (error: unknown): never => {
      throw explain(error)
    }
    let changing: number | Promise<number>
    try {
      changing = change(statement)
    } catch (error) {
      return fail(error)
    }
    return typeof changing === 'number' ? undefined : changing.then(() => {}, fail)
  }
}

/** For a statement that failed: 0 if the error means that it changed no row, otherwise rejects with it. `run` is in the same transaction. */
export async function confirmNone({ none, confirm }: Statement, error: unknown, run: RunStatement): Promise<0> {
  if (none?.(error) !== true) throw error
  if (confirm !== undefined && !(await isConfirmed(confirm, run))) throw error
  return 0
}

async function isConfirmed({ sql, parameters, refused }: Confirmation, run: RunStatement): Promise<boolean> {
  try {
    return (await run(sql, parameters)).rows.length > 0
  } catch (error) {
    if (refused(error)) return true
    throw error
  }
}

/** A transaction on a connection of a pool. */
export interface OpenSession<Handle> {
  readonly session: Session<Handle>
  commit(): Promise<void>
  /** Never rejects. */
  rollBack(): Promise<void>
  /** The connection is not to be used again. */
  breakOff(error: unknown): void
  /** Why, if it is not. */
  broken(): Error | undefined
}

/** Does the work, then commits; rolls back if it rejects, and rejects with its error. `end` comes last, however it ended. */
export async function workInSession<Handle, R>(
  opened: OpenSession<Handle>,
  work: (session: Session<Handle>) => Promise<R>,
  end: () => Promise<void> | undefined,
): Promise<R> {
  try {
    let result: R
    try {
      result = await work(opened.session)
    } catch (error) {
      await opened.rollBack()
      throw error
    }
    await opened.commit()
    return result
  } finally {
    const ending = end()
    if (ending !== undefined) await ending
  }
}

/** A pool may have no connection to give for a long time; an abort does not wait for it. One that comes later is given back. */
export function lend<Connection>(
  connecting: Promise<Connection>,
  giveBack: (late: Connection) => unknown,
  signal: AbortSignal,
): Promise<Connection> {
  return new Promise((resolve, reject) => {
    let isLate = signal.aborted
    const onAbort = () => {
      isLate = true
      reject(signal.reason)
    }
    if (isLate) reject(signal.reason)
    else signal.addEventListener('abort', onAbort, { once: true })
    connecting.then(
      (connection) => {
        signal.removeEventListener('abort', onAbort)
        if (isLate) giveBack(connection)
        else resolve(connection)
      },
      (error: unknown) => {
        signal.removeEventListener('abort', onAbort)
        reject(error)
      },
    )
  })
}
