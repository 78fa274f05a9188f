import { isAckordError } from '@ackord/core'
import { causesOf } from '@ackord/core/internal'
import type { Dialect } from '../contract/dialect.ts'
import type { StoreDialect } from '../contract/store-dialect.ts'
import { cancelSql, sqliteAdministration } from './admin.ts'
import { appender } from './append.ts'
import { sqliteClaims } from './claims.ts'
import { isLocked, sqliteCodeOf } from './errors.ts'
import { answerStatement, sqliteIdempotency } from './idempotency.ts'
import { cleanInboxSql, findInboxSql, forgetAll, recordAll, recorder } from './inbox.ts'
import { sqliteNotes } from './notes.ts'
import { sqliteOwnership } from './ordering/ownership.ts'
import { cleanProcesses, sqliteProcesses } from './processes.ts'
import { sqliteSchema } from './schema.ts'
import { now, quoteIdentifier } from './sql-text.ts'
import { transactionSettings } from './transaction-control.ts'

const sqliteStore: StoreDialect = {
  schema: sqliteSchema,
  claims: sqliteClaims,
  ownership: sqliteOwnership,
  administration: sqliteAdministration,
  notes: sqliteNotes,
  idempotency: sqliteIdempotency,
  answer: answerStatement,
  processes: sqliteProcesses,
  cleanProcesses,
  versionWithProcesses: 6,
  cancel: cancelSql,

  async findInbox(driver, table, id, query) {
    // A statement that does not use a number accepts no value for it.
    const { consumer, source } = query
    const parameters = source === undefined ? (consumer === undefined ? [id] : [id, consumer]) : [id, consumer ?? null, source]
    return (await driver.run(driver.pool, findInboxSql(table, query), parameters)).rows
  },

  async cleanInbox(driver, table, { window, limit }) {
    const { count } = await driver.run(driver.pool, cleanInboxSql(table), [window, limit])
    return count
  },

  async takeTurn(driver, meta, { name, interval }) {
    const sql = `INSERT INTO ${meta} (name, version, oldest_reader) VALUES (?1, 0, 0)
ON CONFLICT (name) DO UPDATE SET changed_at = ${now} WHERE changed_at <= ${now} - ?2`
    return (await driver.run(driver.pool, sql, [name, interval])).count === 1
  },

  // The driver always knows.
  inTransaction: async () => false,
}

export const sqliteDialect: Dialect = {
  store: sqliteStore,
  quote: quoteIdentifier,
  settings: transactionSettings,
  recorder,
  recordAll,
  forgetAll,
  appender,
  isConflict(error) {
    // Middleware and handlers wrap errors. A lock timeout is not retried.
    for (const cause of causesOf(error)) {
      if (isAckordError(cause, 'ACKORD_DATABASE_BUSY')) return false
      if (isLocked(cause)) return true
    }
    return false
  },
  refusesWrites(error) {
    for (const cause of causesOf(error)) {
      const code = sqliteCodeOf(cause)
      if (code === 'FULL' || code === 'READONLY') return true
    }
    return false
  },
  isSchemaMissing: (error) =>
    sqliteCodeOf(error) === 'ERROR' && /^no such (table|column): |has no column named /.test(error instanceof Error ? error.message : ''),
}
