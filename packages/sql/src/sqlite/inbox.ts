import type { InboxKey } from '@ackord/outbox'
import type { RecordingSession } from '../contract/dialect.ts'
import type { Statement } from '../contract/driver.ts'
import { now } from './sql-text.ts'

/** Deletes messages received before the window. Milliseconds, limit. */
export function cleanInboxSql(table: string): string {
  return `DELETE FROM ${table} WHERE rowid IN (
  SELECT rowid FROM ${table} WHERE received_at < ${now} - ? ORDER BY received_at LIMIT ?)`
}

/** Records a message: one row if it is new, none if it exists. */
export function recorder(table: string): (key: InboxKey) => Statement {
  const sql = `INSERT INTO ${table} (consumer, source, id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`
  return ({ consumer, source, id }) => ({ sql, parameters: [consumer, source, id], prepare: true })
}

export async function recordAll({ run }: RecordingSession, table: string, keys: readonly InboxKey[]): Promise<readonly InboxKey[]> {
  // Without a WHERE the parser would read ON as part of the join.
  const { rows } = await run(
    `INSERT INTO ${table} (consumer, source, id) SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?) WHERE true
ON CONFLICT DO NOTHING RETURNING consumer, source, id`,
    [jsonOf(keys)],
  )
  // The three columns are of type text.
  return rows as unknown as readonly InboxKey[]
}

export async function forgetAll({ run }: RecordingSession, table: string, keys: readonly InboxKey[]): Promise<readonly InboxKey[]> {
  const { rows } = await run(
    `DELETE FROM ${table} WHERE (consumer, source, id) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?))
RETURNING consumer, source, id`,
    [jsonOf(keys)],
  )
  return rows as unknown as readonly InboxKey[]
}

function jsonOf(keys: readonly InboxKey[]): string {
  return JSON.stringify(keys.map(({ consumer, source, id }) => [consumer, source, id]))
}
