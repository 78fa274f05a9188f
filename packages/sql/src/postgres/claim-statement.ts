import { instant } from './instant.ts'

export interface ClaimVariant {
  readonly retried: 'only' | 'never' | undefined
  /** Whether destinations are named; otherwise all are found. */
  readonly named: boolean
}

/**
 * Leases claimable rows. $1 limit, $2 lease in milliseconds, $3 token, $4 destinations to leave out, $5 how many of each destination
 * (null: a fair share), and $6 destinations, where they are named. Gives the rows as they are now, and the quota.
 *
 * Locks what it takes until the statement ends, and skips what is locked. Each part is read lazily, so that no more is locked than taken.
 * Destinations are found by jumping from one to the next in the key. They come in any order, or the last of many would starve. It does not wait until the
 * leases are on disk: if the server loses them, the records are claimed again, and whoever had them settles in vain.
 */
export function claimSql(table: string, { retried, named }: ClaimVariant): string {
  const share = retried === undefined ? 'CASE WHEN $5::integer IS NULL THEN ceil($1 / 2.0)::integer ELSE $1 END' : '$1'
  const parts = [
    // Retries first, as they are older, but not more than half: a wave of them must not stop what is new.
    `(SELECT ctid FROM (${partSql(table, 'waiting', retried)}) AS waiting LIMIT ${share})`,
    // A ready row that was leased before has not failed: whoever had it is gone. So `only` has no part here.
    ...(retried === 'only' ? [] : [`SELECT ctid FROM (${partSql(table, 'ready', retried)}) AS ready`]),
  ]
  return `WITH RECURSIVE
${named ? namedSql() : `${jumpSql(table, 'ready')},\n${jumpSql(table, 'waiting')}`},
places(state, destination) AS (
  SELECT 'ready', destination FROM ready_places WHERE destination <> ALL($4::text[])
  UNION ALL
  SELECT 'waiting', destination FROM waiting_places WHERE destination <> ALL($4::text[])
),
share(quota) AS MATERIALIZED (
  SELECT coalesce($5::integer, ceil($1::float8 / greatest(1, count(DISTINCT destination)))::integer), set_config('synchronous_commit', 'off', true)
  FROM places
),
picked AS (
  SELECT ctid FROM (${parts.join('\n  UNION ALL\n  ')}) AS parts LIMIT $1
)
UPDATE ${table} AS o
SET attempts = o.attempts + 1, lease_token = $3::uuid, lease_until = clock_timestamp() + $2::float8 * interval '1 millisecond'
WHERE o.ctid = ANY(ARRAY(SELECT ctid FROM picked))
RETURNING o.seq::text AS seq, o.state, o.destination, o.id, o.type, o.data, o.attributes, o.attempts,
  ${instant('o.created_at')} AS created_at, (SELECT quota FROM share) AS quota`
}

function namedSql(): string {
  return `ready_places(destination) AS (SELECT DISTINCT unnest($6::text[])),
waiting_places(destination) AS (SELECT destination FROM ready_places)`
}

function jumpSql(table: string, state: 'ready' | 'waiting'): string {
  return `${state}_places(destination) AS (
  (SELECT destination FROM ${table} WHERE state = '${state}' ORDER BY destination LIMIT 1)
  UNION ALL
  SELECT (SELECT o.destination FROM ${table} AS o WHERE o.state = '${state}' AND o.destination > before.destination ORDER BY o.destination LIMIT 1)
  FROM ${state}_places AS before WHERE before.destination IS NOT NULL
)`
}

function partSql(table: string, state: 'ready' | 'waiting', retried: ClaimVariant['retried']): string {
  // In a subquery, because a volatile function could not be looked up in the index.
  const now = '(SELECT clock_timestamp())'
  const due = state === 'waiting' ? `AND o.available_at <= ${now}` : ''
  const failed = state === 'waiting' && retried !== undefined ? `AND o.attempts ${retried === 'only' ? '>' : '='} 0` : ''
  return `
    SELECT row.ctid FROM (SELECT destination FROM places WHERE state = '${state}' ORDER BY random()) AS place
    CROSS JOIN LATERAL (
      SELECT o.ctid FROM ${table} AS o
      WHERE o.state = '${state}' AND o.destination = place.destination ${due} ${failed}
        AND (o.lease_until IS NULL OR o.lease_until <= ${now})
      ORDER BY ${state === 'waiting' ? 'o.available_at, o.seq' : 'o.seq'}
      LIMIT (SELECT quota FROM share)
      FOR UPDATE SKIP LOCKED
    ) AS row`
}
