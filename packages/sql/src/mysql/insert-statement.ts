import type { Statement } from '../driver.ts'

/** Inserts rows, all of them or none. */
export interface InsertStatement extends Statement {
  /** How many. In a compound statement the server also counts what triggers change and select, so its number says nothing. */
  readonly rows: number
}

/** How many rows a statement changes unless it fails; `undefined` where only the server knows. */
export function rowsOf(statement: Statement): number | undefined {
  return 'rows' in statement && typeof statement.rows === 'number' ? statement.rows : undefined
}
