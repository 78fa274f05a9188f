import type { InboxKey, InboxQuery } from '@ackord/outbox'
import type { RecordingSession } from '../contract/dialect.ts'
import type { Statement } from '../contract/driver.ts'
import { bindTo, instant } from './sql-text.ts'

/** Deletes messages received before the window. $1 milliseconds, $2 limit. Locks the rows it deletes and skips locked ones. */
export function cleanInboxSql(table: string): string {
  return `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${table}
  WHERE received_at < (SELECT clock_timestamp() - $1::float8 * interval '1 millisecond')
  ORDER BY received_at LIMIT $2 FOR UPDATE SKIP LOCKED))`
}

/** The entries of a message. $1 id, then consumer and source where the query has them. Partitions may have a copy of an entry, without a time. */
export function findInboxSql(
  table: string,
  id: string,
  { consumer, source }: InboxQuery,
  { isPartitioned }: { readonly isPartitioned: boolean },
): { readonly sql: string; readonly parameters: readonly unknown[] } {
  const parameters: unknown[] = [id]
  const bind = bindTo(parameters)
  const columns = `i.consumer, i.source, i.id, ${instant(isPartitioned ? 'i.recorded_at' : 'i.received_at')} AS received_at`
  const ofId = isPartitioned ? `i.id = $1::text AND i.recorded_at > '-infinity'` : 'i.id = $1::text'
  const ofConsumer = consumer === undefined ? 'true' : `i.consumer = ${bind(consumer, 'text')}`
  const ofSource = source === undefined ? 'true' : `i.source = ${bind(source, 'text')}`
  if (consumer !== undefined && source !== undefined) {
    return { sql: `SELECT ${columns} FROM ${table} AS i WHERE ${ofConsumer} AND ${ofSource} AND ${ofId}`, parameters }
  }
  // A comparison of rows beside an equality would read every entry of the consumer.
  const later = consumer === undefined ? '(i.consumer, i.source) > (before.consumer, before.source)' : 'i.source > before.source'
  const sql = `WITH RECURSIVE pairs(consumer, source) AS (
  (SELECT i.consumer, i.source FROM ${table} AS i WHERE ${ofConsumer} ORDER BY i.consumer, i.source LIMIT 1)
  UNION ALL
  SELECT pair.consumer, pair.source FROM pairs AS before CROSS JOIN LATERAL (
    SELECT i.consumer, i.source FROM ${table} AS i WHERE ${later} AND ${ofConsumer} ORDER BY i.consumer, i.source LIMIT 1
  ) AS pair
)
SELECT ${columns} FROM pairs JOIN ${table} AS i ON i.consumer = pairs.consumer AND i.source = pairs.source AND ${ofId}
WHERE ${ofSource} ORDER BY i.consumer, i.source`
  return { sql, parameters }
}

/** Records a message: one row if it is new, none if it exists. A unique violation would abort the transaction instead. */
export function recorder(table: string): (key: InboxKey) => Statement {
  const sql = `INSERT INTO ${table} (consumer, source, id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
  return ({ consumer, source, id }) => ({ sql, parameters: [consumer, source, id], prepare: true })
}

/** In one round trip with BEGIN where the session reports rows. */
export async function recordAll(session: RecordingSession, table: string, keys: readonly InboxKey[]): Promise<readonly InboxKey[]> {
  const sql = `INSERT INTO ${table} (consumer, source, id) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
ON CONFLICT DO NOTHING RETURNING consumer, source, id`
  const columns = [keys.map(({ consumer }) => consumer), keys.map(({ source }) => source), keys.map(({ id }) => id)]
  // The three columns are of type text.
  if (session.reportsRows !== true) return (await session.run(sql, columns)).rows as unknown as readonly InboxKey[]
  const recorded: InboxKey[] = []
  const onRow = (row: readonly unknown[]) => {
    const [consumer, source, id] = row as readonly [string, string, string]
    recorded.push({ consumer, source, id })
  }
  await session.change({ sql, parameters: columns, prepare: true, onRow })
  return recorded
}

export async function forgetAll({ run }: RecordingSession, table: string, keys: readonly InboxKey[]): Promise<readonly InboxKey[]> {
  // Partitions may have a copy of a row.
  const sql = `WITH deleted AS (
  DELETE FROM ${table} WHERE (consumer, source, id) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[])) RETURNING consumer, source, id
) SELECT DISTINCT consumer, source, id FROM deleted`
  const { rows } = await run(sql, [keys.map(({ consumer }) => consumer), keys.map(({ source }) => source), keys.map(({ id }) => id)])
  // The three columns are of type text.
  return rows as unknown as readonly InboxKey[]
}
