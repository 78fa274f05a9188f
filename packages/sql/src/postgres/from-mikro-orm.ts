import { InvalidOptionError } from '@ackord/core'
import { checkFunction, checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { Driver, StatementResult } from '../driver.ts'
import { Lane } from '../lane.ts'
import { callbackDriver } from '../orm/callback-driver.ts'
import { type KnexClient, knexDriver } from '../orm/knex.ts'
import { callbackDialect } from './callback-dialect.ts'
import { flushingDriver, type UnitOfWork } from './flushing-driver.ts'
import { type MikroConnection, type MikroManager, trackedManager } from './mikro-orm-handle.ts'
import { readPgResult } from './pg-result.ts'
import { postgresDialect } from './postgres-dialect.ts'
import type { PostgresOptions } from './postgres-options.ts'

/** What is used of a `MikroORM`. */
export interface MikroOrmClient {
  readonly em: object
}

/**
 * A database on MikroORM 6, with its driver for PostgreSQL. Adapters get an `EntityManager`: in a transaction a fork with an identity map of
 * its own, whose queries are tracked; elsewhere `orm.em`, which wants a request context or a fork, as always. What a handler has changed and
 * not flushed is flushed before the commit.
 */
export function fromMikroOrm<Client extends MikroOrmClient>(orm: Client, options: PostgresOptions = {}): Database<Client['em']> {
  const { schema, names, order, notify, ...unknown } = options
  checkNoMore('fromMikroOrm()', unknown)
  // What is there at run time, whatever the types say.
  const root = orm?.em as unknown as MikroManager
  checkFunction('fromMikroOrm(orm).em.fork', root?.fork)
  const connection = root.getConnection('write')
  checkFunction('fromMikroOrm(orm).em.getConnection().getKnex', connection.getKnex)
  const send = senderOf(connection)
  const lanes = new WeakMap<MikroManager, Lane>()
  const units = new WeakMap<MikroManager, UnitOfWork>()

  const driver = callbackDriver<MikroManager>(
    {
      root,
      begin: (work) =>
        inTransaction(root, (transaction) => {
          lanes.set(transaction, new Lane())
          return work(transaction)
        }),
      run(manager, sql, parameters) {
        // The root may stand for a manager of the caller's, in a transaction that is none of ours.
        const start = () => send(manager === root ? undefined : manager.getTransactionContext(), sql, parameters)
        return lanes.get(manager)?.run(start) ?? start()
      },
      track(transaction, run) {
        // Each transaction of ours has one.
        const tracked = trackedManager(transaction, lanes.get(transaction) as Lane, run)
        units.set(tracked.manager, tracked)
        return tracked.manager
      },
      // A nested transaction lasts longer than its statements, which have a lane of their own.
      reentrant: true,
      inTransaction: (manager) => manager.isInTransaction(),
    },
    callbackDialect,
  )
  // Handles are what `track` made.
  const flushing = flushingDriver(driver, (manager) => units.get(manager) as UnitOfWork)
  return new Database({ schema, names, order, notify, dialect: postgresDialect, driver: flushing as unknown as Driver<Client['em']> })
}

/** By hand: MikroORM's own function would flush a manager that nobody uses, and hide the error of COMMIT behind that of the roll-back. */
async function inTransaction<R>(root: MikroManager, work: (transaction: MikroManager) => Promise<R>): Promise<R> {
  const transaction = root.fork({ disableContextResolution: true })
  await transaction.begin()
  if (!transaction.isInTransaction()) throw new InvalidOptionError('fromMikroOrm(orm)', 'must not have disableTransactions.')
  try {
    const result = await work(transaction)
    await transaction.commit()
    return result
  } catch (error) {
    // It fails if the commit has ended the transaction, or the connection is lost.
    await transaction.rollback().catch(() => {})
    throw error
  }
}

/** Sends a statement of ours on the Knex below, with its parameters: MikroORM would write them into the text. */
type Send = (transaction: object | undefined, sql: string, parameters: readonly unknown[]) => Promise<StatementResult>

function senderOf(connection: MikroConnection): Send {
  const knex = connection.getKnex() as KnexClient
  // MikroORM has changed its Knex: without parameters it leaves question marks alone. None of our statements with parameters has one.
  const driver: Driver<object> = knexDriver(knex, callbackDialect, { text: (sql) => sql, read: readPgResult })
  return (transaction, sql, parameters) => driver.run(transaction ?? knex, sql, parameters)
}
