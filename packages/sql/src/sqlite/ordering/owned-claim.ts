import type { OwnedClaimOptions, ReadPosition } from '../../contract/ownership-statements.ts'
import type { Tables } from '../../contract/tables.ts'
import type { RunAsk } from '../../ordering/owned-claim.ts'
import { partitionCount } from '../../records/outbox-row.ts'
import type { FilterSql } from '../admin.ts'
import { bytes } from '../claims.ts'
import { indexedBy, now } from '../sql-text.ts'

/** The condition of the index of keys. The same text as there, otherwise SQLite does not use the index. */
const keyed = (row: string) => `${row}.ordering_key IS NOT NULL AND ${row}.state IN ('ready', 'waiting')`

/** A relay without order may still have leased it while the order of a table is being changed. */
const unleased = `(o.lease_until IS NULL OR o.lease_until <= ${now})`

const due = `(o.state = 'ready' OR o.available_at <= ${now}) AND ${unleased}`

/** Greater than every key of a partition: blobs sort after all strings. */
const behindAll = "x''"

/** Greater than every partition. */
const lastPartition = 32_767

/** The status of a live member and of the others, and what `discover` requests. Member. */
export function statusSql({ outbox, relays, partitions }: Tables, { discover }: OwnedClaimOptions): string {
  const discovered = `, (SELECT count(*) FROM ${partitions} WHERE owner IS NULL OR owner NOT IN (SELECT member FROM ${relays})) AS free,
  EXISTS (SELECT 1 FROM ${outbox} AS o INDEXED BY ${indexedBy(outbox, 'keys')} WHERE ${keyed('o')}) AS any_keys`
  return `SELECT alive_until - ${now} AS remaining, (SELECT count(*) FROM ${relays} WHERE alive_until > ${now}) AS live,
  (SELECT count(*) FROM ${relays} WHERE alive_until <= ${now}) AS gone${discover ? discovered : ''}
FROM ${relays} WHERE member = ? AND alive_until > ${now}`
}

/** The range of keys of a destination that a walk visits: those after one location, up to another. `undefined`: the beginning, the end. */
export interface WalkPart {
  readonly position: ReadPosition
  readonly after: ReadPosition['key']
  readonly upTo: ReadPosition['key']
  /** The maximum number of keys with records to claim, and of visited keys. */
  readonly max: number
  readonly jumps: number
}

/**
 * Steps from head to head of the keys in the index. If a head is in a partition of another member, the next jump goes to the next owned partition.
 * Returns each visited head, in order, and how many of them so far have records to claim.
 */
