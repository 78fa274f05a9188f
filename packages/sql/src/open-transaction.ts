import type { Context, TransactionScope } from '@ackord/core'
import { confirmNone } from './confirm-none.ts'
import type { Dialect } from './dialect.ts'
import { changeNow, type Driver, type RunStatement, type Session, type Statement } from './driver.ts'
import type { Order } from './order.ts'
import type { OutboxRow } from './outbox-row.ts'
import type { QueryTracker } from './query-tracker.ts'
import type { RecordTakers } from './record-takers.ts'
import type { TableOptions, Tables } from './tables.ts'
import type { WakeUps } from './wake-ups.ts'

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
  /** `undefined` in a transaction of the user's own, whose end nobody tells us. */
  readonly own: OwnTransaction<Handle> | undefined
}

/** Takes rows for an outbox table. */
type GatherRows = (table: string, rows: readonly OutboxRow[]) => void

export interface OwnTransaction<Handle> {
  readonly session: Session<Handle>
  readonly gather?: GatherRows | undefined
  readonly scope: TransactionScope
  /** Whether it is one, and may be undone while the transaction goes on. */
  readonly isSavepoint: boolean
  /** Shared by all savepoints of a transaction, so that their names differ. */
  readonly savepoints: { count: number }
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

  get tellsRows(): boolean {
    return this.own.session.tellsRows === true
  }

  get gathers(): boolean {
    return this.own.gather !== undefined
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
    own: undefined,
  }
}
