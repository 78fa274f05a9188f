import type { Outcome } from '@ackord/outbox'
import type { RunStatement } from '../driver.ts'
import type { RowKey } from './row-keys.ts'
import { deleteSql, failSql, keepSql } from './settle-statements.ts'

export type KeyedOutcome = RowKey & { readonly outcome: Outcome }

/** Errors are long texts: this many fit into a statement. */
const failuresAtOnce = 100

/** Applies outcomes to rows that are locked. `counts`: those that failed or are parked have one attempt more. */
export async function applyOutcomes(
  run: RunStatement,
  table: string,
  outcomes: readonly KeyedOutcome[],
  { retain, counts }: { readonly retain: boolean; readonly counts: boolean },
): Promise<void> {
  const resultsIn = (result: Outcome['result']) => outcomes.filter(({ outcome }) => outcome.result === result)
  const published = resultsIn('published')
  if (published.length > 0) {
    const { sql, parameters } = retain ? keepSql(table, published) : deleteSql(table, published)
    await run(sql, parameters)
  }
  for (const result of ['failed', 'parked'] as const) {
    const failures = resultsIn(result)
    for (let start = 0; start < failures.length; start += failuresAtOnce) {
      const { sql, parameters } = failSql(table, result, failures.slice(start, start + failuresAtOnce), { counts })
      await run(sql, parameters)
    }
  }
}
