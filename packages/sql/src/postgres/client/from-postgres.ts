import { checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import type { Driver, Session, Statement, StatementResult } from '../../contract/driver.ts'
import { CommitUnknownError, TransactionAbortedError, TransactionEndedError } from '../../errors.ts'
import { callbackTransaction } from '../../orm/callback-transaction.ts'
import type { Row } from '../../records/row.ts'
import { Database } from '../../transaction/database.ts'
import { type PostgresOptions, postgresDialect } from '../dialect.ts'
import { endsConnection, refusedCommit, sqlStateOf } from '../errors.ts'
import { withArrayLiterals } from '../sql-text.ts'
import {
  follow,
  type PostgresQuery,
  type PostgresQueryable,
  type PostgresTransaction,
  type QueryRules,
  trackedHandle,
} from './postgres-js-handle.ts'

/** The part of the `sql` of postgres.js that is used. */
export interface PostgresClient extends PostgresQueryable {
  // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is found by inference.
  begin(options: string, work: (transaction: any) => unknown): Promise<unknown>
  readonly options: { readonly prepare?: unknown; readonly transform?: unknown }
}

/** The `sql` itself or that of a transaction: their common methods can be used without knowing which one it is. */
export type PostgresHandle<Client extends PostgresClient> = Client | Parameters<Parameters<Client['begin']>[1]>[0]

export interface FromPostgresOptions extends PostgresOptions {
  /**
   * Whether the library's own statements are prepared on their connection; see `fromPg()`. Default: true, unless the client was created with
   * `prepare: false`.
   */
  readonly preparedStatements?: boolean | undefined
}

/** The type of a database of `fromPostgres()`, to pass it around: `PostgresDatabase<Sql>`. */
export type PostgresDatabase<Client extends PostgresClient> = Database<PostgresHandle<Client>>

/**
 * A database on postgres.js. In a transaction queries are tracked, in all of their forms except cursors and streams, which must be finished before
 * the handler returns. `savepoint` is that of postgres.js; a `notify` is sent outside of the transaction, as always.
 */
export function fromPostgres<Client extends PostgresClient>(sql: Client, options: FromPostgresOptions = {}): PostgresDatabase<Client> {
  const { preparedStatements = true, schema, names, order, mode, notify, ...unknown } = options
  rejectUnknownOptions('fromPostgres()', unknown)
  checkFunction('fromPostgres(sql).begin', sql?.begin)
  checkFunction('fromPostgres(sql).unsafe', sql.unsafe)
  const rules = { prepare: preparedStatements && sql.options?.prepare !== false, columnName: columnNameOf(sql) }
  // Inside, only `unsafe` is used; outside, everything is passed through.
  const driver = postgresDriver(sql, rules) as unknown as Driver<PostgresHandle<Client>>
  return new Database({ schema, names, order, mode, notify, dialect: postgresDialect, driver })
}

function postgresDriver(sql: PostgresClient, rules: PostgresRules): Driver<PostgresQueryable> {
  return {
    pool: sql,
    run: (handle, text, parameters, options) => runOn(handle, { sql: text, parameters, prepare: options?.prepare }, rules),
    // A transaction that has ended still accepts queries, on a connection that may belong to another one: only the server knows.
    inTransaction: (handle) => ('begin' in handle && !('release' in handle) ? false : undefined),
    async transaction(settings, work, signal) {
      const opened = openPostgresSession(rules)
      const result = await callbackTransaction(
        // Resolves to the result of the work.
        (inside) => sql.begin('', (transaction) => opened.unlessLost(inside(transaction))) as ReturnType<typeof inside>,
        (transaction: PostgresTransaction) =>
          opened.work(transaction, async function begun(session) {
            if (settings.length > 0) await session.script(settings.join('; '))
            return await work(session)
          }),
        { signal, refusedCommit, onLost: opened.markBroken },
      )
      await opened.checkCommitted()
      return result
    },
  }
}

/** postgres.js may be configured to rename columns (`transform: postgres.camel`), including those of the library. */
function columnNameOf({ options }: PostgresClient): ((name: string) => string) | undefined {
  const transform = options?.transform as { readonly column?: { readonly from?: (name: string) => string } } | undefined
  return transform?.column?.from
}

interface PostgresRules {
  /** Whether statements may be prepared. */
  readonly prepare: boolean
  /** How the client renames a column. */
  readonly columnName: ((name: string) => string) | undefined
}

interface PostgresResult extends ReadonlyArray<Row> {
  readonly count: number | null
}

/** A statement that has not been awaited yet. */
interface Late {
  readonly query: PostgresQuery
  readonly explain: (error: unknown) => unknown
}

/** A transaction of postgres.js, with the state that the driver needs. */
interface OpenPostgresSession {
  /** Does the work, then checks the transaction. */
  work<R>(transaction: PostgresTransaction, work: (session: Session<PostgresQueryable>) => Promise<R>): Promise<R>
  /** The result for the callback of `begin`: the same promise, which never settles once the connection is lost. */
  unlessLost<R>(working: Promise<R>): Promise<R>
  /** Called after the answer to COMMIT: throws if the answer was ROLLBACK. */
  checkCommitted(): Promise<void>
  /** The connection is lost. */
  markBroken(error: unknown): void
}

/**
 * Statements that need not be awaited are sent immediately, so that the outbox, the final check of the transaction and COMMIT take one round trip.
 * Once the connection is lost nothing more is sent, not even the ROLLBACK of postgres.js: it would go to the connection that replaces it.
 */
function openPostgresSession(rules: PostgresRules): OpenPostgresSession {
  const running = new Set<PostgresQuery>()
  let onLoss: ((error: unknown) => void) | undefined
  const loss = new Promise<never>((_, reject) => {
    onLoss = reject
  })
  loss.catch(() => {})
  let late: readonly Late[] = []
  let lost: { readonly error: unknown } | undefined
  let ended: TransactionEndedError | undefined

  const watch: QueryRules = {
    onStart(query) {
      if (lost !== undefined) throw lost.error
      if (ended !== undefined) throw ended
      running.add(query)
    },
    onEnd(query, error, result) {
      running.delete(query)
      if (isLoss(error)) markBroken(error)
      if (endsTransaction(result)) ended ??= new TransactionEndedError()
    },
    scope: (start) => Promise.race([start(unlessLost), loss]),
  }

  function markBroken(error: unknown): void {
    if (lost !== undefined) return
    lost = { error }
    onLoss?.(error)
    // Queries that postgres.js has not sent yet would never get an answer.
    for (const query of running) query.reject(error)
  }

  function send(transaction: PostgresTransaction, statement: Statement): PostgresQuery {
    const query = follow(queryOf(transaction, statement, rules), watch)
    // Sends the query. It may never be awaited.
    query.catch(() => {})
    return query
  }

  function sessionOn(transaction: PostgresTransaction): Session<PostgresQueryable> {
    const run = async (statement: Statement) => resultOf(await send(transaction, statement), rules)
    return {
      run: (sql, parameters = []) => run({ sql, parameters }),
      change: async (statement) => (await run(statement)).count,
      async deferStatement(statement, explain) {
        late = [...late, { query: send(transaction, statement), explain }]
      },
      supportsPipelining: rules.prepare,
      ended: () => ended,
      async script(sql) {
        await send(transaction, { sql })
      },
      track: (tracker) => trackedHandle(transaction, tracker, watch),
    }
  }

  async function unlessLost<R>(working: Promise<R>): Promise<R> {
    try {
      const result = await working
      if (lost === undefined) return result
    } catch (error) {
      if (lost === undefined) throw error
    }
    return await new Promise<never>(() => {})
  }

  return {
    async work(transaction, work) {
      try {
        const result = await work(sessionOn(transaction))
        if (ended !== undefined) throw new CommitUnknownError(ended)
        // Fails in an aborted transaction, and outside of one.
        late = [...late, { query: send(transaction, { sql: 'SAVEPOINT ackord_last' }), explain: (error) => error }]
        if (lost !== undefined) throw lost.error
        return result
      } catch (error) {
        // A query from a `file()` may not have been sent yet, and must not run after the rollback.
        while (running.size > 0) await Promise.allSettled(running)
        throw error
      }
    },

    unlessLost,

    async checkCommitted() {
      for (const { query, explain } of late) {
        try {
          await query
        } catch (error) {
          if (sqlStateOf(error) === '25P02') throw new TransactionAbortedError()
          throw sqlStateOf(error) === '25P01' ? new CommitUnknownError(new TransactionEndedError()) : explain(error)
        }
      }
    },

    markBroken,
  }
}

/** For several statements without rows postgres.js reports the command tag of the last one, which may be BEGIN after a COMMIT. */
const controlCommands: ReadonlySet<unknown> = new Set(['COMMIT', 'BEGIN', 'START TRANSACTION', 'PREPARE TRANSACTION'])

/** Whether the command tag of a query, or of one of several, says that it ended the transaction or began another one. */
function endsTransaction(result: unknown): boolean {
  if (typeof result !== 'object' || result === null) return false
  if ('command' in result && controlCommands.has(result.command)) return true
  return Array.isArray(result) && !('command' in result && typeof result.command === 'string') && result.some(endsTransaction)
}

/** Whether the connection can no longer be used; postgres.js and Node have different error codes for that. */
function isLoss(error: unknown): boolean {
  if (endsConnection(error)) return true
  return error instanceof Error && sqlStateOf(error) === undefined && 'code' in error && /^(CONNECT|E[A-Z]+$)/.test(String(error.code))
}

/** Created, not sent. */
function queryOf(handle: PostgresQueryable, { sql, parameters = [], prepare = false }: Statement, rules: PostgresRules): PostgresQuery {
  // The run-time shape, whatever the types say.
  return handle.unsafe(sql, withArrayLiterals(parameters) as never[], { prepare: prepare && rules.prepare }) as unknown as PostgresQuery
}

async function runOn(handle: PostgresQueryable, statement: Statement, rules: PostgresRules): Promise<StatementResult> {
  return resultOf(await queryOf(handle, statement, rules), rules)
}

function resultOf(result: unknown, { columnName }: PostgresRules): StatementResult {
  const rows = result as PostgresResult
  return { rows: columnName === undefined ? rows : rows.map((row) => renamed(row, columnName)), count: rows.count ?? 0 }
}

/** The row under the column names of the statement. */
function renamed(row: Row, columnName: (name: string) => string): Row {
  return new Proxy(row, { get: (target, name) => target[columnName(String(name))] })
}
