import type { StatementResult } from '../driver.ts'

/** Reads what `pg` answers, where an ORM hands it on. Several statements have several answers, which nobody looks at. */
export function readPgResult(answer: unknown): StatementResult {
  const { rows = [], rowCount } = answer as { readonly rows?: StatementResult['rows']; readonly rowCount?: number | null }
  return { rows, count: rowCount ?? 0 }
}
