import type { ClaimStatements, StorePort } from '../contract/store-dialect.ts'
import type { RowKey } from '../records/claim-bytes.ts'
import { settlesFailures } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'
import { type ClaimStatement, releasing, renewal, settledSeqs, settlement } from './settle.ts'
import { ageOf, instant } from './sql-text.ts'

/** One statement per call. */
export function postgresClaims({ driver, table, retain, keepsFailures }: StorePort): ClaimStatements {
  const run = (sql: string, parameters: readonly unknown[]) => driver.run(driver.pool, sql, parameters)
  const send = ({ sql, parameters }: ClaimStatement) => run(sql, parameters)
  return {
    async claim({ limit, maxBytes, spent, lease, token, quota, destinations, except = [], retried }) {
      const sql = claimSql(table, { retried, named: destinations !== undefined })
      const parameters = [limit, lease, token, [...except], quota ?? null, maxBytes ?? null, spent]
      const { rows } = await run(sql, destinations === undefined ? parameters : [...parameters, [...destinations]])
      return rows
    },

    contents: (keys) => readContents(driver, table, keys),

    async renew(claimed, lease) {
      const { rows } = await send(renewal(table, claimed, lease))
      return new Set(rows.map((row) => String(row['seq'])))
    },

    async release(claimed) {
      await send(releasing(table, claimed))
    },

    async settle(outcomes) {
      const failures = await settlesFailures(outcomes, keepsFailures)
      const { rows } = await send(settlement(table, outcomes, { retain, failures }))
      return settledSeqs(rows)
    },
  }
}

/** One statement per row: only rows larger than a whole claim are read like this. */
export async function readContents(driver: StorePort['driver'], table: string, keys: readonly RowKey[]): Promise<readonly Row[]> {
  const found: Row[] = []
  for (const { state, destination, seq } of keys) {
    found.push(...(await driver.run(driver.pool, contentsSql(table), [state, destination, seq])).rows)
  }
  return found
}

export interface ClaimVariant {
  readonly retried: 'only' | 'never' | undefined
  /** Whether destinations are given; otherwise all are discovered. */
  readonly named: boolean
}

/**
 * Leases claimable rows. $1 limit, $2 lease in milliseconds, $3 token, $4 destinations to exclude, $5 maximum per destination (null: a fair share),
 * $6 maximum bytes (null: no limit), $7 bytes that the claim has used so far, and $8 destinations, if they are given. Returns the rows as they are
 * now, and the quota.
 *
 * Locks the claimed rows until the statement ends and skips locked ones. Each part is read lazily, so that no more rows are locked than claimed.
 * Destinations are found by stepping from one to the next in the key, and are used in random order, because the last of many would starve otherwise.
 * The statement does not wait until the leases are on disk: if the server loses them, the records are claimed again, and the first relay's outcomes
 * are rejected.
 *
 * Bytes are counted across the targets (state and destination) in turn, so that large records of one destination leave room for the others. Any
 * target may come first, otherwise a record larger than a whole claim would never be claimed while retries are due. The server knows the length of a
 * large value from its header.
 */
export function claimSql(table: string, { retried, named }: ClaimVariant): string {
  const share = retried === undefined ? 'CASE WHEN $5::integer IS NULL THEN ceil($1 / 2.0)::integer ELSE $1 END' : '$1'
  const parts = [
    // Retries come first, as they are older, but at most half: a wave of retries must not block new records.
    `(SELECT * FROM (${partSql(table, 'waiting', retried)}) AS waiting LIMIT ${share})`,
    // A ready row that was leased before has not failed: the relay that leased it is gone. So `only` excludes ready rows.
    ...(retried === 'only' ? [] : [`SELECT * FROM (${partSql(table, 'ready', retried)}) AS ready`]),
  ]
  return `WITH RECURSIVE
${named ? namedSql() : `${jumpSql(table, 'ready')},\n${jumpSql(table, 'waiting')}`},
targets(state, destination) AS (
  SELECT 'ready', destination FROM ready_places WHERE destination <> ALL($4::text[])
  UNION ALL
  SELECT 'waiting', destination FROM waiting_places WHERE destination <> ALL($4::text[])
),
share(quota) AS MATERIALIZED (
  SELECT coalesce($5::integer, ceil($1::float8 / greatest(1, count(DISTINCT destination)))::integer), set_config('synchronous_commit', 'off', true)
  FROM targets
),
picked AS MATERIALIZED (
  SELECT parts.*, row_number() OVER () AS n FROM (${parts.join('\n  UNION ALL\n  ')}) AS parts LIMIT $1
),
counted AS (
  SELECT ctid, sum(bytes) OVER turns AS bytes, row_number() OVER turns AS n FROM (
    SELECT ctid, bytes, row_number() OVER (PARTITION BY state, destination ORDER BY n) AS turn, random() AS lot FROM picked
  ) AS numbered WINDOW turns AS (ORDER BY turn, lot)
)
UPDATE ${table} AS o
SET attempts = o.attempts + 1, lease_token = $3::uuid, lease_until = clock_timestamp() + $2::float8 * interval '1 millisecond'
WHERE o.ctid = ANY(ARRAY(SELECT ctid FROM counted WHERE $6::float8 IS NULL OR $7::float8 + bytes <= $6 OR (n = 1 AND $7 = 0)))
RETURNING o.seq::text AS seq, o.state, o.destination, o.id, o.type,
  CASE WHEN octet_length(o.data) > $6 THEN NULL ELSE o.data END AS data, o.attributes, o.attempts,
  ${instant('o.created_at')} AS created_at, ${ageOf('o.created_at')} AS age, (SELECT quota FROM share) AS quota`
}

function namedSql(): string {
  return `ready_places(destination) AS (SELECT DISTINCT unnest($8::text[])),
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
  // In a subquery, because the index cannot be used with a volatile function.
  const now = '(SELECT clock_timestamp())'
  const due = state === 'waiting' ? `AND o.available_at <= ${now}` : ''
  const failed = state === 'waiting' && retried !== undefined ? `AND o.attempts ${retried === 'only' ? '>' : '='} 0` : ''
  return `
    SELECT row.ctid, '${state}' AS state, target.destination, row.bytes
    FROM (SELECT destination FROM targets WHERE state = '${state}' ORDER BY random()) AS target
    CROSS JOIN LATERAL (
      SELECT o.ctid, octet_length(o.data)::float8 + octet_length(o.attributes) AS bytes FROM ${table} AS o
      WHERE o.state = '${state}' AND o.destination = target.destination ${due} ${failed}
        AND (o.lease_until IS NULL OR o.lease_until <= ${now})
      ORDER BY ${state === 'waiting' ? 'o.available_at, o.seq' : 'o.seq'}
      LIMIT (SELECT quota FROM share)
      FOR UPDATE SKIP LOCKED
    ) AS row`
}

/** The contents of a row. $1 state, $2 destination, $3 seq. */
function contentsSql(table: string): string {
  return `SELECT seq::text AS seq, data, attributes FROM ${table} WHERE state = $1 AND destination = $2 AND seq = $3::bigint`
}
