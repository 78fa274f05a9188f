import { isAckordError } from '@ackord/core'
import { causesOf } from '@ackord/core/internal'
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
