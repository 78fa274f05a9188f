import type { Logger, Runtime } from '@ackord/core'
import type { TransactionEndedError } from '../errors.ts'
import type { Row } from '../records/row.ts'
import type { QueryTracker } from './query-tracker.ts'

export interface StatementResult {
  readonly rows: readonly Row[]
  /** The number of changed rows. */
  readonly count: number
}

/** Runs one statement of the library, unnamed: a named statement would get a generic plan, which ruins the claim. */
export type RunStatement = (sql: string, parameters?: readonly unknown[]) => Promise<StatementResult>

/** A statement of which only the number of rows matters, so that it can be pipelined with others. */
export interface Statement {
  readonly sql: string
  readonly parameters?: readonly unknown[] | undefined
  /** Whether preparing it pays off: its text is always the same, and its plan does not depend on the parameters. */
  readonly prepare?: boolean | undefined
  /** Called with the column values of each returned row. Only in a session with `reportsRows`. Optional. */
  readonly onRow?: ((values: readonly unknown[]) => void) | undefined
  /** Whether an error means that the statement changed no row and undid nothing else. Default: no error does. */
  readonly none?: ((error: unknown) => boolean) | undefined
  /** The query that must return a row before `none` is believed: the error may come from a trigger. Default: `none` is believed. */
  readonly confirm?: Confirmation | undefined
}

interface Confirmation {
  readonly sql: string
  readonly parameters: readonly unknown[]
  /** Whether an error of the query means that the user lacks the privilege to run it; `none` is then believed. */
  refused(error: unknown): boolean
}

/** A connection with a transaction open on it. */
export interface Session<Handle> {
  readonly run: RunStatement
  /**
   * Runs a statement and returns the number of changed rows: synchronously where the database is in this process; it then also throws synchronously.
   */
  change(statement: Statement): number | Promise<number>
  /**
   * Runs a statement before the next one, at the latest before COMMIT: in the same round trip where the driver can. Its failure is therefore the
   * failure of that statement, or of the transaction; `explain` turns it into a better error. Returns `undefined` if the statement is deferred or
   * done.
   */
  deferStatement(statement: Statement, explain: (error: unknown) => unknown): Promise<void> | undefined
  /** Whether several deferred statements cost one round trip, so that there is no need to save statements. */
  readonly supportsPipelining: boolean
  /** Whether `onRow` is called before the end of the transaction. Default: false. */
  readonly reportsRows?: boolean | undefined
  /**
   * An error if the transaction is known to have ended already, or to be a different one now: from the server's answers so far, without a query.
   * Absent where the client does not expose this; the end of the transaction is then the first to find out.
   */
  ended?(): TransactionEndedError | undefined
  /** Runs several statements without parameters, in one round trip. */
  script(sql: string): Promise<void>
  /**
   * The handle for the user's adapters, in the type of the user's own client. Every query goes through the tracker, which waits for it and can refuse
   * it.
   */
  track(tracker: QueryTracker): Handle
}

/** Created by a `from…` adapter from a client. Transactions are callbacks, because every ORM supports those. */
export interface Driver<Handle> {
  /** The handle used outside of a transaction. */
  readonly pool: Handle

  /** Runs one statement on a handle: the pool, or a transaction of the user. `prepare` is as in a `Statement`. */
  run(
    handle: Handle,
    sql: string,
    parameters: readonly unknown[],
    options?: { readonly prepare?: boolean | undefined },
  ): Promise<StatementResult>

  /** Whether a handle of the user is in a transaction, where the driver knows; `undefined` where only the server does. */
  inTransaction(handle: Handle): boolean | undefined

  /**
   * Begins with these settings (the dialect's statements), does the work, then commits; rolls back if the work rejects, and rejects with its error.
   * Once the work has resolved, a `CommitUnknownError` means that the outcome is unknown; every other rejection means that nothing was committed. A
   * connection in an unknown state is never used again. Does not begin on an aborted signal; may begin as late as with the first statement.
   */
  transaction<R>(settings: readonly string[], work: (session: Session<Handle>) => Promise<R>, signal: AbortSignal): Promise<R>

  /** Does work on one connection outside of a transaction, for databases where DDL would end it. Absent where a transaction can contain DDL. */
  connection?<R>(work: (session: Pick<Session<Handle>, 'run' | 'script'>) => Promise<R>): Promise<R>
}

/** An implementation of `deferStatement` for drivers that gain nothing from deferring. */
export function runWithoutDeferring(change: Session<unknown>['change']): Session<unknown>['deferStatement'] {
  return function deferStatement(statement, explain) {
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

/**
 * For a statement that failed: resolves to 0 if the error means that it changed no row, otherwise rejects with the error. `run` is in the same
 * transaction.
 */
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
  /** The connection must not be used again. */
  markBroken(error: unknown): void
  /** Why the connection must not be used again; `undefined` if it may be. */
  broken(): Error | undefined
}

/** Does the work, then commits; rolls back if the work rejects, and rejects with its error. `end` is called last in every case. */
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

/** Waits for a connection of a pool, which may take long, but not beyond an abort. A connection that arrives later is released. */
export function acquire<Connection>(
  connecting: Promise<Connection>,
  release: (late: Connection) => unknown,
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
        if (isLate) release(connection)
        else resolve(connection)
      },
      (error: unknown) => {
        signal.removeEventListener('abort', onAbort)
        reject(error)
      },
    )
  })
}

export interface FollowOptions {
  readonly signal: AbortSignal
  readonly runtime: Runtime
  readonly logger: Logger
}

/** Wakes relays when other processes commit. A hint only: commits missed while the connection is down are found by polling. */
export interface Notifications {
  /** Calls `wake` for every commit that stored rows in this outbox table (quoted), until the signal is aborted. Reconnects. Never rejects. */
  follow(table: string, wake: () => void, options: FollowOptions): Promise<void>
}
