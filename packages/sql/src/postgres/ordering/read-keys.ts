import type { KeyStatements, KeysRead, KeysWalked, ReadKey } from '../../contract/ownership-statements.ts'
import { partitionCount } from '../../records/outbox-row.ts'
import type { Row } from '../../records/row.ts'
import { bindTo, numberArray } from '../sql-text.ts'
import type { OwnedClaimStatement } from './owned-claim.ts'
import { due, keyed, parkedSql } from './owned-rows.ts'

/** Seconds: a record that becomes due is found if it is committed at most this much later. */
const dueLag = 2

/** Greater than every seq of a key. */
const last = '9223372036854775807'

/** A JSON array of [partition, key, seq]. */
const list = 'json_agg(json_build_array(o.partition, o.ordering_key, o.seq::text))'

/**
 * Reads the keys of records, one row per destination. The planner must not know the limit: it would read and sort everything if it estimated not many
 * more rows.
 *
 * - ready: after the floor, in the order of the primary key, among those without a key and those of other members.
 * - due: of the rows that were waiting, in the order in which they became due.
 */
export function readKeysSql(outbox: string, options: Parameters<KeyStatements['readKeys']>[0]): OwnedClaimStatement {
  const { positions, partitions, keysUpTo } = options
  const parameters: unknown[] = []
  const bind = bindTo(parameters)
  const limit = bind(options.limit, 'integer')
  const isOwned = partitions.length === partitionCount ? 'true' : `o.partition = ANY(${bind(numberArray(partitions), 'smallint[]')})`
  const upTo = keysUpTo === undefined ? 'true' : `o.seq <= ${bind(keysUpTo, 'bigint')}`
  const given = [
    bind(
      positions.map(({ destination }) => destination),
      'text[]',
    ),
    bind(numberArray(positions.map(({ floor }) => floor)), 'bigint[]'),
    bind(numberArray(positions.map(({ dueAfter }) => dueAfter)), 'float8[]'),
  ]
  const sql = `WITH given AS MATERIALIZED (
  SELECT number, destination, floor, to_timestamp(due_after) AS due_after, clock_timestamp() AS now
  FROM unnest(${given.join(', ')}) WITH ORDINALITY AS given(destination, floor, due_after, number) WHERE destination || '' = destination
)
SELECT json_build_object(
    'ready', ready.keys, 'last', ready.last::text, 'plain', ready.plain,
    'due', due.keys, 'dueAfter', date_part('epoch', CASE WHEN due.count >= ${limit} THEN due.last
      ELSE greatest(given.due_after, given.now - ${dueLag} * interval '1 second') END),
    'more', ready.count >= ${limit} OR due.count >= ${limit}
  )::text AS result
FROM given
CROSS JOIN LATERAL (
  SELECT count(*) AS count, max(o.seq) AS last, coalesce(bool_or(o.ordering_key IS NULL), false) AS plain,
    ${list} FILTER (WHERE o.ordering_key IS NOT NULL AND ${isOwned}) AS keys
  FROM (
    SELECT o.partition, o.ordering_key, o.seq FROM ${outbox} AS o
    WHERE o.state = 'ready' AND o.destination = given.destination AND o.seq > given.floor AND ${upTo} ORDER BY o.seq LIMIT (SELECT ${limit})
  ) AS o
) AS ready
CROSS JOIN LATERAL (
  SELECT count(*) AS count, max(o.available_at) AS last, ${list} AS keys
  FROM (
    SELECT o.partition, o.ordering_key, o.seq, o.available_at FROM ${outbox} AS o
    WHERE o.state = 'waiting' AND o.destination = given.destination AND o.available_at > given.due_after AND o.available_at <= given.now
      AND o.ordering_key IS NOT NULL AND ${isOwned}
    ORDER BY o.available_at, o.seq LIMIT (SELECT ${limit})
  ) AS o
) AS due
ORDER BY given.number`
  return { sql, parameters }
}

/**
 * Steps from key to key in the index, one row per destination. A jump reaches the head of a key; if that is in a partition of another member, the next
 * jump goes to the next owned partition. While a transaction holds an old snapshot, the entries of deleted rows are all read: the range must be limited.
 */
