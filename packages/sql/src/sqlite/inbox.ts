import type { InboxKey, InboxQuery } from '@ackord/outbox'
import type { RecordingSession } from '../contract/dialect.ts'
import type { Statement } from '../contract/driver.ts'
import { now } from './sql-text.ts'

/** Deletes messages received before the window. Milliseconds, limit. */
export function cleanInboxSql(table: string): string {
  return `DELETE FROM ${table} WHERE rowid IN (
  SELECT rowid FROM ${table} WHERE received_at < ${now} - ? ORDER BY received_at LIMIT ?)`
}

/** The entries of a message. ?1 id, ?2 consumer, ?3 source. CROSS JOIN, so that SQLite reads the pairs first: without statistics it would scan the table. */
export function findInboxSql(table: string, { consumer, source }: InboxQuery): string {
  const columns = 'i.consumer, i.source, i.id, i.received_at'
  const ofConsumer = consumer === undefined ? 'true' : 'i.consumer = ?2'
  const ofSource = source === undefined ? 'true' : 'i.source = ?3'
  if (consumer !== undefined && source !== undefined) {
    return `SELECT ${columns} FROM ${table} AS i WHERE ${ofConsumer} AND ${ofSource} AND i.id = ?1`
  }
  const nextSource = `SELECT i.rowid FROM ${table} AS i WHERE i.consumer = before.consumer AND i.source > before.source ORDER BY i.source LIMIT 1`
  // Not by a comparison of rows, of which SQLite looks up the first column only.
  const nextConsumer = `SELECT i.rowid FROM ${table} AS i WHERE i.consumer > before.consumer ORDER BY i.consumer, i.source LIMIT 1`
  const next = consumer === undefined ? `coalesce((${nextSource}), (${nextConsumer}))` : `(${nextSource})`
  return `WITH RECURSIVE pairs(consumer, source) AS (
  SELECT * FROM (SELECT i.consumer, i.source FROM ${table} AS i WHERE ${ofConsumer} ORDER BY i.consumer, i.source LIMIT 1)
  UNION ALL
  SELECT pair.consumer, pair.source FROM pairs AS before JOIN ${table} AS pair ON pair.rowid = ${next}
)
SELECT ${columns} FROM pairs CROSS JOIN ${table} AS i ON i.consumer = pairs.consumer AND i.source = pairs.source AND i.id = ?1
WHERE ${ofSource} ORDER BY i.consumer, i.source`
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
