import { checkChoice, checkDuration } from '@ackord/core/internal'
import type { TransactionSettings } from '../contract/dialect.ts'
import { type AdmitStatement, admitter, rollsBackTo, traitsReader } from '../contract/statement-traits.ts'

/** All statements that can end a transaction block: the server rejects a procedure or a DO block that tries to. */
const controls = new Set(['BEGIN', 'START', 'COMMIT', 'END', 'ABORT'])

function isControl([first = '', ...more]: readonly string[]): boolean {
  if (first === 'ROLLBACK') return !rollsBackTo(more)
  if (first === 'PREPARE') return more[0] === 'TRANSACTION'
  return controls.has(first)
}

const traitsOf = traitsReader({
  syntax: {
    nestedComments: true,
    lineEnds: /[\n\r]/g,
    backslash: 'E',
    dollarQuotes: true,
    body: { of: isRoutine, until: 'matching END' },
  },
  isControl,
})

/** `CREATE [OR REPLACE] FUNCTION` or `PROCEDURE`. */
function isRoutine([first, ...more]: readonly string[]): boolean {
  return first === 'CREATE' && (more.includes('FUNCTION') || more.includes('PROCEDURE'))
}

/** Throws for a statement that would begin or end the transaction behind our back; handlers may use savepoints. */
export const refuseControl: AdmitStatement = admitter(
  traitsOf,
  'A statement would begin or end the transaction that the middleware owns. Throw to roll it back; use SAVEPOINT for a part of it.',
)

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
