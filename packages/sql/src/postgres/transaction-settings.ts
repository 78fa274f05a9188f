import { checkChoice, checkDuration } from '@ackord/core/internal'
import type { TransactionSettings } from '../contract/dialect.ts'

/** The statements that are sent with BEGIN. They apply to the transaction only. */
export function transactionSettings({ isolation, statementTimeout, lockTimeout, idleTimeout }: TransactionSettings): readonly string[] {
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
