import type { OwnedClaimOptions } from '../../contract/ownership-statements.ts'
import type { Tables } from '../../contract/tables.ts'
import { partitionCount } from '../../records/outbox-row.ts'
import { ageOf, type BindParameter, bindTo, instant, numberArray } from '../sql-text.ts'
import { dataSql, foundSql, keyed, keyRunsSql, notInFlightSql, now, unleased } from './owned-rows.ts'

export interface OwnedClaimStatement {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/**
 * Claims rows of the member's partitions and writes a journal entry; changes and locks no row of the outbox. The row without a seq is the status, as
 * JSON in the column of the attributes. The statement does not wait until the entry is on disk: the journal is for the loss of a relay, not of the
 * server. A registered live member owns the partitions it had when its lease was last extended: a takeover deletes the member first.
 *
 * - targets: the destinations in random order, because the last of many would starve otherwise. Each gets the same share. The condition that a
 *   destination equals itself makes the planner expect one row: for hundreds, it would estimate such a high cost that it compiles the statement
 *   (JIT), which takes seconds.
 * - runs: of the given keys. fresh, swept: records without a key, after the floor and in a range below it. retried: retries that are due.
 * - picked: a row of each kind of each target in turn. found: those that the byte limit of the claim allows, with their contents. Any kind may come
 *   first, otherwise a record larger than a whole claim would never be claimed while there are others.
 */
export function ownedClaimSql({ outbox, relays, partitions, hands }: Tables, options: OwnedClaimOptions): OwnedClaimStatement {
  const { discover, positions, keys, entry } = options
  const visits = keys !== undefined && keys.length > 0
  const parameters: unknown[] = []
  const bind = bindTo(parameters)
  const member = bind(options.member, 'uuid')
  const limit = bind(options.limit, 'integer')
  const window = bind(options.window, 'integer')
  // If the member owns all partitions, no comparison is needed.
  const owned = options.partitions.length === partitionCount ? undefined : bind(numberArray(options.partitions), 'smallint[]')
  const notInFlight = notInFlightSql(options, bind)
  const mine = `o.ordering_key IS NULL AND ${owned === undefined ? 'true' : `o.partition = ANY(${owned})`} AND ${unleased}`
  const sweeps = positions.some(({ sweep: [after, to] }) => after !== to)

  // The planner must not know the limit: it would read and sort everything if it estimated not many more rows.
  const readSql = (columns: string, more: string) => `SELECT ${columns} FROM ${outbox} AS o
      WHERE o.state = 'ready' AND o.destination = target.destination AND o.seq > target.floor AND ${notInFlight} AND ${more}
      ORDER BY o.seq LIMIT (SELECT ${window})`
  const sweptSql = `
swept AS MATERIALIZED (
  SELECT target.target, target.destination, o.* FROM targets AS target CROSS JOIN LATERAL (
    SELECT o.ctid, o.seq, o.attempts FROM ${outbox} AS o
    WHERE o.state = 'ready' AND o.destination = target.destination AND o.seq > target.sweep_after AND o.seq <= target.sweep_to AND ${mine} AND ${notInFlight}
    ORDER BY o.seq LIMIT (SELECT plain FROM share)
  ) AS o
),`
  const parts = [
    `SELECT target, destination, 'plain' AS kind, 'ready' AS state, ctid, seq, attempts, 0::bigint AS n, NULL::bigint AS turn, NULL::bigint AS behind FROM fresh`,
    `SELECT target, destination, 'retried', 'waiting', ctid, seq, attempts, n, NULL, NULL FROM retried`,
    ...(sweeps ? [`SELECT target, destination, 'plain', 'ready', ctid, seq, attempts, 0, NULL, NULL FROM swept`] : []),
    ...(visits ? [`SELECT target, destination, 'keyed', state, ctid, seq, attempts, n, turn, behind FROM runs`] : []),
  ]
  const discovered = `'free', (SELECT count(*) FROM ${partitions} WHERE owner IS NULL OR owner NOT IN (SELECT member FROM ${relays})),
    'any_keys', ${keys !== undefined} OR (SELECT true FROM ${outbox} AS o WHERE ${keyed} ORDER BY o.destination, o.partition, o.ordering_key, o.seq LIMIT 1) IS NOT NULL,`

  const sql = `WITH RECURSIVE
me AS MATERIALIZED (
  SELECT (extract(epoch FROM r.alive_until - clock_timestamp()) * 1000)::float8 AS remaining, set_config('synchronous_commit', 'off', true)
  FROM ${relays} AS r WHERE r.member = ${member} AND r.alive_until > clock_timestamp()
),
${destinationsSql(outbox, options, bind)},
targets AS MATERIALIZED (
  SELECT row_number() OVER () AS target, found.* FROM (
    SELECT destination, coalesce(floor, 0) AS floor, coalesce(sweep_after, 0) AS sweep_after, coalesce(sweep_to, 0) AS sweep_to
    FROM (SELECT DISTINCT destination FROM destinations) AS one LEFT JOIN known USING (destination)
    WHERE destination <> ALL(${bind([...options.except], 'text[]')}) AND destination || '' = destination AND EXISTS (SELECT FROM me)
    ORDER BY random() LIMIT ${limit}
  ) AS found
),
share AS MATERIALIZED (
  SELECT ceil(${limit} / greatest(1, count(*))::float8)::integer AS plain FROM targets
),${visits ? keyRunsSql({ ...options, outbox, keys, limit, partitions: owned, bind }) : ''}
fresh AS MATERIALIZED (
  SELECT target.target, target.destination, o.* FROM targets AS target CROSS JOIN LATERAL (
    SELECT o.ctid, o.seq, o.attempts FROM (${readSql('o.ctid, o.seq, o.attempts, o.partition, o.ordering_key, o.lease_until', 'true')}) AS o
    WHERE ${mine} ORDER BY o.seq LIMIT (SELECT plain FROM share)
  ) AS o
),
retried AS MATERIALIZED (
  SELECT target.target, target.destination, o.*, row_number() OVER () AS n FROM targets AS target CROSS JOIN LATERAL (
    SELECT o.ctid, o.seq, o.attempts FROM ${outbox} AS o
    WHERE o.state = 'waiting' AND o.destination = target.destination AND o.available_at <= ${now} AND ${mine} AND ${notInFlight}
    ORDER BY o.available_at, o.seq LIMIT (SELECT plain FROM share)
  ) AS o
),${sweeps ? sweptSql : ''}
picked AS MATERIALIZED (
  SELECT * FROM (
    SELECT parts.*, row_number() OVER (PARTITION BY target, kind ORDER BY n, turn, seq) AS rank FROM (
      ${parts.join('\n      UNION ALL ')}
    ) AS parts
  ) AS ranked ORDER BY rank, target LIMIT ${limit}
),
found AS MATERIALIZED (${foundSql(outbox, options, bind, 'rank, random()')}),
noted AS (
  INSERT INTO ${hands} (member, note, state, destination, seqs, attempts)
  SELECT ${member}, ${bind(entry.number, 'bigint')}, state, destination, array_agg(seq), array_agg(attempts)
  FROM (SELECT state, destination, seq, attempts FROM found${carriedSql(entry, bind)}) AS held WHERE EXISTS (SELECT FROM me) GROUP BY state, destination
),
done AS (DELETE FROM ${hands} WHERE member = ${member} AND note = ANY(${bind(numberArray(entry.done), 'bigint[]')}) AND EXISTS (SELECT FROM me)),
progress AS (
  SELECT target.destination, matched.count AS matches, CASE WHEN matched.count >= share.plain THEN matched.last ELSE read.last END::text AS read,
    matched.count >= share.plain OR read.count >= ${window}
      OR (SELECT count(*) FROM retried WHERE retried.target = target.target) >= share.plain
      ${sweeps ? 'OR (SELECT count(*) FROM swept WHERE swept.target = target.target) >= share.plain' : ''} AS more
  FROM targets AS target CROSS JOIN share
  CROSS JOIN LATERAL (SELECT count(*) AS count, max(fresh.seq) AS last FROM fresh WHERE fresh.target = target.target) AS matched
  CROSS JOIN LATERAL (SELECT count(*) AS count, max(o.seq) AS last FROM (${readSql('o.seq', 'matched.count < share.plain')}) AS o) AS read
)
SELECT NULL::text AS seq, NULL::text AS state, NULL::text AS destination, NULL::bytea AS data,
  json_build_object(
    'remaining', me.remaining,
    'live', (SELECT count(*) FROM ${relays} WHERE alive_until > clock_timestamp()),
    'gone', (SELECT count(*) FROM ${relays} WHERE alive_until <= clock_timestamp()),
    'cut', (SELECT count(*) FROM found) < (SELECT count(*) FROM picked),
    ${discover ? discovered : ''}
    ${visits ? `'empty', (SELECT json_agg(turn) FROM visited WHERE turn NOT IN (SELECT turn FROM heads)),` : ''}
    'progress', (SELECT json_agg(progress) FROM progress)
  )::text AS attributes,
  NULL::integer AS attempts, NULL::float8 AS created_at, NULL::float8 AS age, NULL::smallint AS partition, NULL::text AS location${visits ? ', NULL::text AS ordering_key, NULL::integer AS turn, NULL::text AS behind' : ''}
FROM me
UNION ALL
SELECT found.seq::text, found.state, found.destination, ${dataSql(options, bind)}, found.attributes, found.attempts, ${instant('found.created_at')},
  ${ageOf('found.created_at')}, found.partition, found.ctid::text${visits ? ', found.ordering_key, found.turn::integer, found.behind::text' : ''}
FROM found`
  return { sql, parameters }
}

/** `known`, the positions, and `destinations`, those that are read: the requested ones, all existing ones, or the known ones. */
function destinationsSql(outbox: string, { destinations, discover, positions }: OwnedClaimOptions, bind: BindParameter): string {
  const columns = [
    bind(
      positions.map(({ destination }) => destination),
      'text[]',
    ),
    bind(numberArray(positions.map(({ floor }) => floor)), 'bigint[]'),
    bind(numberArray(positions.map(({ sweep: [after] }) => after)), 'bigint[]'),
    bind(numberArray(positions.map(({ sweep: [, to] }) => to)), 'bigint[]'),
  ]
  const known = `known AS MATERIALIZED (
  SELECT * FROM unnest(${columns.join(', ')}) AS known(destination, floor, sweep_after, sweep_to)
)`
  if (destinations !== undefined) return `${known},\ndestinations AS (SELECT unnest(${bind([...destinations], 'text[]')}) AS destination)`
  if (!discover) return `${known},\ndestinations AS (SELECT destination FROM known)`
  return `${known},
gaps AS MATERIALIZED (
  SELECT lower, coalesce(lead(lower) OVER (ORDER BY lower), repeat(chr(1114111), 257)) COLLATE "C" AS upper
  FROM (SELECT '' COLLATE "C" AS lower UNION ALL SELECT destination COLLATE "C" FROM known) AS bounds
),
${discoverSql(outbox, 'ready')},
${discoverSql(outbox, 'waiting')},
destinations AS (
  SELECT destination FROM known UNION ALL SELECT destination FROM ready_destinations UNION ALL SELECT destination FROM waiting_destinations
)`
}

/**
 * Steps from one destination to the next, between known ones: many deleted rows may still exist because a transaction holds an old snapshot, and
 * finding the first row of a destination would scan all of them.
 */
function discoverSql(outbox: string, state: 'ready' | 'waiting'): string {
  const next = (after: string, upper: string) => `SELECT o.destination FROM ${outbox} AS o
    WHERE o.state = '${state}' AND o.destination > ${after} AND o.destination < ${upper} ORDER BY o.destination LIMIT 1`
  return `${state}_destinations(destination, upper) AS (
  SELECT o.destination, gaps.upper FROM gaps CROSS JOIN LATERAL (${next('gaps.lower', 'gaps.upper')}) AS o
  UNION ALL
  SELECT o.destination, before.upper FROM ${state}_destinations AS before CROSS JOIN LATERAL (${next('before.destination', 'before.upper')}) AS o
)`
}

function carriedSql({ carried }: OwnedClaimOptions['entry'], bind: BindParameter): string {
  if (carried.length === 0) return ''
  const columns = [
    bind(
      carried.map(({ state }) => state),
      'text[]',
    ),
    bind(
      carried.map(({ destination }) => destination),
      'text[]',
    ),
    bind(numberArray(carried.map(({ seq }) => seq)), 'bigint[]'),
    bind(numberArray(carried.map(({ attempts }) => attempts)), 'integer[]'),
  ]
  return ` UNION ALL SELECT * FROM unnest(${columns.join(', ')})`
}
