import type { OwnedClaimOptions, ReadPosition } from '../../contract/ownership-statements.ts'
import type { Tables } from '../../contract/tables.ts'
import { partitionCount } from '../../records/outbox-row.ts'
import { ageOf, bindTo, instant, numberArray } from '../sql-text.ts'
import type { OwnedClaimStatement } from './owned-claim.ts'
import { dataSql, foundSql, notInFlightSql, now, unleased } from './owned-rows.ts'

/** The only destination to read, if the claim is that simple: no discovery, no keys, no sweep. */
export function plainPosition(options: OwnedClaimOptions): ReadPosition | undefined {
  const { discover, keys = [], destinations, except, positions, entry } = options
  if (discover || keys.length > 0 || destinations !== undefined || entry.carried.length > 0) return undefined
  const [position, ...more] = positions.filter(({ destination }) => !except.includes(destination))
  return position?.sweep[0] === position?.sweep[1] && more.length === 0 ? position : undefined
}

/**
 * Does the same as `ownedClaimSql()` for one destination and records without a key. A busy relay sends this all the time, and parsing and planning
 * the whole statement would be a good part of its cost.
 */
export function plainClaimSql({ outbox, relays, hands }: Tables, options: OwnedClaimOptions, position: ReadPosition): OwnedClaimStatement {
  const { partitions, entry } = options
  const parameters: unknown[] = []
  const bind = bindTo(parameters)
  const member = bind(options.member, 'uuid')
  const destination = bind(position.destination, 'text')
  const limit = bind(options.limit, 'integer')
  const window = bind(options.window, 'integer')
  const notInFlight = notInFlightSql(options, bind)
  const isOwned = partitions.length === partitionCount ? 'true' : `o.partition = ANY(${bind(numberArray(partitions), 'smallint[]')})`
  const mine = `o.ordering_key IS NULL AND ${isOwned} AND ${unleased}`
  const readSql = (columns: string, more = '') => `SELECT ${columns} FROM ${outbox} AS o
      WHERE o.state = 'ready' AND o.destination = ${destination} AND o.seq > ${bind(position.floor, 'bigint')} AND ${notInFlight} ${more}
      ORDER BY o.seq LIMIT (SELECT ${window})`
  // Alternates, otherwise a record larger than a whole claim would never be claimed while retries are due.
  const order = entry.number % 2 === 0 ? 'n' : 'state, n'
  const sql = `WITH me AS MATERIALIZED (
  SELECT (extract(epoch FROM r.alive_until - clock_timestamp()) * 1000)::float8 AS remaining, set_config('synchronous_commit', 'off', true)
  FROM ${relays} AS r WHERE r.member = ${member} AND r.alive_until > clock_timestamp()
),
picked AS MATERIALIZED (
  SELECT parts.*, row_number() OVER () AS n FROM (
    (SELECT 'waiting' AS state, o.ctid, o.seq, o.attempts FROM ${outbox} AS o
    WHERE o.state = 'waiting' AND o.destination = ${destination} AND o.available_at <= ${now} AND ${mine} AND ${notInFlight} AND EXISTS (SELECT FROM me)
    ORDER BY o.available_at, o.seq LIMIT ceil(${limit} / 2.0))
    UNION ALL
    (SELECT 'ready', o.ctid, o.seq, o.attempts FROM (${readSql('o.ctid, o.seq, o.attempts, o.partition, o.ordering_key, o.lease_until', 'AND EXISTS (SELECT FROM me)')}) AS o
    WHERE ${mine} ORDER BY o.seq)
  ) AS parts LIMIT ${limit}
),
found AS MATERIALIZED (${foundSql(outbox, options, bind, order)}),
noted AS (
  INSERT INTO ${hands} (member, note, state, destination, seqs, attempts)
  SELECT ${member}, ${bind(entry.number, 'bigint')}, state, ${destination}, array_agg(seq), array_agg(attempts) FROM found GROUP BY state
),
done AS (DELETE FROM ${hands} WHERE member = ${member} AND note = ANY(${bind(numberArray(entry.done), 'bigint[]')}) AND EXISTS (SELECT FROM me)),
counted AS (SELECT count(*) AS count, max(seq) FILTER (WHERE state = 'ready') AS last, count(*) FILTER (WHERE state = 'ready') AS matches FROM picked)
SELECT NULL::text AS seq, NULL::text AS state, NULL::text AS destination, NULL::bytea AS data,
  json_build_object(
    'remaining', me.remaining,
    'live', (SELECT count(*) FROM ${relays} WHERE alive_until > clock_timestamp()),
    'gone', (SELECT count(*) FROM ${relays} WHERE alive_until <= clock_timestamp()),
    'cut', (SELECT count(*) FROM found) < counted.count,
    'progress', json_build_array(json_build_object(
      'destination', ${destination}, 'matches', counted.matches,
      'read', CASE WHEN counted.count >= ${limit} THEN counted.last ELSE read.last END::text,
      'more', counted.count >= ${limit} OR read.count >= ${window}
    ))
  )::text AS attributes,
  NULL::integer AS attempts, NULL::float8 AS created_at, NULL::float8 AS age, NULL::smallint AS partition, NULL::text AS location
FROM me CROSS JOIN counted CROSS JOIN LATERAL (
  SELECT count(*) AS count, max(o.seq) AS last FROM (${readSql('o.seq', `AND counted.count < ${limit}`)}) AS o
) AS read
UNION ALL
SELECT found.seq::text, found.state, ${destination}, ${dataSql(options, bind)}, found.attributes, found.attempts, ${instant('found.created_at')},
  ${ageOf('found.created_at')}, found.partition, found.ctid::text
FROM found`
  return { sql, parameters }
}
