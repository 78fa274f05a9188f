import { AckordError, InvalidOptionError } from '@ackord/core'
import { checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import type { Driver, StatementResult } from '../../contract/driver.ts'
import { StatementQueue } from '../../contract/statement-queue.ts'
import { callbackDriver, type RunQuery, type RunTracked } from '../../orm/callback-driver.ts'
import { flushingDriver, type UnitOfWork } from '../../orm/flushing-driver.ts'
import { type KnexClient, knexDriver } from '../../orm/knex.ts'
import { Database } from '../../transaction/database.ts'
import { type PostgresOptions, postgresDialect } from '../dialect.ts'
import { callbackDialect } from '../orm.ts'
import { readPgResult } from './pg-handle.ts'

/** The part of a `MikroORM` that is used. */
export interface MikroOrmClient {
  readonly em: object
}

/** The type of a database of `fromMikroOrm()`, to pass it around: `MikroOrmDatabase<MikroORM>`. */
export type MikroOrmDatabase<Client extends MikroOrmClient> = Database<Client['em']>

/**
 * A database on MikroORM 6, with its driver for PostgreSQL. Adapters get an `EntityManager`: in a transaction a fork with its own identity map, whose
 * queries are tracked; elsewhere `orm.em`, which requires a request context or a fork, as always. Changes that a handler has not flushed are flushed
 * before the commit.
 */
export function fromMikroOrm<Client extends MikroOrmClient>(orm: Client, options: PostgresOptions = {}): MikroOrmDatabase<Client> {
  const { schema, names, order, mode, notify, ...unknown } = options
  rejectUnknownOptions('fromMikroOrm()', unknown)
  // The run-time shape, whatever the types say.
  const root = orm?.em as unknown as MikroManager
  checkFunction('fromMikroOrm(orm).em.fork', root?.fork)
  const connection = root.getConnection('write')
  checkFunction('fromMikroOrm(orm).em.getConnection().getKnex', connection.getKnex)
  const send = senderOf(connection)
  const queues = new WeakMap<MikroManager, StatementQueue>()
  const units = new WeakMap<MikroManager, UnitOfWork>()

  const driver = callbackDriver<MikroManager>(
    {
      root,
      begin: (work) =>
        inTransaction(root, (transaction) => {
          queues.set(transaction, new StatementQueue())
          return work(transaction)
        }),
      run(manager, sql, parameters) {
        // The root may stand for a manager of the caller, in a transaction of the user.
        const start = () => send(manager === root ? undefined : manager.getTransactionContext(), sql, parameters)
        return queues.get(manager)?.run(start) ?? start()
      },
      track(transaction, run) {
        // Each transaction of the library has one.
        const tracked = trackedManager(transaction, queues.get(transaction) as StatementQueue, run)
        units.set(tracked.manager, tracked)
        return tracked.manager
      },
      // A nested transaction lasts longer than its statements, which have a queue of their own.
      reentrant: true,
      inTransaction: (manager) => manager.isInTransaction(),
    },
    callbackDialect,
  )
  // Handles are created by `track`.
  const flushing = flushingDriver(driver, (manager) => units.get(manager) as UnitOfWork)
  return new Database({ schema, names, order, mode, notify, dialect: postgresDialect, driver: flushing as unknown as Driver<Client['em']> })
}

/** Implemented here: MikroORM's own function would flush an unused manager, and hide the error of COMMIT behind that of the rollback. */
async function inTransaction<R>(root: MikroManager, work: (transaction: MikroManager) => Promise<R>): Promise<R> {
  const transaction = root.fork({ disableContextResolution: true })
  await transaction.begin()
  if (!transaction.isInTransaction()) throw new InvalidOptionError('fromMikroOrm(orm)', 'must not have disableTransactions.')
  try {
    const result = await work(transaction)
    await transaction.commit()
    return result
  } catch (error) {
    // Fails if the commit has ended the transaction, or the connection is lost.
    await transaction.rollback().catch(() => {})
    throw error
  }
}

/** Sends a statement of the library on the underlying Knex, with its parameters: MikroORM would write them into the text. */
type Send = (transaction: object | undefined, sql: string, parameters: readonly unknown[]) => Promise<StatementResult>

function senderOf(connection: MikroConnection): Send {
  const knex = connection.getKnex() as KnexClient
  // MikroORM has patched its Knex: without parameters it leaves question marks alone. No statement of the library with parameters contains one.
  const driver: Driver<object> = knexDriver(knex, callbackDialect, { text: (sql) => sql, read: readPgResult })
  return (transaction, sql, parameters) => driver.run(transaction ?? knex, sql, parameters)
}

/** The parts of an `EntityManager` that are used and not in its types. */
interface MikroManager {
  driver: MikroDriver
  fork(options: { readonly keepTransactionContext?: boolean; readonly disableContextResolution?: boolean }): MikroManager
  getConnection(type: 'write'): MikroConnection
  isInTransaction(): boolean
  /** A transaction of Knex. */
  getTransactionContext(): object | undefined
  begin(): Promise<void>
  commit(): Promise<void>
  rollback(): Promise<void>
  flush(): Promise<void>
  getUnitOfWork(): MikroUnitOfWork
}

interface MikroUnitOfWork {
  computeChangeSets(): void
  getChangeSets(): readonly unknown[]
  getCollectionUpdates(): readonly unknown[]
  getExtraUpdates(): ReadonlySet<unknown>
}

/** Creates the queries of all managers. */
interface MikroDriver {
  readonly connection: MikroConnection
  getConnection(type?: string): MikroConnection
}

/** Sends the queries: a pool, with the transaction among the arguments. */
interface MikroConnection {
  execute(query: unknown, parameters?: unknown, method?: string, transaction?: object, ...more: unknown[]): Promise<unknown>
  transactional(work: (transaction: object) => Promise<unknown>, options?: { readonly ctx?: object | undefined }): Promise<unknown>
  /** The Knex that MikroORM 6 is built on. */
  getKnex(): object
}

/** A manager in a transaction of the library, with every query tracked. */
interface TrackedManager extends UnitOfWork {
  readonly manager: MikroManager
}

/** A separate manager in the same transaction, with its own identity map. Queries go through the queue one after the other. */
function trackedManager(transaction: MikroManager, queue: StatementQueue, run: RunTracked): TrackedManager {
  let flushing = false
  const inTurn: RunQuery = (sql, start) => {
    const send: typeof start = (admit) => queue.run(() => start(admit))
    // The scope has ended by then, and these are the changes left in it.
    return flushing ? send(() => {}) : run(sql, send)
  }
  // A fork inherits the driver and passes it on to its own forks.
  const parentManager = transaction.fork({ keepTransactionContext: true })
  parentManager.driver = trackedDriver(transaction, run, inTurn)
  const manager = parentManager.fork({ keepTransactionContext: true })
  return {
    manager,
    changed() {
      const unit = manager.getUnitOfWork()
      unit.computeChangeSets()
      return unit.getChangeSets().length + unit.getCollectionUpdates().length + unit.getExtraUpdates().size > 0
    },
    async flush() {
      flushing = true
      try {
        await manager.flush()
      } finally {
        flushing = false
      }
    },
  }
}

/** The same driver with tracked connections, for queries in this transaction and nested ones. Other queries are let through. */
function trackedDriver(transaction: MikroManager, run: RunTracked, inTurn: RunQuery): MikroDriver {
  const { driver } = transaction
  // A transaction always has one.
  const inside = new WeakSet([transaction.getTransactionContext() as object])
  const isInside = (context: object | undefined) => context !== undefined && inside.has(context)

  function tracked(connection: MikroConnection): MikroConnection {
    const execute: MikroConnection['execute'] = (query, parameters, method, context, ...more) => {
      const send = () => connection.execute(query, parameters, method, context, ...more)
      return isInside(context) ? sendTracked(query, send, inTurn) : send()
    }
    const transactional: MikroConnection['transactional'] = (work, options) => {
      if (!isInside(options?.ctx)) return connection.transactional(work, options)
      const workNested = (nested: object) => {
        inside.add(nested)
        return work(nested)
      }
      // Sent before the savepoint, which waits in the queue.
      void run.admitSavepoint()
      // Tracked as a whole: an un-awaited nested transaction must be undone before the end, if it has to be.
      return run(undefined, () => connection.transactional(workNested, options))
    }
    const replaced: Record<string | symbol, unknown> = { execute, transactional, begin: refuse, commit: refuse, rollback: refuse }
    return new Proxy(connection, {
      get(target, name) {
        if (Object.hasOwn(replaced, name)) return replaced[name]
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  }

  return Object.create(driver, {
    connection: { value: tracked(driver.connection) },
    getConnection: { value: (type?: string) => tracked(driver.getConnection(type)) },
  })
}

/** MikroORM copies an error into one of its own. The original error becomes the cause, which stays unchanged. */
async function sendTracked(query: unknown, send: () => Promise<unknown>, inTurn: RunQuery): Promise<unknown> {
  let sent = false
  try {
    return await inTurn(textOf(query), () => {
      sent = true
      return send()
    })
  } catch (error) {
    if (sent || error instanceof AckordError) throw error
    throw new Error('The query was not sent: its transaction is rolled back.', { cause: error })
  }
}

/** The text of a string, or of the result of `raw()`. */
function textOf(query: unknown): unknown {
  return typeof query === 'object' && query !== null && 'sql' in query ? query.sql : query
}

async function refuse(): Promise<never> {
  throw new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    'The middleware begins, commits and rolls back. Throw to roll back; use em.transactional() for a part of it.',
  )
}
