import type pg from 'pg'

/** A typical hand-written table: a primary key and one partial index. */
export const handWrittenTable = `CREATE TABLE hand_outbox (
  id bigserial PRIMARY KEY, destination text NOT NULL, type text NOT NULL, data bytea NOT NULL, headers text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(), locked_until timestamptz, attempts integer NOT NULL DEFAULT 0
)`

const claimSql = `UPDATE hand_outbox SET locked_until = now() + interval '30 seconds', attempts = attempts + 1
WHERE id IN (
  SELECT id FROM hand_outbox WHERE locked_until IS NULL OR locked_until < now() ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED
)
RETURNING id, destination, type, data, headers, attempts`

export async function fillHandWritten(pool: pg.Pool, count: number): Promise<void> {
  await pool.query(
    `INSERT INTO hand_outbox (destination, type, data, headers)
SELECT 'order-events', 'order.placed', convert_to(repeat('x', 256), 'UTF8'),
  json_build_object('id', gen_random_uuid(), 'type', 'order.placed', 'source', '/orders', 'specversion', '1.0',
    'time', now(), 'datacontenttype', 'application/json')::text
FROM generate_series(1, $1)`,
    [count],
  )
  await pool.query('VACUUM ANALYZE hand_outbox')
}

/** Claims 500 records, publishes them and deletes them by their ids, until nothing is left. Resolves to the number of records. */
export async function relayByHand(pool: pg.Pool, publish: (messages: readonly unknown[]) => Promise<void>): Promise<number> {
  let done = 0
  for (;;) {
    const { rows } = await pool.query<{ id: string; data: Buffer; headers: string }>(claimSql)
    if (rows.length === 0) return done
    await publish(rows.map(({ data, headers }) => ({ data, attributes: JSON.parse(headers) })))
    await pool.query('DELETE FROM hand_outbox WHERE id = ANY($1)', [rows.map(({ id }) => id)])
    done += rows.length
  }
}
