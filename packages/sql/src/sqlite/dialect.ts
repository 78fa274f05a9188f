import { isAckordError } from '@ackord/core'
import type { Dialect } from '../contract/dialect.ts'
import { appender } from './append.ts'
import { isLocked, sqliteCodeOf } from './errors.ts'
import { forgetAll, recordAll, recorder } from './inbox.ts'
import { quoteIdentifier } from './sql-text.ts'
import { sqliteStore } from './store.ts'
import { transactionSettings } from './transaction-settings.ts'

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
    let current = error
    for (let depth = 0; depth < 10 && current instanceof Error; depth += 1) {
      if (isAckordError(current, 'ACKORD_DATABASE_BUSY')) return false
      if (isLocked(current)) return true
      current = current.cause
    }
    return false
  },
  refusesWrites(error) {
    let current = error
    for (let depth = 0; depth < 10 && current instanceof Error; depth += 1) {
      const code = sqliteCodeOf(current)
      if (code === 'FULL' || code === 'READONLY') return true
      current = current.cause
    }
    return false
  },
  isSchemaMissing: (error) =>
    sqliteCodeOf(error) === 'ERROR' && /^no such (table|column): |has no column named /.test(error instanceof Error ? error.message : ''),
}
