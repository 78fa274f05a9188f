import type { FromOptions, ModeOptions } from '../contract/database-options.ts'
import type { Dialect } from '../contract/dialect.ts'
import type { Driver, RunStatement } from '../contract/driver.ts'
import type { StoreDialect } from '../contract/store-dialect.ts'
import { cancelSql, postgresAdministration } from './admin.ts'
import { appender, leasedAppender } from './append.ts'
import { postgresClaims } from './claims.ts'
import { channelOf } from './client/pg-notifications.ts'
import { deepSqlStateOf, sqlStateOf } from './errors.ts'
import { answerStatement, postgresIdempotency } from './idempotency.ts'
import { cleanInboxSql, findInboxSql, forgetAll, recordAll, recorder } from './inbox.ts'
import { inboxPartitions, rotateInbox } from './inbox-partitions.ts'
import { postgresLogAdministration } from './log/admin.ts'
import { postgresLog } from './log/statements.ts'
import { postgresNotes } from './notes.ts'
import { postgresOwnership } from './ordering/ownership.ts'
import { cleanProcesses, postgresProcesses } from './processes.ts'
import { postgresRates } from './rates.ts'
import { postgresSchema } from './schema.ts'
import { quoteIdentifier } from './sql-text.ts'
import { transactionSettings } from './transaction-control.ts'

const postgresStore: StoreDialect = {
  schema: postgresSchema,
  claims: postgresClaims,
  ownership: postgresOwnership,
  log: {
    claims: postgresLog,
    administration: postgresLogAdministration,
    cancel: (tables, references) => cancelSql(tables.outbox, references, tables),
  },
  administration: postgresAdministration,
  notes: postgresNotes,
  rates: postgresRates,
  idempotency: postgresIdempotency,
  answer: answerStatement,
  processes: postgresProcesses,
  cleanProcesses,
  versionWithProcesses: 7,
  cancel: cancelSql,

  async findInbox(driver, table, id, query) {
    const run = runOn(driver)
    const { sql, parameters } = findInboxSql(table, id, query, { isPartitioned: await inboxPartitions.exist(run, table) })
    return (await run(sql, parameters)).rows
  },

  async cleanInbox(driver, table, { window, limit }) {
    const run = runOn(driver)
    if (await inboxPartitions.exist(run, table)) return await rotateInbox(driver, table, window)
    return (await run(cleanInboxSql(table), [window, limit])).count
  },

  async takeTurn(driver, meta, { name, interval }) {
    const sql = `INSERT INTO ${meta} AS turn (name, version, oldest_reader) VALUES ($1, 0, 0)
ON CONFLICT (name) DO UPDATE SET changed_at = clock_timestamp()
WHERE turn.changed_at <= clock_timestamp() - $2::float8 * interval '1 millisecond'`
    return (await driver.run(driver.pool, sql, [name, interval])).count === 1
  },

  async inTransaction(driver, handle) {
    try {
      // Fails outside of a transaction, on every client, whatever status it hides.
      await driver.run(handle, 'SAVEPOINT ackord_append', [])
      await driver.run(handle, 'RELEASE SAVEPOINT ackord_append', [])
      return true
    } catch (error) {
      if (sqlStateOf(error) === '25P01') return false
      throw error
    }
  },
}

/** Runs statements outside of a transaction. */
function runOn(driver: Driver<unknown>): RunStatement {
  return (sql, parameters = []) => driver.run(driver.pool, sql, parameters)
}

export const postgresDialect: Dialect = {
  store: postgresStore,
  quote: quoteIdentifier,
  settings: transactionSettings,
  recorder,
  recordAll,
  forgetAll,
  appender,
  leasedAppender,
  notifier: (table) => ({ sql: 'SELECT pg_notify($1, $2)', parameters: [channelOf(table), ''], prepare: true }),
  isConflict(error) {
    const state = deepSqlStateOf(error)
    return state === '40001' || state === '40P01' // serialization failure, deadlock
  },
  isLockTimeout: (error) => deepSqlStateOf(error) === '55P03',
  refusesWrites(error) {
    const state = deepSqlStateOf(error)
    // Not 53200, out of memory: a single statement may cause that.
    return state === '53100' || state === '25006' // disk full, read only
  },
  confirmRefusal(error) {
    // `SET TRANSACTION READ ONLY` in a handler causes the same error as a read-only server.
    return deepSqlStateOf(error) === '25006' ? "SELECT 1 AS refuses WHERE current_setting('transaction_read_only') = 'on'" : undefined
  },
  isSchemaMissing(error) {
    const state = sqlStateOf(error)
    return state === '42P01' || state === '42703' || state === '3F000' || state === '42883' // no such table, column, schema, function
  },
  mayBeInvisible: (table) => !qualified.test(table),
}

/** A quoted, schema-qualified name. */
const qualified = /^"(?:[^"]|"")*"\."/

/** Options that are given once, when a database on PostgreSQL is created. */
export interface PostgresOptions extends FromOptions, ModeOptions {
  /**
   * Whether storing events also sends a notification, one per transaction, so that listening relays of other processes (`pgNotifications()`) wake
   * immediately. Costs a server-wide lock at every such commit. Default: false.
   */
  readonly notify?: boolean | undefined
}
