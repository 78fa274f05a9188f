import type { Isolation } from '../dialect.ts'
import type { StatementResult } from '../driver.ts'

/** What differs between databases in a transaction that an ORM begins and ends. */
export interface CallbackDialect {
  /** Throws at a statement that would begin or end the transaction under our hands. */
  refuseControl(sql: unknown): void
  /** Whether the answer to COMMIT means that nothing was committed. */
  refusedCommit(error: unknown): boolean
  /** Whether a statement that fails is undone alone, and the transaction goes on. */
  readonly undoesAlone: boolean
  /** Whether DDL ends a transaction, so that the schema is made outside of one. */
  readonly ddlCommits: boolean
  /** Of the settings, the isolation that must be asked for before BEGIN. */
  isolationOf(settings: readonly string[]): Isolation | undefined
  /** The statements of a script of ours, as they are sent. */
  split(script: string): readonly string[]
  /** The same function for statements of ours, with parameters as the database's client takes them. */
  adapt<Handle>(run: RunOn<Handle>): RunOn<Handle>
  guard(options: GuardOptions): TransactionGuard
}

export type RunOn<Handle> = (handle: Handle, sql: string, parameters: readonly unknown[]) => Promise<StatementResult>

export interface GuardOptions {
  /** Sends a statement of ours at once. */
  send(sql: string): Promise<StatementResult>
  /** The error of the server behind that of the ORM. */
  serverError(error: unknown): unknown
}

/** Watches over a transaction whose answers an ORM keeps for itself. Nothing else is sent while one of its functions runs. */
export interface TransactionGuard {
  /** Comes first. Carries the settings out, except for the isolation. */
  begin(settings: readonly string[]): Promise<void>
  /**
   * Runs a statement, or rejects if it would not be in the transaction any more. `sql` and what `sending` is told are `undefined` for what
   * is known to leave the transaction open. `harmless` errors are known to undo the statement alone.
   */
  run<T>(sql: unknown, start: (sending: (sql: unknown) => void) => Promise<T>, harmless?: (error: unknown) => boolean): Promise<T>
  /** A statement of ours failed, and others that belong to it may be there already: it is all of them or none. */
  doom(error: unknown): void
  /** What failed was undone: a savepoint from before is there again. */
  restore(): void
  /** Comes last, before COMMIT. Rejects if that would not commit the whole. */
  finish(): Promise<void>
  /** Comes last, before ROLLBACK. Never rejects. */
  leave(): Promise<void>
}
