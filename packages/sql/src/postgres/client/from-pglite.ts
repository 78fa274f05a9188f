import { checkFunction } from '@ackord/core/internal'
import { type Driver, runWithoutDeferring, type Session, type Statement, type StatementResult } from '../../contract/driver.ts'
import type { QueryTracker } from '../../contract/query-tracker.ts'
import { CommitUnknownError, TransactionAbortedError, TransactionEndedError } from '../../errors.ts'
import { Database } from '../../transaction/database.ts'
import { type PostgresOptions, postgresDialect } from '../dialect.ts'
import { refusedCommit, sqlStateOf } from '../errors.ts'
import { refuseControl } from '../transaction-control.ts'

interface PgliteResult {
  readonly rows: unknown[]
  readonly affectedRows?: number | undefined
}

interface PgliteQueryable {
  query(text: string, parameters?: unknown[]): Promise<PgliteResult>
  sql(strings: TemplateStringsArray, ...parameters: unknown[]): Promise<PgliteResult>
  exec(text: string): Promise<unknown>
}

/** The part of a `PGlite` that is used. */
export interface PgliteClient extends PgliteQueryable {
  transaction<R>(work: (transaction: PgliteQueryable) => Promise<R>): Promise<R>
}

/** The type of a database of `fromPglite()`, to pass it around: `PgliteDatabase<PGlite>`. */
export type PgliteDatabase<Client extends PgliteClient> = Database<Pick<Client, 'query' | 'sql' | 'exec'>>

/**
 * A database on a PGlite. It has one connection: inside of a handler everything must go through `database.executor()`, because the PGlite itself
 * waits until the transaction has ended.
 */
export function fromPglite<Client extends PgliteClient>(client: Client, options: PostgresOptions = {}): PgliteDatabase<Client> {
  checkFunction('fromPglite(client).transaction', client?.transaction)
  checkFunction('fromPglite(client).query', client.query)
  type Handle = Pick<Client, 'query' | 'sql' | 'exec'>
  // As in fromPg(): other forms of these calls are passed through.
  return new Database({ ...options, dialect: postgresDialect, driver: pgliteDriver(client) as unknown as Driver<Handle> })
}

function pgliteDriver(client: PgliteClient): Driver<PgliteQueryable> {
  return {
    pool: client,
    run,
    inTransaction: (handle) => ('rollback' in handle && 'closed' in handle ? handle.closed === false : undefined),
    async transaction(settings, work, signal) {
      let worked = false
      try {
        return await client.transaction(async function workInside(transaction) {
          signal.throwIfAborted()
          if (settings.length > 0) await transaction.exec(settings.join('; '))
          const result = await work(session(transaction))
          await checkNotAborted(transaction)
          worked = true
          return result
        })
      } catch (error) {
        throw worked && !refusedCommit(error) ? new CommitUnknownError(error) : error
      }
    },
  }
}

/** Older versions ignore the answer to COMMIT. */
async function checkNotAborted(transaction: PgliteQueryable): Promise<void> {
  try {
    // Fails in an aborted transaction, and outside of one.
    await transaction.query('SAVEPOINT ackord_last')
  } catch (error) {
    if (sqlStateOf(error) === '25P02') throw new TransactionAbortedError()
    throw sqlStateOf(error) === '25P01' ? new CommitUnknownError(new TransactionEndedError()) : error
  }
}

function session(transaction: PgliteQueryable): Session<PgliteQueryable> {
  async function change({ sql, parameters = [], onRow }: Statement): Promise<number> {
    const { rows, count } = await run(transaction, sql, parameters)
    if (onRow !== undefined) for (const row of rows) onRow(Object.values(row))
    return count
  }
  return {
    run: (sql, parameters = []) => run(transaction, sql, parameters),
    change,
    // In process there is no round trip to save.
    deferStatement: runWithoutDeferring(change),
    supportsPipelining: false,
    reportsRows: true,
    async script(sql) {
      await transaction.exec(sql)
    },
    track: (tracker) => trackedHandle(transaction, tracker),
  }
}

async function run(handle: PgliteQueryable, sql: string, parameters: readonly unknown[]): Promise<StatementResult> {
  const { rows, affectedRows } = await handle.query(sql, [...parameters])
  // Rows are objects: no statement of the library asks for arrays.
  return { rows: rows as StatementResult['rows'], count: affectedRows ?? 0 }
}

function trackedHandle(transaction: PgliteQueryable, tracker: QueryTracker): PgliteQueryable {
  return {
    query(text, ...more) {
      return tracker.run(async () => {
        refuseControl(text, tracker)
        return await transaction.query(text, ...more)
      })
    },
    sql(strings, ...parameters) {
      return tracker.run(async () => {
        refuseControl(strings[0], tracker)
        return await transaction.sql(strings, ...parameters)
      })
    },
    exec(text, ...more) {
      return tracker.run(async () => {
        refuseControl(text, tracker)
        return await transaction.exec(text, ...more)
      })
    },
  }
}
