import type { RunStatement } from '../driver.ts'
import type { InboxKey } from '../inbox-key.ts'

/**
 * Records a message. $1 consumer, $2 source, $3 id. One row if it is new, none if it was there.
 * Waits for a transaction that is about to write the same key. A unique violation would abort the transaction instead.
 */
function recordOnceSql(table: string): string {
  return `INSERT INTO ${table} (consumer, source, id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
}

/**
 * Forgets what was received long ago. $1 milliseconds, $2 limit. Locks what it deletes, skips what is locked.
 */
export function cleanInboxSql(table: string): string {
  return `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${table}
  WHERE received_at < (SELECT clock_timestamp() - $1::float8 * interval '1 millisecond')
  ORDER BY received_at LIMIT $2 FOR UPDATE SKIP LOCKED))`
}

export async function recordOnce(run: RunStatement, table: string, { consumer, source, id }: InboxKey): Promise<boolean> {
  const { count } = await run(recordOnceSql(table), [consumer, source, id])
  return count === 1
}
