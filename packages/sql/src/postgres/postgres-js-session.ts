import type { Row, Session, Statement, StatementResult } from '../driver.ts'
import { TransactionAbortedError } from '../errors.ts'
import { withArrayLiterals } from './array-literal.ts'
import { follow, type PostgresQuery, type QueryRules, trackedHandle } from './postgres-js-handle.ts'
import { endsConnection, sqlStateOf } from './sql-state.ts'

/** What is used of the `sql` of postgres.js and of those of its transactions. */
export interface PostgresQueryable {
  unsafe(sql: string, parameters?: never[], options?: { prepare?: boolean | undefined }): PromiseLike<unknown>
}

export interface PostgresTransaction extends PostgresQueryable {
  savepoint(name: string, work: (transaction: PostgresTransaction) => unknown): Promise<unknown>
}

export interface PostgresRules {
  /** Whether statements may be prepared. */
  readonly prepare: boolean
  /** What the client makes of the name of a column. */
  readonly columnName: ((name: string) => string) | undefined
}

interface PostgresResult extends ReadonlyArray<Row> {
  readonly count: number | null
}

/** A statement that nobody has waited for yet. */
interface Late {
  readonly query: PostgresQuery
  readonly explain: (error: unknown) => unknown
}

/** A transaction of postgres.js, and what must be known of it from outside. */
export interface OpenPostgresSession {
  /** Does the work, then takes a last look. */
  work<R>(transaction: PostgresTransaction, work: (session: Session<PostgresQueryable>) => Promise<R>): Promise<R>
  /** What the callback of `begin` gives: the same promise, which never settles once the connection is lost. */
  unlessLost<R>(working: Promise<R>): Promise<R>
  /** After COMMIT was answered: throws if the answer was ROLLBACK. */
  checkCommitted(): Promise<void>
  /** The connection is lost. */
  breakOff(error: unknown): void
}

/**
 * Statements that need not be waited for are sent at once, so that the outbox, a last look at the transaction and COMMIT take one round trip.
 * Once a connection is lost nothing more is sent, not even the ROLLBACK of postgres.js: it would go to the connection that takes its place.
 */
export function openPostgresSession(rules: PostgresRules): OpenPostgresSession {
  const running = new Set<PostgresQuery>()
  let onLoss: ((error: unknown) => void) | undefined
  const loss = new Promise<never>((_, reject) => {
    onLoss = reject
  })
  loss.catch(() => {})
  let late: readonly Late[] = []
  let lost: { readonly error: unknown } | undefined

  const watch: QueryRules = {
    onStart(query) {
      if (lost !== undefined) throw lost.error
      running.add(query)
    },
    onEnd(query, error) {
      running.delete(query)
      if (isLoss(error)) breakOff(error)
    },
    scope: (start) => Promise.race([start(unlessLost), loss]),
  }

  function breakOff(error: unknown): void {
    if (lost !== undefined) return
    lost = { error }
    onLoss?.(error)
    // Those that postgres.js has not sent yet would never get an answer.
    for (const query of running) query.reject(error)
  }

  function send(transaction: PostgresTransaction, statement: Statement): PostgresQuery {
    const query = follow(queryOf(transaction, statement, rules), watch)
    // Sends it. Who has sent it may never look at it.
    query.catch(() => {})
    return query
  }

  function sessionOn(transaction: PostgresTransaction): Session<PostgresQueryable> {
    const run = async (statement: Statement) => resultOf(await send(transaction, statement), rules)
    return {
      run: (sql, parameters = []) => run({ sql, parameters }),
      change: async (statement) => (await run(statement)).count,
      async changeLater(statement, explain) {
        late = [...late, { query: send(transaction, statement), explain }]
      },
      sendsTogether: rules.prepare,
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
        late = [...late, { query: send(transaction, { sql: 'SELECT 1' }), explain: () => new TransactionAbortedError() }]
        if (lost !== undefined) throw lost.error
        return result
      } catch (error) {
        // A query from a `file()` may not have been sent yet, and must not come after the roll-back.
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
          throw sqlStateOf(error) === '25P02' ? new TransactionAbortedError() : explain(error)
        }
      }
    },

    breakOff,
  }
}

/** Whether the connection cannot be used any more; postgres.js has codes of its own for it, Node others. */
function isLoss(error: unknown): boolean {
  if (endsConnection(error)) return true
  return error instanceof Error && sqlStateOf(error) === undefined && 'code' in error && /^(CONNECT|E[A-Z]+$)/.test(String(error.code))
}

/** Made, not sent. */
function queryOf(handle: PostgresQueryable, { sql, parameters = [], prepare = false }: Statement, rules: PostgresRules): PostgresQuery {
  // What is there at run time, whatever the types say.
  return handle.unsafe(sql, withArrayLiterals(parameters) as never[], { prepare: prepare && rules.prepare }) as unknown as PostgresQuery
}

export async function runOn(handle: PostgresQueryable, statement: Statement, rules: PostgresRules): Promise<StatementResult> {
  return resultOf(await queryOf(handle, statement, rules), rules)
}

function resultOf(result: unknown, { columnName }: PostgresRules): StatementResult {
  const rows = result as PostgresResult
  return { rows: columnName === undefined ? rows : rows.map((row) => renamed(row, columnName)), count: rows.count ?? 0 }
}

/** The row under the names that the statement has. */
function renamed(row: Row, columnName: (name: string) => string): Row {
  return new Proxy(row, { get: (target, name) => target[columnName(String(name))] })
}
