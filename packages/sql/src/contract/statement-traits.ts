import { AckordError } from '@ackord/core'
import { type SqlSyntax, statementsOf } from './sql-statements.ts'

/** The effect of the statements of a text on the transaction they run in. */
export interface StatementTraits {
  /** Whether a statement begins or ends a transaction. */
  readonly isControl: boolean
  /** Whether a statement creates, releases or rolls back to a savepoint. */
  readonly isSavepoint: boolean
  /** Whether every statement is known to leave the transaction open. */
  readonly keepsTransaction: boolean
  /** Whether every statement only reads. */
  readonly isRead: boolean
}

type Test = (words: readonly string[]) => boolean

export interface StatementTests {
  readonly syntax: SqlSyntax
  readonly isControl: Test
  /** Default: every statement that is not a control statement does. */
  readonly keepsTransaction?: Test | undefined
  /** Default: none does. */
  readonly isRead?: Test | undefined
}

/** The number and the length of cached texts: a service has few statements, and runs them for every message. */
const maxTexts = 1000
const maxTextLength = 10_000

/** Analyses texts by the rules of a database, each text once. */
export function traitsReader(tests: StatementTests): (sql: string) => StatementTraits {
  const { syntax, isControl, keepsTransaction = (words) => !isControl(words), isRead = () => false } = tests
  const known = new Map<string, StatementTraits>()

  return function traitsOf(sql) {
    const found = known.get(sql)
    if (found !== undefined) return found
    const statements = statementsOf(sql, syntax)
    const traits = {
      isControl: statements.some(isControl),
      isSavepoint: statements.some(isSavepoint),
      keepsTransaction: statements.every(keepsTransaction),
      isRead: statements.every(isRead),
    }
    if (sql.length > maxTextLength) return traits
    if (known.size >= maxTexts) known.clear()
    known.set(sql, traits)
    return traits
  }
}

/** `SAVEPOINT`, `RELEASE [SAVEPOINT]` and `ROLLBACK … TO`, which all databases support. */
function isSavepoint([first, ...more]: readonly string[]): boolean {
  return first === 'SAVEPOINT' || first === 'RELEASE' || (first === 'ROLLBACK' && rollsBackTo(more))
}

/** Whether the words after ROLLBACK name a savepoint: `TO x`, `WORK TO x`, `TRANSACTION TO SAVEPOINT x`. */
export function rollsBackTo([first, second]: readonly string[]): boolean {
  return first === 'TO' || ((first === 'WORK' || first === 'TRANSACTION') && second === 'TO')
}

/**
 * Called before a statement of the user is sent: throws if it must not be sent, and prepares the transaction for it. Values other than strings are
 * let through.
 */
export type AdmitStatement = (sql: unknown, tracker?: StatementTracker) => void

/** The methods of a `QueryTracker` that a statement may call. */
interface StatementTracker {
  admitSavepoint(): unknown
  refuseInGroup(): void
}

/** `refusal` is the error text for a statement that would begin or end the transaction. */
export function admitter(traitsOf: (sql: string) => StatementTraits, refusal: string): AdmitStatement {
  return function admit(sql, tracker) {
    if (typeof sql !== 'string') return
    const { isControl, isSavepoint, keepsTransaction } = traitsOf(sql)
    if (isControl) throw new AckordError('ACKORD_TRANSACTION_REQUIRED', refusal)
    if (!keepsTransaction) tracker?.refuseInGroup()
    if (isSavepoint) tracker?.admitSavepoint()
  }
}
