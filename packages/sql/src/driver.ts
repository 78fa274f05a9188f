import type { QueryTracker } from './query-tracker.ts'

export type Row = Readonly<Record<string, unknown>>

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

export interface Confirmation {
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
