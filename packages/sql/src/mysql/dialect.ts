import type { Dialect } from '../contract/dialect.ts'
import { appender } from './append.ts'
import { deepErrorNumberOf, errorNumberOf, isConflict, refusesWrites } from './errors.ts'
import { forgetAll, recordAll, recorder } from './inbox.ts'
import { quoteIdentifier } from './sql-text.ts'
import { mysqlStore } from './store.ts'
import { transactionSettings } from './transaction-settings.ts'

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
