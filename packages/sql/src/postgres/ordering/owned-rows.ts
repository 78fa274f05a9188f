import type { OwnedClaimOptions, PendingKey } from '../../contract/ownership-statements.ts'
import { type BindParameter, numberArray } from '../sql-text.ts'

/** Parts of the statements with which the owner of partitions reads the outbox. Rows are named `o`. */

// In a subquery, because an index cannot be used with a volatile function.
export const now = '(SELECT clock_timestamp())'

/** The condition of the index of keys. */
export const keyed = `o.ordering_key IS NOT NULL AND o.state IN ('ready', 'waiting')`

/** A relay without order may still have leased it while the order of a table is being changed. */
export const unleased: string = `(o.lease_until IS NULL OR o.lease_until <= ${now})`

/** Whether the head of a key may be claimed. */
export const due: string = `(o.state = 'ready' OR o.available_at <= ${now}) AND ${unleased}`

/**
 * The rows of `picked`, in this order, that the byte limit of a claim allows, with their contents. Large values are not read for that: the server
 * knows their length from their headers, and passes references.
 */
export function foundSql(outbox: string, { maxBytes, spent }: OwnedClaimOptions, bind: BindParameter, order: string): string {
  const rows = `picked CROSS JOIN LATERAL (
    SELECT o.data, o.attributes, o.created_at, o.partition, o.ordering_key FROM ${outbox} AS o WHERE o.ctid = picked.ctid OFFSET 0
  ) AS o`
  if (maxBytes === undefined) return `SELECT picked.*, o.* FROM ${rows}`
  const before = bind(spent, 'float8')
  const max = bind(maxBytes, 'float8')
  return `
  SELECT * FROM (
    SELECT picked.*, o.*, row_number() OVER turns AS number, sum(octet_length(o.data)::float8 + octet_length(o.attributes)) OVER turns AS bytes
    FROM ${rows} WINDOW turns AS (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)
  ) AS counted WHERE ${before} + bytes <= ${max} OR (number = 1 AND ${before} = 0)
`
}

/** The condition that a record without a key is not in flight at this member. */
export function notInFlightSql({ inFlight }: OwnedClaimOptions, bind: BindParameter): string {
  const seqs = inFlight.filter(({ key }) => key === undefined).map(({ seq }) => seq)
  return seqs.length === 0 ? 'true' : `o.seq NOT IN (SELECT unnest(${bind(numberArray(seqs), 'bigint[]')}))`
}

/** The data of a row, unless it is larger than the whole claim. */
export function dataSql({ maxBytes }: OwnedClaimOptions, bind: BindParameter): string {
  return maxBytes === undefined
    ? 'found.data'
    : `CASE WHEN octet_length(found.data) > ${bind(maxBytes, 'float8')} THEN NULL ELSE found.data END`
}

/** The first parked row of the key of this row. */
export function parkedSql(outbox: string, row: string): string {
  return `(SELECT min(p.seq) FROM ${outbox} AS p WHERE p.ordering_key IS NOT NULL AND p.state = 'parked'
      AND p.destination = ${row}.destination AND p.partition = ${row}.partition AND p.ordering_key = ${row}.ordering_key)`
}

export interface KeyRunsOptions extends Pick<OwnedClaimOptions, 'behindParked' | 'keysUpTo'> {
  readonly outbox: string
  readonly keys: readonly PendingKey[]
  /** The parameter with the limit. */
  readonly limit: string
  /** The parameter with the partitions; `undefined` for all of them. */
  readonly partitions: string | undefined
  readonly bind: BindParameter
}

/**
 * The part of the claim that returns runs of keys: CTEs that end with `runs`. They require `targets`.
 *
 * - visited: the keys, with their number. heads: their first rows, if these may be claimed. A key is searched from its seq on, otherwise the index
 *   entries of all its deleted rows would be read while a transaction holds an old snapshot.
 * - first_runs: from each head as many rows as each key may have. longer: keys with more rows, which get the unused shares.
 */
