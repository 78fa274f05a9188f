import { checkFunction, checkNoMore } from '@ackord/core/internal'
import { Database } from '../database.ts'
import type { Driver } from '../driver.ts'
import { callbackTransaction } from '../orm/callback-transaction.ts'
import { postgresDialect } from './postgres-dialect.ts'
import { openPostgresSession, type PostgresQueryable, type PostgresRules, type PostgresTransaction, runOn } from './postgres-js-session.ts'
import type { PostgresOptions } from './postgres-options.ts'
import { refusedCommit } from './sql-state.ts'

/** What is used of the `sql` of postgres.js. */
export interface PostgresClient extends PostgresQueryable {
  // biome-ignore lint/suspicious/noExplicitAny: the type of its transaction is found by inference.
  begin(options: string, work: (transaction: any) => unknown): Promise<unknown>
  readonly options: { readonly prepare?: unknown; readonly transform?: unknown }
}

/** The `sql` itself or that of a transaction: what both have can be used without knowing which one it is. */
export type PostgresHandle<Client extends PostgresClient> = Client | Parameters<Parameters<Client['begin']>[1]>[0]

export interface FromPostgresOptions extends PostgresOptions {
  /** Whether our own statements are prepared on their connection; see `fromPg()`. Default: true, unless the client was made with `prepare: false`. */
  readonly preparedStatements?: boolean | undefined
}

/**
 * A database on postgres.js. In a transaction queries are tracked, in all of their forms except cursors and streams, which must be
 * finished before the handler returns. `savepoint` is that of postgres.js; a `notify` is sent outside of the transaction, as it always is.
 */
export function fromPostgres<Client extends PostgresClient>(
  sql: Client,
  options: FromPostgresOptions = {},
): Database<PostgresHandle<Client>> {
  const { preparedStatements = true, schema, names, order, notify, ...unknown } = options
  checkNoMore('fromPostgres()', unknown)
  checkFunction('fromPostgres(sql).begin', sql?.begin)
  checkFunction('fromPostgres(sql).unsafe', sql.unsafe)
  const rules = { prepare: preparedStatements && sql.options?.prepare !== false, columnName: columnNameOf(sql) }
  // Inside, only `unsafe` is used; outside, everything is passed through.
  const driver = postgresDriver(sql, rules) as unknown as Driver<PostgresHandle<Client>>
  return new Database({ schema, names, order, notify, dialect: postgresDialect, driver })
}

function postgresDriver(sql: PostgresClient, rules: PostgresRules): Driver<PostgresQueryable> {
  return {
    pool: sql,
    run: (handle, text, parameters, options) => runOn(handle, { sql: text, parameters, prepare: options?.prepare }, rules),
    // A transaction that has ended still takes queries, on a connection that may be another's: only the server knows.
    inTransaction: (handle) => ('begin' in handle && !('release' in handle) ? false : undefined),
    async transaction(settings, work, signal) {
      const opened = openPostgresSession(rules)
      const result = await callbackTransaction(
        // It gives what the work gives.
        (inside) => sql.begin('', (transaction) => opened.unlessLost(inside(transaction))) as ReturnType<typeof inside>,
        (transaction: PostgresTransaction) =>
          opened.work(transaction, async function begun(session) {
            if (settings.length > 0) await session.script(settings.join('; '))
            return await work(session)
          }),
        { signal, refusedCommit, onLost: opened.breakOff },
      )
      await opened.checkCommitted()
      return result
    },
  }
}

/** postgres.js may be told to rename columns (`transform: postgres.camel`), ours too. */
function columnNameOf({ options }: PostgresClient): ((name: string) => string) | undefined {
  const transform = options?.transform as { readonly column?: { readonly from?: (name: string) => string } } | undefined
  return transform?.column?.from
}
