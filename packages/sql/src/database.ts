import {
  AckordError,
  type Context,
  type ContextKey,
  contextKey,
  currentContext,
  TransactionRequiredError,
  type TransactionScope,
} from '@ackord/core'
import type { Dialect } from './dialect.ts'
import type { Driver, RunStatement, Session } from './driver.ts'
import type { QueryTracker } from './query-tracker.ts'
import { type TableOptions, type Tables, tablesOf } from './tables.ts'
import { WakeUps } from './wake-ups.ts'

export interface ExecutorOptions {
  /** Whether a missing transaction is an error instead of a reason to use the pool. Default: false. */
  readonly required?: boolean | undefined
}

/** A running transaction as a context has it. */
export interface OpenTransaction<Handle> {
  readonly handle: Handle
  readonly run: RunStatement
  /** `undefined` in a transaction of the user's own, whose end nobody tells us. */
  readonly own: OwnTransaction<Handle> | undefined
}

export interface OwnTransaction<Handle> {
  readonly session: Session<Handle>
  readonly scope: TransactionScope
  /** Shared by all savepoints of a transaction, so that their names differ. */
  readonly savepoints: { count: number }
}

/** What belongs to a pool, however often it is wrapped: with two keys, a repository would miss the transaction of its own pool. */
interface PoolState {
  readonly key: ContextKey<OpenTransaction<unknown>>
  readonly open: WeakMap<object, OpenTransaction<unknown>>
  readonly wakeUps: WakeUps
}

const states = new WeakMap<object, PoolState>()

/** For siblings: what the middleware and stores need of a database. */
export interface DatabasePort<Handle> {
  readonly dialect: Dialect
  readonly driver: Driver<Handle>
  readonly wakeUps: WakeUps
  tables(options: TableOptions): Tables
  find(context: Context): OpenTransaction<Handle> | undefined
  /** Makes a transaction known, by context and by handle. */
  enter(context: Context, opened: OpenTransaction<Handle>): Context
  /** The transaction behind a handle that we gave out. */
  behind(handle: Handle): OpenTransaction<Handle> | undefined
}

export let portOf: <Handle>(database: Database<Handle>) => DatabasePort<Handle>

export interface DatabaseOptions<Handle> extends TableOptions {
  readonly driver: Driver<Handle>
  readonly dialect: Dialect
}

/**
 * A pool and the transactions on it. `Handle` is the type that both share; adapters use it without knowing which one they have.
 * Made by `fromPg()` and its siblings.
 */
export class Database<Handle> {
  readonly #port: DatabasePort<Handle>
  readonly #pool: Handle

  static {
    portOf = (database) => database.#port
  }

  constructor(options: DatabaseOptions<Handle>) {
    const { driver, dialect } = options
    // A handle is an object: something with a query function.
    const state = stateOf(driver.pool as object)
    const { key, open, wakeUps } = state
    this.#pool = driver.pool
    this.#port = {
      dialect,
      driver,
      wakeUps,
      tables: (asked) => tablesOf(dialect, asked, options),
      // The state belongs to this pool, so that what is in it was put there with this type.
      find: (context) => context.get(key) as OpenTransaction<Handle> | undefined,
      enter(context, opened) {
        open.set(opened.handle as object, opened)
        return context.with(key, opened)
      },
      behind: (handle) => open.get(handle as object) as OpenTransaction<Handle> | undefined,
    }
  }

  /** The handle of the transaction that this context is in; `undefined` outside of one. `context` defaults to the ambient one. */
  transaction(context: Context | undefined = currentContext()): Handle | undefined {
    return context === undefined ? undefined : this.#port.find(context)?.handle
  }

  /** The handle of the transaction inside of one, the pool elsewhere. `context` defaults to the ambient one. */
  executor(context: Context | undefined = currentContext(), options: ExecutorOptions = {}): Handle {
    const transaction = this.transaction(context)
    if (transaction !== undefined) return transaction
    if (options.required === true) throw new TransactionRequiredError('executor({ required: true })')
    return this.#pool
  }

  /** A context inside of a transaction that the caller began, commits and rolls back. Messages that are acked in it are acked at once. */
  withTransaction(context: Context, transaction: Handle): Context {
    if (transaction === this.#pool) {
      throw new AckordError(
        'ACKORD_TRANSACTION_REQUIRED',
        'withTransaction() was given the pool itself. Give it the client that began the transaction.',
      )
    }
    const { driver, behind, enter } = this.#port
    const opened = behind(transaction) ?? {
      handle: transaction,
      run: (sql, parameters = []) => driver.run(transaction, sql, parameters),
      own: undefined,
    }
    return enter(context, opened)
  }
}

/** For siblings: what a transaction or savepoint of ours is in its context. */
export function openTransaction<Handle>(own: OwnTransaction<Handle>, tracker: QueryTracker): OpenTransaction<Handle> {
  const { session } = own
  return { handle: session.track(tracker), run: (sql, parameters) => tracker.run(() => session.run(sql, parameters)), own }
}

function stateOf(pool: object): PoolState {
  let state = states.get(pool)
  if (state === undefined) {
    state = { key: contextKey('ackord.sql.transaction', { callScoped: true }), open: new WeakMap(), wakeUps: new WakeUps() }
    states.set(pool, state)
  }
  return state
}
