import { checkChoice, checkDuration } from '@ackord/core/internal'
import type { Dialect, TransactionSettings } from '../dialect.ts'
import { appender } from './append-statement.ts'
import { recordAll, recorder } from './inbox-statements.ts'
import { leasedAppender } from './leased-append-statement.ts'
import { channelOf } from './pg-notifications.ts'
import { postgresStore } from './postgres-store.ts'
import { quoteIdentifier } from './quote-identifier.ts'
import { deepSqlStateOf, sqlStateOf } from './sql-state.ts'

export const postgresDialect: Dialect = {
  store: postgresStore,
  quote: quoteIdentifier,
  settings,
  recorder,
  recordAll,
  appender,
  leasedAppender,
  notifier: (table) => ({ sql: 'SELECT pg_notify($1, $2)', parameters: [channelOf(table), ''], prepare: true }),
  isConflict(error) {
    const state = deepSqlStateOf(error)
    return state === '40001' || state === '40P01' // serialization failure, deadlock
  },
  isSchemaMissing(error) {
    const state = sqlStateOf(error)
    return state === '42P01' || state === '42703' || state === '3F000' || state === '42883' // no such table, column, schema, function
  },
}

function settings({ isolation, statementTimeout, lockTimeout, idleTimeout }: TransactionSettings): readonly string[] {
  const statements: string[] = []
  if (isolation !== undefined) {
    checkChoice('isolation', isolation, ['read committed', 'repeatable read', 'serializable'])
    statements.push(`SET TRANSACTION ISOLATION LEVEL ${isolation.toUpperCase()}`)
  }
  const limits = {
    statementTimeout: ['statement_timeout', statementTimeout],
    lockTimeout: ['lock_timeout', lockTimeout],
    idleTimeout: ['idle_in_transaction_session_timeout', idleTimeout],
  } as const
  for (const [option, [setting, value]] of Object.entries(limits)) {
    if (value === undefined) continue
    statements.push(`SET LOCAL ${setting} = ${Math.ceil(checkDuration(option, value))}`)
  }
  return statements
}
