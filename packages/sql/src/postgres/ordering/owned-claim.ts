import type { Tables } from '../../contract/database-options.ts'
import type { OwnedClaimOptions } from '../../contract/store-dialect.ts'
import { partitionCount } from '../../records/partition.ts'
import { type Give, giveTo, instant, numberArray } from '../sql-text.ts'
import { keyRunsSql, walkedSql } from './key-runs.ts'
import { dataSql, foundSql, keyed, now, unleased } from './owned-rows.ts'

export interface OwnedClaimStatement {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/**
 * Gives rows of the member's partitions and notes that it has them; changes and locks no row of the outbox. The row without a seq is the status, as JSON in
 * the place of the attributes. It does not wait until the note is on disk: that is for the day on which a relay is lost, not the server.
 * A member that is noted and lives owns what it got when it was last kept: whoever takes a partition from it deletes it first.
 *
 * - places: the destinations, in any order, or the last of many would starve. Each gets the same share. That each is itself is not to find it out, but for
 *   the planner to expect one: for hundreds, it would think the whole so expensive that it has it compiled, which takes seconds.
 * - runs: of keys. fresh, swept: what has no key, after the floor and in a part below it. retried: what has waited long enough.
 * - picked: a row of each kind of each place in turn. found: those of them that the bytes of the claim allow, with their contents. Any kind may be the first, or
 *   a record that is larger than a whole claim would never be taken while others are there.
 */
export function ownedClaimSql({ outbox, relays, partitions, hands }: Tables, options: OwnedClaimOptions): OwnedClaimStatement {
  const { discover, positions, jumps, note } = options
  const parameters: unknown[] = []
  const give = giveTo(parameters)
  const member = give(options.member, 'uuid')
  const limit = give(options.limit, 'integer')
  const window = give(options.window, 'integer')
  // All of them need not be compared.
  const owned = options.partitions.length === partitionCount ? undefined : give(numberArray(options.partitions), 'smallint[]')
  const held = options.inHand.filter(({ key }) => key === undefined).map(({ seq }) => seq)
  const notHeld = held.length === 0 ? 'true' : `o.seq NOT IN (SELECT unnest(${give(numberArray(held), 'bigint[]')}))`
  const mine = `o.ordering_key IS NULL AND ${owned === undefined ? 'true' : `o.partition = ANY(${owned})`} AND ${unleased}`
  const sweeps = positions.some(({ sweep: [after, to] }) => after !== to)

  // The planner must not know the limit: it would read and sort all there is if it thought that was not much more.
  const readSql = (columns: string, more: string) => `SELECT ${columns} FROM ${outbox} AS o
      WHERE o.state = 'ready' AND o.destination = place.destination AND o.seq > place.floor AND ${notHeld} AND ${more}
      ORDER BY o.seq LIMIT (SELECT ${window})`
  const sweptSql = `
swept AS MATERIALIZED (
  SELECT place.place, place.destination, o.* FROM places AS place CROSS JOIN LATERAL (
    SELECT o.ctid, o.seq, o.attempts FROM ${outbox} AS o
    WHERE o.state = 'ready' AND o.destination = place.destination AND o.seq > place.sweep_after AND o.seq <= place.sweep_to AND ${mine} AND ${notHeld}
    ORDER BY o.seq LIMIT (SELECT plain FROM share)
  ) AS o
),`
  const parts = [
    `SELECT place, destination, 'plain' AS kind, 'ready' AS state, ctid, seq, attempts, 0::bigint AS n, NULL::bigint AS turn, NULL::bigint AS behind FROM fresh`,
    `SELECT place, destination, 'retried', 'waiting', ctid, seq, attempts, n, NULL, NULL FROM retried`,
    ...(sweeps ? [`SELECT place, destination, 'plain', 'ready', ctid, seq, attempts, 0, NULL, NULL FROM swept`] : []),
    ...(jumps > 0 ? [`SELECT place, destination, 'keyed', state, ctid, seq, attempts, n, turn, behind FROM runs`] : []),
  ]
  const discovered = `'free', (SELECT count(*) FROM ${partitions} WHERE owner IS NULL OR owner NOT IN (SELECT member FROM ${relays})),
    'any_keys', (SELECT true FROM ${outbox} AS o WHERE ${keyed} ORDER BY o.destination, o.partition, o.ordering_key, o.seq LIMIT 1) IS NOT NULL,`

  const sql = `WITH RECURSIVE
me AS MATERIALIZED (
  SELECT (extract(epoch FROM r.alive_until - clock_timestamp()) * 1000)::float8 AS remaining, set_config('synchronous_commit', 'off', true)
  FROM ${relays} AS r WHERE r.member = ${member} AND r.alive_until > clock_timestamp()
),
${destinationsSql(outbox, options, give)},
places AS MATERIALIZED (
  SELECT row_number() OVER () AS place, found.* FROM (
    SELECT destination, coalesce(floor, 0) AS floor, coalesce(sweep_after, 0) AS sweep_after, coalesce(sweep_to, 0) AS sweep_to,
      coalesce(start_partition, -1)::smallint AS start_partition, coalesce(start_key, '') COLLATE "C" AS start_key
    FROM (SELECT DISTINCT destination FROM destinations) AS one LEFT JOIN known USING (destination)
    WHERE destination <> ALL(${give([...options.except], 'text[]')}) AND destination || '' = destination AND EXISTS (SELECT FROM me)
    ORDER BY random() LIMIT ${limit}
  ) AS found
),
share AS MATERIALIZED (
  SELECT greatest(1, ${limit} / greatest(1, count(*)))::integer AS keys, ceil(${limit} / greatest(1, count(*))::float8)::integer AS plain FROM places
),${jumps > 0 ? keyRunsSql({ ...options, outbox, limit, partitions: owned, give }) : ''}
fresh AS MATERIALIZED (
  SELECT place.place, place.destination, o.* FROM places AS place CROSS JOIN LATERAL (
    SELECT o.ctid, o.seq, o.attempts FROM (${readSql('o.ctid, o.seq, o.attempts, o.partition, o.ordering_key, o.lease_until', 'true')}) AS o
    WHERE ${mine} ORDER BY o.seq LIMIT (SELECT plain FROM share)
  ) AS o
),
retried AS MATERIALIZED (
  SELECT place.place, place.destination, o.*, row_number() OVER () AS n FROM places AS place CROSS JOIN LATERAL (
    SELECT o.ctid, o.seq, o.attempts FROM ${outbox} AS o
    WHERE o.state = 'waiting' AND o.destination = place.destination AND o.available_at <= ${now} AND ${mine} AND ${notHeld}
    ORDER BY o.available_at, o.seq LIMIT (SELECT plain FROM share)
  ) AS o
),${sweeps ? sweptSql : ''}
picked AS MATERIALIZED (
  SELECT * FROM (
    SELECT parts.*, row_number() OVER (PARTITION BY place, kind ORDER BY n, turn, seq) AS rank FROM (
      ${parts.join('\n      UNION ALL ')}
    ) AS parts
  ) AS ranked ORDER BY rank, place LIMIT ${limit}
),
found AS MATERIALIZED (${foundSql(outbox, options, give, 'rank, random()')}),
noted AS (
  INSERT INTO ${hands} (member, note, state, destination, seqs, attempts)
  SELECT ${member}, ${give(note.number, 'bigint')}, state, destination, array_agg(seq), array_agg(attempts)
  FROM (SELECT state, destination, seq, attempts FROM found${carriedSql(note, give)}) AS held WHERE EXISTS (SELECT FROM me) GROUP BY state, destination
),
done AS (DELETE FROM ${hands} WHERE member = ${member} AND note = ANY(${give(numberArray(note.done), 'bigint[]')}) AND EXISTS (SELECT FROM me)),
progress AS (
  SELECT place.destination, matched.count AS matches, CASE WHEN matched.count >= share.plain THEN matched.last ELSE read.last END::text AS read,
    matched.count >= share.plain OR read.count >= ${window}
      OR (SELECT count(*) FROM retried WHERE retried.place = place.place) >= share.plain
      ${sweeps ? 'OR (SELECT count(*) FROM swept WHERE swept.place = place.place) >= share.plain' : ''} AS more,
    ${jumps > 0 ? 'walked.*' : 'NULL AS partition, NULL AS key, 0 AS heads, true AS all_keys'}
  FROM places AS place CROSS JOIN share
  CROSS JOIN LATERAL (SELECT count(*) AS count, max(fresh.seq) AS last FROM fresh WHERE fresh.place = place.place) AS matched
  CROSS JOIN LATERAL (SELECT count(*) AS count, max(o.seq) AS last FROM (${readSql('o.seq', 'matched.count < share.plain')}) AS o) AS read
  ${jumps > 0 ? `CROSS JOIN LATERAL (${walkedSql(jumps)}) AS walked` : ''}
)
SELECT NULL::text AS seq, NULL::text AS state, NULL::text AS destination, NULL::bytea AS data,
  json_build_object(
    'remaining', me.remaining,
    'live', (SELECT count(*) FROM ${relays} WHERE alive_until > clock_timestamp()),
    'gone', (SELECT count(*) FROM ${relays} WHERE alive_until <= clock_timestamp()),
    'cut', (SELECT count(*) FROM found) < (SELECT count(*) FROM picked),
    ${discover ? discovered : ''}
    'progress', (SELECT json_agg(progress) FROM progress)
  )::text AS attributes,
  NULL::integer AS attempts, NULL::float8 AS created_at, NULL::smallint AS partition, NULL::text AS place${jumps > 0 ? ', NULL::text AS ordering_key, NULL::integer AS turn, NULL::text AS behind' : ''}
FROM me
UNION ALL
SELECT found.seq::text, found.state, found.destination, ${dataSql(options, give)}, found.attributes, found.attempts, ${instant('found.created_at')},
  found.partition, found.ctid::text${jumps > 0 ? ', found.ordering_key, found.turn::integer, found.behind::text' : ''}
FROM found`
  return { sql, parameters }
}

/** `known`, the positions, and `destinations`, those that are read: the ones that were asked for, all there are, or the known ones. */
function destinationsSql(outbox: string, { destinations, discover, positions }: OwnedClaimOptions, give: Give): string {
  const columns = [
    give(
      positions.map(({ destination }) => destination),
      'text[]',
    ),
    give(numberArray(positions.map(({ floor }) => floor)), 'bigint[]'),
    give(numberArray(positions.map(({ sweep: [after] }) => after)), 'bigint[]'),
    give(numberArray(positions.map(({ sweep: [, to] }) => to)), 'bigint[]'),
    give(numberArray(positions.map(({ key }) => key?.partition ?? -1)), 'smallint[]'),
    give(
      positions.map(({ key }) => key?.key ?? ''),
      'text[]',
    ),
  ]
  const known = `known AS MATERIALIZED (
  SELECT * FROM unnest(${columns.join(', ')}) AS known(destination, floor, sweep_after, sweep_to, start_partition, start_key)
)`
  if (destinations !== undefined) return `${known},\ndestinations AS (SELECT unnest(${give([...destinations], 'text[]')}) AS destination)`
  if (!discover) return `${known},\ndestinations AS (SELECT destination FROM known)`
  return `${known},
gaps AS MATERIALIZED (
  SELECT lower, coalesce(lead(lower) OVER (ORDER BY lower), repeat(chr(1114111), 257)) COLLATE "C" AS upper
  FROM (SELECT '' COLLATE "C" AS lower UNION ALL SELECT destination COLLATE "C" FROM known) AS bounds
),
${discoverSql(outbox, 'ready')},
${discoverSql(outbox, 'waiting')},
destinations AS (
  SELECT destination FROM known UNION ALL SELECT destination FROM ready_places UNION ALL SELECT destination FROM waiting_places
)`
}

/**
 * Jumps from one destination to the next, between those that are known: where much was deleted, and is there still because somebody holds
 * an old snapshot, finding the first row of a destination means to look at all of that.
 */
function discoverSql(outbox: string, state: 'ready' | 'waiting'): string {
  const next = (after: string, upper: string) => `SELECT o.destination FROM ${outbox} AS o
    WHERE o.state = '${state}' AND o.destination > ${after} AND o.destination < ${upper} ORDER BY o.destination LIMIT 1`
  return `${state}_places(destination, upper) AS (
  SELECT o.destination, gaps.upper FROM gaps CROSS JOIN LATERAL (${next('gaps.lower', 'gaps.upper')}) AS o
  UNION ALL
  SELECT o.destination, before.upper FROM ${state}_places AS before CROSS JOIN LATERAL (${next('before.destination', 'before.upper')}) AS o
)`
}

function carriedSql({ carried }: OwnedClaimOptions['note'], give: Give): string {
  if (carried.length === 0) return ''
  const columns = [
    give(
      carried.map(({ state }) => state),
      'text[]',
    ),
    give(
      carried.map(({ destination }) => destination),
      'text[]',
    ),
    give(numberArray(carried.map(({ seq }) => seq)), 'bigint[]'),
    give(numberArray(carried.map(({ attempts }) => attempts)), 'integer[]'),
  ]
  return ` UNION ALL SELECT * FROM unnest(${columns.join(', ')})`
}
