import type { Context } from '@ackord/core'
import type { PartPorts, TransactionScope } from '@ackord/core/internal'
import { eachWakeUp } from '@ackord/core/internal'
import type { RecordTaker } from '@ackord/outbox'
import type { Storage, StorageOptions } from '../contract/database-options.ts'
import type { AppendTarget, Dialect } from '../contract/dialect.ts'
import { confirmNone, type Driver, type RunStatement, runWithoutDeferring, type Session, type Statement } from '../contract/driver.ts'
import type { QueryTracker } from '../contract/query-tracker.ts'
import type { StatementQueue } from '../contract/statement-queue.ts'
import type { TableOptions, Tables } from '../contract/tables.ts'
import type { OutboxRow } from '../records/outbox-row.ts'

/** A running transaction, as stored in a context. */
export interface OpenTransaction<Handle> {
  readonly handle: Handle
  readonly change: Session<Handle>['change']
  readonly deferStatement: Session<Handle>['deferStatement']
  /** Starts work of several steps. A transaction of the library waits for it, and fails if the work fails without having been awaited. */
  watch<T>(start: () => Promise<T>): Promise<T>
  readonly supportsPipelining: boolean
  readonly reportsRows: boolean
  /** Whether the events of several messages are stored by one statement at the end, and so are passed to `gather`. */
  readonly gathers: boolean
  readonly gather: GatherRows
  /** Throws if a transaction of the library has ended. */
  checkOpen(): void
  /** `undefined` in a transaction of the user, whose end is not known here. */
  readonly own: OwnTransaction<Handle> | undefined
}

/** Receives rows for an outbox table. */
export type GatherRows = (target: AppendTarget, rows: readonly OutboxRow[]) => void

export interface OwnTransaction<Handle> {
  readonly session: Session<Handle>
  readonly gather?: GatherRows | undefined
  /** Stores the gathered rows before the next statement. Absent where nothing is gathered. */
  readonly flush?: (() => Promise<void> | undefined) | undefined
  readonly scope: TransactionScope
  /** Whether it is a savepoint, which may be undone while the transaction continues. */
  readonly isSavepoint: boolean
  readonly savepoints: Savepoints
  /** The enclosing transaction or savepoint. */
  readonly outer?: OwnTransaction<Handle> | undefined
  /** The queue of its own savepoints. Created on demand. */
  turns?: StatementQueue | undefined
  /** Whether it was a savepoint that has ended. */
  isOver?: boolean | undefined
}

/** Shared by all savepoints of a transaction. */
interface Savepoints {
  /** The number of savepoints so far, so that their names differ. */
  count: number
  /** Why a savepoint could not be rolled back: its changes must not be committed. */
  failure?: { readonly error: unknown } | undefined
}

/** The interface of a database for middleware and stores. */
export interface DatabasePort<Handle> {
  readonly dialect: Dialect
  readonly driver: Driver<Handle>
  /** Of the database. Whatever works on it passes its own ports on. */
  readonly ports: PartPorts
  readonly wakeUps: WakeUps
  readonly takers: RecordTakers
  tables(options: TableOptions): Tables
  /** The dialect's appender, with a notification of other processes if the database is configured so. */
  appender(target: AppendTarget): ReturnType<Dialect['appender']>
  /** The mode and the order given here, else those of the database. Throws if they are not supported. */
  storage(asked: StorageOptions): Storage
  find(context: Context): OpenTransaction<Handle> | undefined
  /** Registers a transaction, by context and by handle. */
  enter(context: Context, opened: OpenTransaction<Handle>): Context
  /** The transaction behind a handle that the library has created. */
  behind(handle: Handle): OpenTransaction<Handle> | undefined
}

/** A class, because one is created per message. */
class OwnOpenTransaction<Handle> implements OpenTransaction<Handle> {
  readonly handle: Handle
  readonly own: OwnTransaction<Handle>
  readonly #tracker: QueryTracker

  constructor(own: OwnTransaction<Handle>, tracker: QueryTracker) {
    this.handle = own.session.track(tracker)
    this.own = own
    this.#tracker = tracker
  }

  get supportsPipelining(): boolean {
    return this.own.session.supportsPipelining
  }

  /** In a savepoint, a reported row may be rolled back later. */
  get reportsRows(): boolean {
    return this.own.session.reportsRows === true && !this.#isInSavepoint
  }

  /** In a savepoint, rows are stored immediately: they may be rolled back with it. */
  get gathers(): boolean {
    return this.own.gather !== undefined && !this.#isInSavepoint
  }

  /** Whether the user has created a savepoint, or one of the library is open: this handle may be used inside of it. */
  get #isInSavepoint(): boolean {
    return this.#tracker.usesSavepoints || this.own.turns?.busy === true
  }

  change(statement: Statement): number | Promise<number> {
    return this.#tracker.follow(() => this.own.session.change(statement))
  }

  deferStatement(statement: Statement, explain: (error: unknown) => unknown): Promise<void> | undefined {
    return this.#tracker.follow(() => this.own.session.deferStatement(statement, explain))
  }

  watch<T>(start: () => Promise<T>): Promise<T> {
    // After the end there is no transaction to fail, and the error must not be swallowed.
    return this.#tracker.ended ? start() : this.#tracker.watchSteps(start)
  }

  checkOpen(): void {
    this.#tracker.checkOpen()
  }

  gather(target: AppendTarget, rows: readonly OutboxRow[]): void {
    this.#tracker.checkOpen()
    this.own.gather?.(target, rows)
  }
}

/** A transaction or savepoint of the library, as stored in its context. */
export function openTransaction<Handle>(own: OwnTransaction<Handle>, tracker: QueryTracker): OpenTransaction<Handle> {
  return new OwnOpenTransaction(own, tracker)
}

/** A transaction of the user. */
export function foreignTransaction<Handle>(driver: Driver<Handle>, handle: Handle): OpenTransaction<Handle> {
  const run: RunStatement = (sql, parameters = []) => driver.run(handle, sql, parameters)

  async function change(statement: Statement): Promise<number> {
    const { sql, parameters = [], prepare } = statement
    try {
      return (await driver.run(handle, sql, parameters, { prepare })).count
    } catch (error) {
      return await confirmNone(statement, error, run)
    }
  }
  return {
    handle,
    change,
    deferStatement: runWithoutDeferring(change),
    watch: (start) => start(),
    supportsPipelining: false,
    reportsRows: false,
    gathers: false,
    gather() {},
    checkOpen() {},
    own: undefined,
  }
}

/** The receivers of records that this process stores in an outbox, right after the commit. By table, because a pool may have several. */
export class RecordTakers {
  readonly #takers = new Map<string, RecordTaker>()

  /** The latest receiver wins. Returns a function that detaches it. */
  attach(table: string, taker: RecordTaker): () => void {
    this.#takers.set(table, taker)
    return () => {
      if (this.#takers.get(table) === taker) this.#takers.delete(table)
    }
  }

  of(table: string): RecordTaker | undefined {
    return this.#takers.get(table)
  }
}

/** Wakes relays in this process when there may be records to publish. A hint: wake-ups without a listener are merged into one. */
export class WakeUps {
  readonly #listeners = new Set<() => void>()

  wake(): void {
    for (const listener of [...this.#listeners]) listener()
  }

  /** Yields once for any number of wake-ups since the last. Ends when the signal is aborted. */
  listen(signal: AbortSignal): AsyncGenerator<void, void, void> {
    const follow = (wake: () => void) => {
      this.#listeners.add(wake)
      return () => void this.#listeners.delete(wake)
    }
    return eachWakeUp(follow, signal)
  }
}
