import type { Statement } from '../driver.ts'
import type { InboxKey } from '../inbox-key.ts'

/**
 * Forgets what was received long ago. $1 milliseconds, $2 limit. Locks what it deletes, skips what is locked.
 */
export function cleanInboxSql(table: string): string {
  return `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${table}
  WHERE received_at < (SELECT clock_timestamp() - $1::float8 * interval '1 millisecond')
  ORDER BY received_at LIMIT $2 FOR UPDATE SKIP LOCKED))`
}

/** Records a message: one row if it is new, none if it was there. A unique violation would abort the transaction instead. */
export function recorder(table: string): (key: InboxKey) => Statement {
  const sql = `INSERT INTO ${table} (consumer, source, id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
  return ({ consumer, source, id }) => ({ sql, parameters: [consumer, source, id], prepare: true })
}
