import type { Dialect } from '../dialect.ts'
import { appender } from './append-statement.ts'
import { recordAll, recorder } from './inbox-statements.ts'
import { errorNumberOf, isConflict } from './mysql-error.ts'
import { mysqlStore } from './mysql-store.ts'
import { quoteIdentifier } from './quote-identifier.ts'
import { transactionSettings } from './transaction-settings.ts'

export const mysqlDialect: Dialect = {
  store: mysqlStore,
  quote: quoteIdentifier,
  settings: transactionSettings,
  recorder,
  recordAll,
  appender,
  isConflict,
  isSchemaMissing(error) {
    const number = errorNumberOf(error)
    return number === 1146 || number === 1054 || number === 1049 // no such table, column, database
  },
}