export function keyRunsSql(options: KeyRunsOptions): string {
  const { outbox, keys, limit, partitions, behindParked, bind } = options
  const columns = [
    bind(
      keys.map(({ destination }) => destination),
      'text[]',
    ),
    bind(numberArray(keys.map(({ partition }) => partition)), 'smallint[]'),
    bind(
      keys.map(({ key }) => key),
      'text[]',
    ),
    bind(numberArray(keys.map(({ after }) => after)), 'bigint[]'),
  ]
  const isOwned = partitions === undefined ? 'true' : `o.partition = ANY(${partitions})`
  const gives = [isOwned, due, ...(behindParked === 'kept' ? [`coalesce(o.seq < ${parkedSql(outbox, 'o')}, true)`] : [])]
  const behind = (row: string, head: string) =>
    behindParked === 'marked' ? `CASE WHEN ${row}.seq > ${head}.parked THEN ${head}.parked END` : 'NULL::bigint'
  const upTo = options.keysUpTo === undefined ? '' : `AND o.seq <= ${bind(options.keysUpTo, 'bigint')}`
  const rowsSql = (
    key: string,
    after: string,
    count: string,
  ) => `SELECT o.ctid, o.destination, o.partition, o.ordering_key, o.seq, o.state, o.attempts,
          o.available_at, o.lease_until FROM ${outbox} AS o
        WHERE ${keyed} AND o.destination = ${key}.destination AND o.partition = ${key}.partition AND o.ordering_key = ${key}.ordering_key
          AND o.seq > ${after} ${upTo} ORDER BY o.seq LIMIT ${count}`
  /** The rows after a seq of a key, up to the first that is not due. */
  const nextSql = (count: string) => `SELECT o.* FROM (
      SELECT o.ctid, o.seq, o.state, o.attempts, row_number() OVER (ORDER BY o.seq) AS n, bool_and(${due}) OVER (ORDER BY o.seq) AS goes,
        ${behind('o', 'head')} AS behind
      FROM (${rowsSql('head', 'head.seq', count)}) AS o
    ) AS o WHERE o.goes${behindParked === 'kept' ? ' AND coalesce(o.seq < head.parked, true)' : ''}`

  return `
visited AS MATERIALIZED (
  SELECT target.target, visited.* FROM targets AS target
  JOIN unnest(${columns.join(', ')}) WITH ORDINALITY AS visited(destination, partition, ordering_key, after, turn) ON visited.destination = target.destination
),
heads AS MATERIALIZED (
  SELECT visited.target, visited.turn, o.*, ${behindParked === 'given' ? 'NULL::bigint' : parkedSql(outbox, 'o')} AS parked
  FROM visited CROSS JOIN LATERAL (${rowsSql('visited', 'visited.after', '1')}) AS o WHERE ${gives.join(' AND ')}
),
length AS MATERIALIZED (SELECT ceil(${limit} / greatest(1, count(*))::float8)::integer AS length FROM heads),
first_runs AS MATERIALIZED (
  SELECT target, destination, partition, ordering_key, turn, parked, ctid, seq, state, attempts, 1::bigint AS n, ${behind('heads', 'heads')} AS behind FROM heads
  UNION ALL
  SELECT head.target, head.destination, head.partition, head.ordering_key, head.turn, head.parked, o.ctid, o.seq, o.state, o.attempts, o.n + 1, o.behind
  FROM heads AS head CROSS JOIN LATERAL (${nextSql('(SELECT length - 1 FROM length)')}) AS o WHERE (SELECT length FROM length) > 1
),
longer AS MATERIALIZED (
  SELECT head.*, greatest(0, ${limit} - (SELECT count(*) FROM first_runs)) / count(*) OVER () AS more FROM (
    SELECT target, destination, partition, ordering_key, turn, parked, max(seq) AS seq, count(*) AS n FROM first_runs
    GROUP BY target, destination, partition, ordering_key, turn, parked
  ) AS head WHERE head.n >= (SELECT length FROM length) AND (SELECT count(*) FROM first_runs) < ${limit}
),
runs AS (
  SELECT target, destination, turn, ctid, seq, state, attempts, n, behind FROM first_runs
  UNION ALL
  SELECT head.target, head.destination, head.turn, o.ctid, o.seq, o.state, o.attempts, head.n + o.n, o.behind
  FROM longer AS head CROSS JOIN LATERAL (${nextSql('head.more')}) AS o
),`
}
