import { AckordError } from '@ackord/core'
import { type SqlSyntax, statementsOf } from './sql-statements.ts'

/** What the statements of a text do to the transaction that they run in. */
export interface StatementTraits {
  /** Whether one of them begins or ends a transaction. */
  readonly isControl: boolean
  /** Whether one of them makes, releases or rolls back to a savepoint. */
  readonly isSavepoint: boolean
  /** Whether each of them is known to leave the transaction open. */
  readonly keepsTransaction: boolean
  /** Whether each of them only reads. */
  readonly isRead: boolean
}

type Test = (words: readonly string[]) => boolean

export interface StatementTests {
  readonly syntax: SqlSyntax
  readonly isControl: Test
  /** Default: every statement that is no control statement does. */
  readonly keepsTransaction?: Test | undefined
  /** Default: none does. */
  readonly isRead?: Test | undefined
}

/** How many texts are remembered, and how long such a text may be: a service has few statements, and runs them with every message. */
const mostTexts = 1000
const longestText = 10_000

/** Reads texts by the rules of a database, each once. */
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
    if (sql.length > longestText) return traits
    if (known.size >= mostTexts) known.clear()
    known.set(sql, traits)
    return traits
  }
}

/** `SAVEPOINT`, `RELEASE [SAVEPOINT]` and `ROLLBACK … TO`, which all databases have. */
function isSavepoint([first, ...more]: readonly string[]): boolean {
  return first === 'SAVEPOINT' || first === 'RELEASE' || (first === 'ROLLBACK' && rollsBackTo(more))
}

/** Whether what follows ROLLBACK names a savepoint: `TO x`, `WORK TO x`, `TRANSACTION TO SAVEPOINT x`. */
export function rollsBackTo([first, second]: readonly string[]): boolean {
  return first === 'TO' || ((first === 'WORK' || first === 'TRANSACTION') && second === 'TO')
}

/** Comes before a text of the user's is sent: throws if it must not be, and prepares the transaction for it. What is not a text is let through. */
export type AdmitStatement = (sql: unknown, tracker?: StatementTracker) => void

/** What a `QueryTracker` has to know of a statement. */
interface StatementTracker {
  admitSavepoint(): unknown
  refuseInGroup(): void
}

/** `refusal` is said of a statement that would begin or end the transaction. */
export function admitter(traitsOf: (sql: string) => StatementTraits, refusal: string): AdmitStatement {
  return function admit(sql, tracker) {
    if (typeof sql !== 'string') return
    const { isControl, isSavepoint, keepsTransaction } = traitsOf(sql)
    if (isControl) throw new AckordError('ACKORD_TRANSACTION_REQUIRED', refusal)
    if (!keepsTransaction) tracker?.refuseInGroup()
    if (isSavepoint) tracker?.admitSavepoint()
  }
}