export function walkSql({ outbox }: Tables, options: OwnedClaimOptions, part: WalkPart): FilterSql {
  const { destination } = part.position
  const { partitions, inFlight, behindParked } = options
  const parameters: unknown[] = []
  const bind = bindTo(parameters)
  const heldKeys = inFlight.filter((row) => row.destination === destination && row.key !== undefined).map(({ key }) => key)
  const owned = partitions.length === partitionCount ? 'true' : 'o.partition IN (SELECT mine.partition FROM owned AS mine)'
  const nextOwned = `coalesce((SELECT min(mine.partition) FROM owned AS mine WHERE mine.partition > o.partition), ${lastPartition})`
  const parked = `(SELECT p.seq FROM ${outbox} AS p INDEXED BY ${indexedBy(outbox, 'parked_keys')}
    WHERE p.ordering_key IS NOT NULL AND p.state = 'parked' AND p.destination = o.destination AND p.partition = o.partition
      AND p.ordering_key = o.ordering_key ORDER BY p.seq LIMIT 1)`
  const gives = [owned, due, 'o.ordering_key NOT IN (SELECT held.ordering_key FROM held)']
  if (behindParked === 'kept') gives.push(`coalesce(o.seq < ${parked}, true)`)
  const sql = `WITH RECURSIVE
owned(partition) AS MATERIALIZED (SELECT value FROM json_each(${bind(JSON.stringify(partitions))})),
held(ordering_key) AS MATERIALIZED (SELECT value FROM json_each(${bind(JSON.stringify(heldKeys))})),
walk(jump, heads, seq, seek_partition, seek_key) AS (
  SELECT 0, 0, NULL, ${bind(part.after?.partition ?? -1)}, ${part.after === undefined ? behindAll : bind(part.after.key)}
  UNION ALL
  SELECT before.jump + 1, before.heads + (${gives.join(' AND ')}), o.seq,
    CASE WHEN ${owned} THEN o.partition ELSE ${nextOwned} - 1 END, CASE WHEN ${owned} THEN o.ordering_key ELSE ${behindAll} END
  FROM walk AS before CROSS JOIN ${outbox} AS o ON o.seq = (
    SELECT next.seq FROM ${outbox} AS next INDEXED BY ${indexedBy(outbox, 'keys')}
    WHERE ${keyed('next')} AND next.destination = ${bind(destination)}
      AND (next.partition, next.ordering_key) > (before.seek_partition, before.seek_key)
    ORDER BY next.partition, next.ordering_key, next.seq LIMIT 1)
  WHERE before.heads < ${bind(part.max)} AND before.jump < ${bind(part.jumps)}
    AND (o.partition, o.ordering_key) <= (${bind(part.upTo?.partition ?? lastPartition)}, ${part.upTo === undefined ? behindAll : bind(part.upTo.key)})
)
SELECT CAST(o.seq AS TEXT) AS seq, o.partition, o.ordering_key, o.state, o.attempts, walk.heads,
  CAST(${behindParked === 'given' ? 'NULL' : parked} AS TEXT) AS parked
FROM walk CROSS JOIN ${outbox} AS o ON o.seq = walk.seq ORDER BY walk.jump`
  return { sql, parameters }
}

/** The rows after these in their keys, up to the first that may not be claimed yet. Returns the number of the run with each. */
export function followSql({ outbox }: Tables, { behindParked }: OwnedClaimOptions, asks: readonly RunAsk[]): FilterSql {
  const given = asks.map(({ head, after, max }) => [after, max, behindParked === 'kept' ? (head.parked ?? null) : null])
  const sql = `WITH RECURSIVE
run(number, seq, max, parked) AS (
  SELECT key, CAST(value ->> 0 AS INTEGER), value ->> 1, CAST(value ->> 2 AS INTEGER) FROM json_each(?)
  UNION ALL
  SELECT run.number, o.seq, run.max - 1, run.parked
  FROM run CROSS JOIN ${outbox} AS head ON head.seq = run.seq CROSS JOIN ${outbox} AS o ON o.seq = (
    SELECT next.seq FROM ${outbox} AS next INDEXED BY ${indexedBy(outbox, 'keys')}
    WHERE ${keyed('next')} AND next.destination = head.destination AND next.partition = head.partition AND next.ordering_key = head.ordering_key
      AND next.seq > head.seq
    ORDER BY next.seq LIMIT 1)
  WHERE run.max > 0 AND ${due} AND (run.parked IS NULL OR o.seq < run.parked)
)
SELECT run.number, CAST(o.seq AS TEXT) AS seq, o.state, o.attempts FROM run CROSS JOIN ${outbox} AS o ON o.seq = run.seq ORDER BY run.number, o.seq`
  return { sql, parameters: [JSON.stringify(given)] }
}

/** Rows without a key after the floor, within the window. */
export function freshSql(tables: Tables, options: OwnedClaimOptions, position: ReadPosition, max: number): FilterSql {
  const { sql, parameters } = windowSql(tables, options, position, 'o.seq, o.state, o.attempts, o.partition, o.ordering_key, o.lease_until')
  const mine = mineSql(options)
  return {
    sql: `SELECT CAST(o.seq AS TEXT) AS seq, o.state, o.attempts FROM (${sql}) AS o WHERE ${mine.sql} ORDER BY o.seq LIMIT ?`,
    parameters: [...parameters, ...mine.parameters, max],
  }
}

