import type { Context, TransactionScope } from '@ackord/core'
import { hints } from '@ackord/core/internal'
import type { RecordTaker } from '@ackord/outbox'
import type { TableOptions, Tables } from '../contract/database-options.ts'
import type { Dialect } from '../contract/dialect.ts'
import { changeNow, confirmNone, type Driver, type RunStatement, type Session, type Statement } from '../contract/driver.ts'
import type { QueryTracker } from '../contract/query-tracker.ts'
import type { Lane } from '../contract/statement-queue.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import type { Order } from '../records/row.ts'

/** A running transaction as a context has it. */
export interface OpenTransaction<Handle> {
  readonly handle: Handle
  readonly change: Session<Handle>['change']
  readonly changeLater: Session<Handle>['changeLater']
  /** Starts something of several steps. In a transaction of ours it is waited for, and if it fails and nobody awaited it, so does the transaction. */
  watch<T>(start: () => Promise<T>): Promise<T>
  readonly sendsTogether: boolean
  readonly tellsRows: boolean
  /** Whether the events of several messages are stored by one statement at the end, and so go to `gather`. */
  readonly gathers: boolean
  readonly gather: GatherRows
  /** Throws if a transaction of ours has ended. */
  checkOpen(): void
  /** `undefined` in a transaction of the user's own, whose end nobody tells us. */
  readonly own: OwnTransaction<Handle> | undefined
}

/** Takes rows for an outbox table. */
type GatherRows = (table: string, rows: readonly OutboxRow[]) => void

export interface OwnTransaction<Handle> {
  readonly session: Session<Handle>
  readonly gather?: GatherRows | undefined
  /** Stores what was gathered before whatever comes next. Absent where nothing is gathered. */
  readonly flush?: (() => Promise<void> | undefined) | undefined
  readonly scope: TransactionScope
  /** Whether it is one, and may be undone while the transaction goes on. */
  readonly isSavepoint: boolean
  readonly savepoints: Savepoints
  /** What it is a savepoint in. */
  readonly outer?: OwnTransaction<Handle> | undefined
  /** In which its own savepoints take turns. Made when it is needed. */
  turns?: Lane | undefined
  /** Whether it was a savepoint that has ended. */
  isOver?: boolean | undefined
}

/** Shared by all savepoints of a transaction. */
interface Savepoints {
  /** How many there were, so that their names differ. */
  count: number
  /** Why one could not be rolled back: what it left behind must not be committed. */
  failure?: { readonly error: unknown } | undefined
}

/** What the middleware and stores need of a database. */
export interface DatabasePort<Handle> {
  readonly dialect: Dialect
  readonly driver: Driver<Handle>
  readonly wakeUps: WakeUps
  readonly takers: RecordTakers
  tables(options: TableOptions): Tables
  /** As the dialect's, with a word to other processes if the database was made so. */
  appender(table: string): ReturnType<Dialect['appender']>
  /** What was asked for, else what the database was made with. Throws where it cannot be had. */
  order(asked: Order | undefined): Order
  find(context: Context): OpenTransaction<Handle> | undefined
  /** Makes a transaction known, by context and by handle. */
  enter(context: Context, opened: OpenTransaction<Handle>): Context
  /** The transaction behind a handle that we gave out. */
  behind(handle: Handle): OpenTransaction<Handle> | undefined
}

/** A class, because one is made per message. */
class OwnOpenTransaction<Handle> implements OpenTransaction<Handle> {
  readonly handle: Handle
  readonly own: OwnTransaction<Handle>
  readonly #tracker: QueryTracker

  constructor(own: OwnTransaction<Handle>, tracker: QueryTracker) {
    this.handle = own.session.track(tracker)
    this.own = own
    this.#tracker = tracker
  }

  get sendsTogether(): boolean {
    return this.own.session.sendsTogether
  }

  /** In a savepoint, a row that was told may be rolled back later. */
  get tellsRows(): boolean {
    return this.own.session.tellsRows === true && !this.#isInSavepoint
  }

  /** In a savepoint, rows are stored where they belong: they may be rolled back with what is around them. */
  get gathers(): boolean {
    return this.own.gather !== undefined && !this.#isInSavepoint
  }

  /** Whether one was made by hand, or one of ours is open: this handle may be used inside of it. */
  get #isInSavepoint(): boolean {
    return this.#tracker.usesSavepoints || this.own.turns?.busy === true
  }

  change(statement: Statement): number | Promise<number> {
    return this.#tracker.follow(() => this.own.session.change(statement))
  }

  changeLater(statement: Statement, explain: (error: unknown) => unknown): Promise<void> | undefined {
    return this.#tracker.follow(() => this.own.session.changeLater(statement, explain))
  }

  watch<T>(start: () => Promise<T>): Promise<T> {
    // What comes after the end can fail nothing any more, and must not be silent.
    return this.#tracker.ended ? start() : this.#tracker.watchSteps(start)
  }

  checkOpen(): void {
    this.#tracker.checkOpen()
  }

  gather(table: string, rows: readonly OutboxRow[]): void {
    this.#tracker.checkOpen()
    this.own.gather?.(table, rows)
  }
}

/** What a transaction or savepoint of ours is in its context. */
export function openTransaction<Handle>(own: OwnTransaction<Handle>, tracker: QueryTracker): OpenTransaction<Handle> {
  return new OwnOpenTransaction(own, tracker)
}

/** A transaction of the user's own. */
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
    changeLater: changeNow(change),
    watch: (start) => start(),
    sendsTogether: false,
    tellsRows: false,
    gathers: false,
    gather() {},
    checkOpen() {},
    own: undefined,
  }
}

/** Who takes what this process stores in an outbox, right after its commit. By table, because a pool may have several. */
export class RecordTakers {
  readonly #takers = new Map<string, RecordTaker>()

  /** The latest counts. Gives what detaches it. */
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

/** Tells whoever waits in this process that there may be something to relay. A hint: nothing is kept for those who do not wait, except one. */
export class WakeUps {
  readonly #listeners = new Set<() => void>()

  wake(): void {
    for (const listener of [...this.#listeners]) listener()
  }

  /** Yields once for every number of wake-ups since the last. Ends when the signal is aborted. */
  listen(signal: AbortSignal): AsyncGenerator<void, void, void> {
    const follow = (wake: () => void) => {
      this.#listeners.add(wake)
      return () => void this.#listeners.delete(wake)
    }
    return hints(follow, signal)
  }
}