export function walkKeysSql(outbox: string, options: Parameters<KeyStatements['walkKeys']>[0]): OwnedClaimStatement {
  const { ranges, partitions, behindParked } = options
  const parameters: unknown[] = []
  const bind = bindTo(parameters)
  const jumps = bind(options.jumps, 'integer')
  const owned = partitions.length === partitionCount ? undefined : bind(numberArray(partitions), 'smallint[]')
  const isOwned = owned === undefined ? 'true' : `o.partition = ANY(${owned})`
  const nextOwned = owned === undefined ? 'NULL' : `(SELECT min(p) FROM unnest(${owned}) AS p WHERE p > o.partition)`
  const gives = (from: string) => [
    isOwned,
    due,
    `o.seq <= ${from}.up_to`,
    ...(behindParked === 'kept' ? [`coalesce(o.seq < ${parkedSql(outbox, 'o')}, true)`] : []),
  ]
  const given = [
    bind(
      ranges.map(({ destination }) => destination),
      'text[]',
    ),
    bind(numberArray(ranges.map(({ after }) => after.partition)), 'smallint[]'),
    bind(
      ranges.map(({ after }) => after.key),
      'text[]',
    ),
    bind(numberArray(ranges.map(({ before }) => before)), 'smallint[]'),
    bind(numberArray(ranges.map(({ upTo }) => upTo ?? last)), 'bigint[]'),
  ]
  /** The next head, and from where the one after it is searched. */
  const jumpSql = (from: string) => `SELECT o.partition, o.ordering_key, o.seq, ${gives(from).join(' AND ')} AS gives,
      CASE WHEN ${isOwned} THEN o.partition ELSE coalesce(${nextOwned}, 32767) END::smallint AS seek_partition,
      CASE WHEN ${isOwned} THEN o.ordering_key ELSE '' END COLLATE "C" AS seek_key, CASE WHEN ${isOwned} THEN ${last} ELSE 0 END AS seek_seq
    FROM (
      SELECT o.destination, o.partition, o.ordering_key, o.seq, o.state, o.available_at, o.lease_until FROM ${outbox} AS o
      WHERE ${keyed} AND o.destination = ${from}.destination AND o.partition < ${from}.before
        AND (o.partition, o.ordering_key, o.seq) > (${from}.seek_partition, ${from}.seek_key, ${from}.seek_seq)
      ORDER BY o.partition, o.ordering_key, o.seq LIMIT 1
    ) AS o`
  const sql = `WITH RECURSIVE given AS MATERIALIZED (
  SELECT number, destination, before, up_to, seek_partition, seek_key COLLATE "C" AS seek_key, CASE seek_key WHEN '' THEN 0 ELSE ${last} END AS seek_seq
  FROM unnest(${given.join(', ')}) WITH ORDINALITY AS given(destination, seek_partition, seek_key, before, up_to, number) WHERE destination || '' = destination
),
walk AS (
  SELECT given.number, given.destination, given.before, given.up_to, o.*, 1 AS jump FROM given CROSS JOIN LATERAL (${jumpSql('given')}) AS o
  UNION ALL
  SELECT walk.number, walk.destination, walk.before, walk.up_to, o.*, walk.jump + 1
  FROM walk CROSS JOIN LATERAL (${jumpSql('walk')}) AS o WHERE walk.jump < ${jumps}
)
SELECT json_build_object('keys', walked.keys, 'last', walked.last, 'visited', walked.visited, 'more', walked.visited >= ${jumps})::text AS result
FROM given CROSS JOIN LATERAL (
  SELECT ${list} FILTER (WHERE o.gives) AS keys, (array_agg(json_build_object('partition', o.partition, 'key', o.ordering_key) ORDER BY o.jump DESC))[1] AS last,
    count(*) AS visited
  FROM walk AS o WHERE o.number = given.number
) AS walked
ORDER BY given.number`
  return { sql, parameters }
}

type KeyList = readonly (readonly [partition: number, key: string, seq: string])[] | null

/** An object whose lists and missing values are as the statement returns them. */
type Reported<Result, Lists extends keyof Result> = { readonly [Name in keyof Result]: Name extends Lists ? KeyList : Result[Name] | null }

export function readKeysRead(row: Row): KeysRead {
  const { ready, due: becameDue, last: seq, ...same } = JSON.parse(String(row['result'])) as Reported<KeysRead, 'ready' | 'due'>
  return {
    ...(same as Pick<KeysRead, 'plain' | 'dueAfter' | 'more'>),
    ready: keysOf(ready),
    due: keysOf(becameDue),
    last: seq ?? undefined,
  }
}

export function readKeysWalked(row: Row): KeysWalked {
  const { keys, last: key, ...same } = JSON.parse(String(row['result'])) as Reported<KeysWalked, 'keys'>
  return { ...(same as Pick<KeysWalked, 'visited' | 'more'>), keys: keysOf(keys), last: key ?? undefined }
}

function keysOf(keys: KeyList): readonly ReadKey[] {
  return (keys ?? []).map(([partition, key, seq]) => ({ partition, key, seq }))
}
