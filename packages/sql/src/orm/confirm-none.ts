import type { RunStatement, Statement } from '../driver.ts'

/** A statement whose `none` may be mistaken: it is believed only if another one gives a row, in the same transaction. */
export interface ConfirmedStatement extends Statement {
  readonly confirm: { readonly sql: string; readonly parameters: readonly unknown[] }
}

/** For a statement that failed: 0 if the error means that it changed no row, otherwise rejects with it. */
export async function confirmNone(statement: Statement, error: unknown, run: RunStatement): Promise<0> {
  if (statement.none?.(error) !== true) throw error
  if (isConfirmed(statement)) {
    const { sql, parameters } = statement.confirm
    if ((await run(sql, parameters)).rows.length === 0) throw error
  }
  return 0
}

function isConfirmed(statement: Statement): statement is ConfirmedStatement {
  return 'confirm' in statement
}
