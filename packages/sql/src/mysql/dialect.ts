import type { Dialect } from '../contract/dialect.ts'
import type { StoreDialect } from '../contract/store-dialect.ts'
import { cancelSql, mysqlAdministration } from './admin.ts'
import { appender } from './append.ts'
import { mysqlClaims } from './claims.ts'
import { deepErrorNumberOf, errorNumberOf, isConflict, refusesWrites } from './errors.ts'
import { answerStatement, mysqlIdempotency } from './idempotency.ts'
import { findInboxSql, forgetAll, forgetSql, oldInboxSql, recordAll, recorder } from './inbox.ts'
import { mysqlNotes } from './notes.ts'
import { mysqlOwnership } from './ordering/ownership.ts'
import { cleanProcesses, mysqlProcesses } from './processes.ts'
import { mysqlSchema } from './schema.ts'
import { quoteIdentifier, readRow } from './sql-text.ts'
import { storeTransaction, transactionSettings } from './transaction-control.ts'

const mysqlStore: StoreDialect = {
  schema: mysqlSchema,
  claims: mysqlClaims,
  ownership: mysqlOwnership,
  administration: mysqlAdministration,
  notes: mysqlNotes,
  idempotency: mysqlIdempotency,
  answer: answerStatement,
  processes: mysqlProcesses,
  cleanProcesses,
  versionWithProcesses: 6,
  cancel: cancelSql,

  async findInbox(driver, table, id, query) {
    const { sql, parameters } = findInboxSql(table, id, query)
    return (await driver.run(driver.pool, sql, parameters)).rows.map(readRow)
  },

  cleanInbox: (driver, table, options) =>
    storeTransaction(driver, async (run) => {
      const { rows } = await run(oldInboxSql(table, options))
      if (rows.length === 0) return 0
      const { sql, parameters } = forgetSql(table, rows)
      return (await run(sql, parameters)).count
    }),

  async takeTurn(driver, meta, { name, interval }) {
    const retaking = `UPDATE ${meta} SET changed_at = UTC_TIMESTAMP(6)
WHERE name = ? AND changed_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND`
    const { count } = await driver.run(driver.pool, retaking, [name, Math.round(interval * 1000)])
    if (count === 1) return true
    try {
      const taking = `INSERT INTO ${meta} (name, version, oldest_reader, changed_at) VALUES (?, 0, 0, UTC_TIMESTAMP(6))`
      await driver.run(driver.pool, taking, [name])
      return true
    } catch (error) {
      // Another process has the turn.
      if (errorNumberOf(error) === 1062) return false
      throw error
    }
  },

  async inTransaction(driver, handle) {
    try {
      // Outside of a transaction the savepoint is gone immediately, on every client, whatever status it hides.
      await driver.run(handle, 'SAVEPOINT ackord_append', [])
      await driver.run(handle, 'RELEASE SAVEPOINT ackord_append', [])
      return true
    } catch (error) {
      // No such savepoint.
      if (errorNumberOf(error) === 1305) return false
      throw error
    }
  },
}

export const mysqlDialect: Dialect = {
  store: mysqlStore,
  quote: quoteIdentifier,
  settings: transactionSettings,
  recorder,
  recordAll,
  forgetAll,
  appender,
  isConflict,
  isLockTimeout: (error) => deepErrorNumberOf(error) === 1205,
  refusesWrites,
  isSchemaMissing(error) {
    const number = errorNumberOf(error)
    return number === 1146 || number === 1054 || number === 1049 // no such table, column, database
  },
}