/** The number of rows in the window, and the last seq. */
export function windowEndSql(tables: Tables, options: OwnedClaimOptions, position: ReadPosition): FilterSql {
  const { sql, parameters } = windowSql(tables, options, position, 'o.seq')
  return { sql: `SELECT count(*) AS count, CAST(max(o.seq) AS TEXT) AS last FROM (${sql}) AS o`, parameters }
}

/** Rows without a key in a range below the floor. */
export function sweptSql({ outbox }: Tables, options: OwnedClaimOptions, { destination, sweep }: ReadPosition, max: number): FilterSql {
  const mine = mineSql(options)
  const free = notInFlightSql(options)
  return {
    sql: `SELECT CAST(o.seq AS TEXT) AS seq, o.state, o.attempts FROM ${outbox} AS o INDEXED BY ${indexedBy(outbox, 'ready')}
WHERE o.state = 'ready' AND o.destination = ? AND o.seq > CAST(? AS INTEGER) AND o.seq <= CAST(? AS INTEGER) AND ${mine.sql} AND ${free.sql}
ORDER BY o.seq LIMIT ?`,
    parameters: [destination, ...sweep, ...mine.parameters, ...free.parameters, max],
  }
}

/** Rows without a key whose retry is due, in the order of their times. */
export function retriedSql({ outbox }: Tables, options: OwnedClaimOptions, { destination }: ReadPosition, max: number): FilterSql {
  const mine = mineSql(options)
  const free = notInFlightSql(options)
  return {
    sql: `SELECT CAST(o.seq AS TEXT) AS seq, o.state, o.attempts FROM ${outbox} AS o INDEXED BY ${indexedBy(outbox, 'waiting_plain')}
WHERE o.state = 'waiting' AND o.destination = ? AND o.available_at <= ${now} AND ${mine.sql} AND ${free.sql}
ORDER BY o.available_at, o.seq LIMIT ?`,
    parameters: [destination, ...mine.parameters, ...free.parameters, max],
  }
}

/** Rows with their sizes; data and attributes are null if they are larger than the first parameter, unless that is null. Seqs as JSON. */
export function contentsSql({ outbox }: Tables): string {
  const small = (column: string) => `CASE WHEN ?1 IS NULL OR ${bytes} <= ?1 THEN ${column} END AS ${column}`
  return `SELECT CAST(seq AS TEXT) AS seq, state, destination, ${small('data')}, ${small('attributes')}, attempts, created_at, ${now} - created_at AS age, partition, ordering_key,
  ${bytes} AS bytes FROM ${outbox}
WHERE seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?2))`
}

function windowSql({ outbox }: Tables, options: OwnedClaimOptions, { destination, floor }: ReadPosition, columns: string): FilterSql {
  const free = notInFlightSql(options)
  return {
    sql: `SELECT ${columns} FROM ${outbox} AS o INDEXED BY ${indexedBy(outbox, 'ready')}
  WHERE o.state = 'ready' AND o.destination = ? AND o.seq > CAST(? AS INTEGER) AND ${free.sql} ORDER BY o.seq LIMIT ?`,
    parameters: [destination, floor, ...free.parameters, options.window],
  }
}

function mineSql({ partitions }: OwnedClaimOptions): FilterSql {
  if (partitions.length === partitionCount) return { sql: `o.ordering_key IS NULL AND ${unleased}`, parameters: [] }
  return {
    sql: `o.ordering_key IS NULL AND ${unleased} AND o.partition IN (SELECT value FROM json_each(?))`,
    parameters: [JSON.stringify(partitions)],
  }
}

function notInFlightSql({ inFlight }: OwnedClaimOptions): FilterSql {
  const held = inFlight.filter(({ key }) => key === undefined).map(({ seq }) => seq)
  if (held.length === 0) return { sql: 'true', parameters: [] }
  return { sql: 'o.seq NOT IN (SELECT CAST(value AS INTEGER) FROM json_each(?))', parameters: [JSON.stringify(held)] }
}

/** Adds values to parameters, in the order of their placeholders in the text. */
function bindTo(parameters: unknown[]): (value: unknown) => string {
  return (value) => {
    parameters.push(value)
    return '?'
  }
}
