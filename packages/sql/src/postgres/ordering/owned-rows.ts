import type { OwnedClaimOptions } from '../../contract/store-dialect.ts'
import { type BindParameter, numberArray } from '../sql-text.ts'

/** Parts of the statements with which the owner of partitions reads the outbox. Rows are named `o`. */

// In a subquery, because an index cannot be used with a volatile function.
export const now = '(SELECT clock_timestamp())'

/** The condition of the index of keys. */
export const keyed = `o.ordering_key IS NOT NULL AND o.state IN ('ready', 'waiting')`

/** A relay without order may still have leased it while the order of a table is being changed. */
export const unleased: string = `(o.lease_until IS NULL OR o.lease_until <= ${now})`

const due: string = `(o.state = 'ready' OR o.available_at <= ${now}) AND ${unleased}`

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

export interface KeyRunsOptions extends Pick<OwnedClaimOptions, 'jumps' | 'inFlight' | 'behindParked'> {
  readonly outbox: string
  /** The parameter with the limit. */
  readonly limit: string
  /** The parameter with the partitions; `undefined` for all of them. */
  readonly partitions: string | undefined
  readonly bind: BindParameter
}

/** Greater than every seq of a key. */
const last = '9223372036854775807'

/**
 * The part of the claim that returns runs of keys: CTEs that end with `runs`. They require `targets`, with the start of each walk, and `share`.
 *
 * - walk: steps from key to key of a destination in the index, one round from its start. A jump reaches the head of a key; if that is in a partition
 *   of another member, the next jump goes to the next owned partition. The walk ends when enough keys have records to claim.
 * - first_runs: from each head as many rows as each key may have. longer: keys with more rows, which get the unused shares.
 */
export function keyRunsSql(options: KeyRunsOptions): string {
  const { outbox, limit, partitions, behindParked, bind } = options
  const maxJumps = bind(options.jumps, 'integer')
  const isOwned = partitions === undefined ? 'true' : `o.partition = ANY(${partitions})`
  const nextOwned = partitions === undefined ? '32767' : `(SELECT min(p) FROM unnest(${partitions}) AS p WHERE p > o.partition)`
  const parked = (row: string) => `(SELECT min(p.seq) FROM ${outbox} AS p WHERE p.ordering_key IS NOT NULL AND p.state = 'parked'
      AND p.destination = ${row}.destination AND p.partition = ${row}.partition AND p.ordering_key = ${row}.ordering_key)`
  const gives = [isOwned, due, ...heldCondition(options), ...(behindParked === 'kept' ? [`coalesce(o.seq < ${parked('o')}, true)`] : [])]
  const keyPosition = '(o.partition, o.ordering_key, o.seq)'
  const start = (from: string) => `(${from}.start_partition, ${from}.start_key, ${last})`

  const headSql = (
    from: string,
    condition: string,
  ) => `SELECT o.ctid, o.destination, o.partition, o.ordering_key, o.seq, o.state, o.attempts, o.available_at, o.lease_until
        FROM ${outbox} AS o WHERE ${keyed} AND o.destination = ${from}.destination AND ${condition}
        ORDER BY o.partition, o.ordering_key, o.seq LIMIT 1`
  /** The next head, or the first head of all if there is no next: one round. */
  const jumpSql = (from: string, next: string, wrapped: string) => `SELECT o.*, ${gives.join(' AND ')} AS gives, ${isOwned} AS owned FROM (
      (SELECT o.*, ${wrapped} AS wrapped FROM (${headSql(from, next)}) AS o)
      UNION ALL
      (SELECT o.*, true FROM (${headSql(from, `NOT ${wrapped} AND ${keyPosition} <= ${start(from)}`)}) AS o)
      LIMIT 1
    ) AS o WHERE NOT o.wrapped OR ${keyPosition} <= ${start(from)}`
  const landed = (from: string) => `o.ctid, o.partition, o.ordering_key, o.seq, o.state, o.attempts, o.wrapped, o.gives,
    CASE WHEN o.owned THEN o.partition ELSE coalesce(${nextOwned}, 32767) END::smallint, CASE WHEN o.owned THEN o.ordering_key ELSE '' END COLLATE "C",
    CASE WHEN o.owned THEN ${last} ELSE 0 END, ${from}.start_partition, ${from}.start_key`

  const behind = (row: string, head: string) =>
    behindParked === 'marked' ? `CASE WHEN ${row}.seq > ${head}.parked THEN ${head}.parked END` : 'NULL::bigint'
  /** The rows after a seq of a key, up to the first that is not due. */
  const nextSql = (count: string) => `SELECT o.* FROM (
      SELECT o.ctid, o.seq, o.state, o.attempts, row_number() OVER (ORDER BY o.seq) AS n, bool_and(${due}) OVER (ORDER BY o.seq) AS goes,
        ${behind('o', 'head')} AS behind
      FROM (
        SELECT o.ctid, o.seq, o.state, o.attempts, o.available_at, o.lease_until FROM ${outbox} AS o
        WHERE ${keyed} AND o.destination = head.destination AND o.partition = head.partition AND o.ordering_key = head.ordering_key
          AND o.seq > head.seq${behindParked === 'kept' ? ' AND coalesce(o.seq < head.parked, true)' : ''}
        ORDER BY o.seq LIMIT ${count}
      ) AS o
    ) AS o WHERE o.goes`

  return `
walk(target, destination, ctid, partition, ordering_key, seq, state, attempts, wrapped, gives, seek_partition, seek_key, seek_seq, start_partition, start_key,
  jump, heads) AS (
  SELECT target.target, target.destination, ${landed('target')}, 1, o.gives::integer
  FROM targets AS target CROSS JOIN LATERAL (${jumpSql('target', `${keyPosition} > ${start('target')}`, 'false')}) AS o
  UNION ALL
  SELECT before.target, before.destination, ${landed('before')}, before.jump + 1, before.heads + o.gives::integer
  FROM walk AS before CROSS JOIN LATERAL (
    ${jumpSql('before', `${keyPosition} > (before.seek_partition, before.seek_key, before.seek_seq)`, 'before.wrapped')}
  ) AS o
  WHERE before.jump < ${maxJumps} AND before.heads < (SELECT keys FROM share)
),
heads AS MATERIALIZED (
  SELECT walk.*, walk.jump AS turn, ${behindParked === 'given' ? 'NULL::bigint' : parked('walk')} AS parked FROM walk WHERE walk.gives
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

/** How far the walk of a target got. */
export function walkedSql(jumps: number): string {
  return `SELECT (array_agg(walk.partition ORDER BY walk.jump DESC))[1] AS partition, (array_agg(walk.ordering_key ORDER BY walk.jump DESC))[1] AS key,
    coalesce(max(walk.heads), 0) AS heads, coalesce(max(walk.jump) < ${jumps} AND max(walk.heads) < share.keys, true) AS all_keys
  FROM walk WHERE walk.target = target.target`
}

/** Excludes keys with records in flight. */
function heldCondition({ inFlight, bind }: KeyRunsOptions): readonly string[] {
  const keys = new Map<string, readonly [string, string]>()
  for (const { destination, key } of inFlight) if (key !== undefined) keys.set(JSON.stringify([destination, key]), [destination, key])
  if (keys.size === 0) return []
  const held = [...keys.values()]
  const columns = [held.map(([destination]) => destination), held.map(([, key]) => key)].map((column) => bind(column, 'text[]'))
  return [`(o.destination, o.ordering_key) NOT IN (SELECT * FROM unnest(${columns.join(', ')}))`]
}
