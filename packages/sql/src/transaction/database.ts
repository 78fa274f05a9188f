import {
  AckordError,
  type Context,
  type ContextKey,
  contextKey,
  currentContext,
  type Logger,
  rootContext,
  TransactionRequiredError,
} from '@ackord/core'
import { PartPorts } from '@ackord/core/internal'
import { type FromOptions, type ModeOptions, storageOf } from '../contract/database-options.ts'
import type { AppendTarget, Dialect } from '../contract/dialect.ts'
import type { Driver } from '../contract/driver.ts'
import { tablesOf } from '../contract/tables.ts'
import { type DatabasePort, foreignTransaction, type OpenTransaction, RecordTakers, WakeUps } from './open-transaction.ts'
import { type RunTransaction, type TransactionOptions, transactionRules, transactionRunner } from './run-transaction.ts'

export interface ExecutorOptions {
  /** Whether a missing transaction is an error instead of falling back to the pool. Default: false. */
  readonly required?: boolean | undefined
}

/** The state of a pool, however often it is wrapped: with two keys, a repository would miss the transaction of its own pool. */
interface PoolState {
  readonly key: ContextKey<OpenTransaction<unknown>>
  readonly wakeUps: WakeUps
  readonly takers: RecordTakers
}

const states = new WeakMap<object, PoolState>()

/** @internal */
export let portOf: <Handle>(database: Database<Handle>) => DatabasePort<Handle>

export interface DatabaseOptions<Handle> extends FromOptions, ModeOptions {
  readonly driver: Driver<Handle>
  readonly dialect: Dialect
  /** Whether storing events notifies other processes. Default: false. */
  readonly notify?: boolean | undefined
  /** For whatever works on the database and has none. Default: that of the first router, relay or service that uses it; until then the console, from `info` up. */
  readonly logger?: Logger | undefined
}

/**
 * A pool and the transactions on it. `Handle` is the type that both share; adapters use it without knowing which one they have. Created by `fromPg()`
 * and the other `from…` functions.
 */
export class Database<Handle> {
  readonly #port: DatabasePort<Handle>
  readonly #pool: Handle
  #byDefault: RunTransaction | undefined

  static {
    portOf = (database) => database.#port
  }

  constructor(options: DatabaseOptions<Handle>) {
    const { driver, dialect } = options
    storageOf(dialect, {}, options)
    // A handle is an object with a query function.
    const state = stateOf(driver.pool as object)
    const { key, wakeUps, takers } = state
    this.#pool = driver.pool
    this.#port = {
      dialect,
      driver,
      ports: new PartPorts({ logger: options.logger }),
      wakeUps,
      takers,
      tables: (asked) => tablesOf(dialect, asked, options),
      appender: (target) => appenderOf(dialect, target, options.notify ?? false),
      storage: (asked) => storageOf(dialect, asked, options),
      // The state belongs to this pool, so its values were stored with this type.
      find: (context) => context.get(key) as OpenTransaction<Handle> | undefined,
      enter(context, opened) {
        setMark(opened.handle as object, state, opened)
        return context.with(key, opened)
      },
      behind: (handle) => markOf(handle, state) as OpenTransaction<Handle> | undefined,
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

  /**
   * Does the work in a transaction, outside of a router: a request, a job. Commits when it resolves, rolls back when it rejects or the context's
   * signal is aborted. Inside of a transaction of the library it is a savepoint. `context` defaults to the ambient one.
   *
   *     await database.write(async (transaction) => {
   *       await transaction.query('insert into orders …')
   *       await outbox.append(transaction, orderPlaced({ orderId }))
   *     })
   */
  async write<R>(
    work: (transaction: Handle, context: Context) => Promise<R>,
    options: TransactionOptions & { readonly context?: Context | undefined } = {},
  ): Promise<R> {
    const { context = currentContext() ?? rootContext(), ...settings } = options
    const runTransaction = Object.keys(settings).length === 0 ? this.#runByDefault() : this.#runnerOf(settings)
    return await runTransaction(
      {
        message: undefined,
        // Present: the runner put it there.
        run: (inside) => work(this.transaction(inside) as Handle, inside),
      },
      context,
    )
  }

  /** A context inside of a transaction that the caller begins, commits and rolls back. Messages that are acked in it are acked immediately. */
  withTransaction(context: Context, transaction: Handle): Context {
    if (transaction === this.#pool) {
      throw new AckordError(
        'ACKORD_TRANSACTION_REQUIRED',
        'withTransaction() was called with the pool itself. Pass the client that began the transaction.',
      )
    }
    const { driver, behind, enter } = this.#port
    return enter(context, behind(transaction) ?? foreignTransaction(driver, transaction))
  }

  #runnerOf(options: TransactionOptions): RunTransaction {
    return transactionRunner(this.#port, transactionRules(this.#port, 'write()', options))
  }

  #runByDefault(): RunTransaction {
    this.#byDefault ??= this.#runnerOf({})
    return this.#byDefault
  }
}

function stateOf(pool: object): PoolState {
  let state = states.get(pool)
  if (state === undefined) {
    state = {
      key: contextKey('ackord.sql.transaction', { callScoped: true }),
      wakeUps: new WakeUps(),
      takers: new RecordTakers(),
    }
    states.set(pool, state)
  }
  return state
}

/** The last statement notifies listeners; the server merges the notifications of a transaction. */
function appenderOf(dialect: Dialect, target: AppendTarget, notify: boolean): ReturnType<Dialect['appender']> {
  const append = dialect.appender(target)
  const notification = notify ? dialect.notifier?.(target.outbox) : undefined
  return notification === undefined ? append : (rows, session) => [...append(rows, session), notification]
}

/** Returns the given object from the constructor, so that a subclass adds its private fields to that object. */
class SameObject {
  constructor(object: object) {
    // biome-ignore lint/correctness/noConstructorReturn: that is the point.
    return object
  }
}

/**
 * A value attached to an object, in a private field of that object. A WeakMap would do the same, but with an entry per message, until the next full
 * garbage collection, it costs more than the rest of a transaction's bookkeeping.
 */
class Mark extends SameObject {
  #owner: object
  #value: unknown

  constructor(object: object, owner: object, value: unknown) {
    super(object)
    this.#owner = owner
    this.#value = value
  }

  static set(object: object, owner: object, value: unknown): void {
    if (#owner in object) {
      object.#owner = owner
      object.#value = value
    } else {
      new Mark(object, owner, value)
    }
  }

  static get(object: object, owner: object): unknown {
    return #owner in object && object.#owner === owner ? object.#value : undefined
  }
}

/** The latest mark of an object wins. */
function setMark(object: object, owner: object, value: unknown): void {
  Mark.set(object, owner, value)
}

/** The value that the owner has attached to the object, unless another owner has replaced it. */
function markOf(object: unknown, owner: object): unknown {
  const canHaveOne = (typeof object === 'object' && object !== null) || typeof object === 'function'
  return canHaveOne ? Mark.get(object, owner) : undefined
}
