import type { Tables } from '../../contract/database-options.ts'
import type { OwnedClaimOptions, ReadPosition } from '../../contract/store-dialect.ts'
import type { RunAsk } from '../../ordering/owned-claim.ts'
import { partitionCount } from '../../records/partition.ts'
import type { FilterSql } from '../admin.ts'
import { bytes } from '../claims.ts'
import { indexedBy, now } from '../sql-text.ts'

/** What the index of the keys has. The same text as there, or SQLite does not use it. */
const keyed = (row: string) => `${row}.ordering_key IS NOT NULL AND ${row}.state IN ('ready', 'waiting')`

/** A relay without order may have it still, while the order of a table is changed. */
const unleased = `(o.lease_until IS NULL OR o.lease_until <= ${now})`

const due = `(o.state = 'ready' OR o.available_at <= ${now}) AND ${unleased}`

/** Behind every key of a partition: bytes are greater than all texts. */
const behindAll = "x''"

/** Behind every partition. */
const lastPartition = 32_767

/** How it is with a member that lives, and with the others; and what `discover` asks for. Member. */
export function statusSql({ outbox, relays, partitions }: Tables, { discover }: OwnedClaimOptions): string {
  const discovered = `, (SELECT count(*) FROM ${partitions} WHERE owner IS NULL OR owner NOT IN (SELECT member FROM ${relays})) AS free,
  EXISTS (SELECT 1 FROM ${outbox} AS o INDEXED BY ${indexedBy(outbox, 'keys')} WHERE ${keyed('o')}) AS any_keys`
  return `SELECT alive_until - ${now} AS remaining, (SELECT count(*) FROM ${relays} WHERE alive_until > ${now}) AS live,
  (SELECT count(*) FROM ${relays} WHERE alive_until <= ${now}) AS gone${discover ? discovered : ''}
FROM ${relays} WHERE member = ? AND alive_until > ${now}`
}

/** The part of the keys of a destination that a walk goes through: those behind a place, up to another one. `undefined`: the beginning, the end. */
export interface WalkPart {
  readonly place: ReadPosition
  readonly after: ReadPosition['key']
  readonly upTo: ReadPosition['key']
  /** How many keys have to have something to give, and are looked at, at most. */
  readonly most: number
  readonly jumps: number
}

/**
 * Jumps from head to head of the keys through the index. If one is in a partition of somebody else's, the next jump goes to where ours go on. Gives each head
 * that was looked at, in that order, and how many of them so far have something to give.
 */
export function walkSql({ outbox }: Tables, options: OwnedClaimOptions, part: WalkPart): FilterSql {
  const { destination } = part.place
  const { partitions, inHand, behindParked } = options
  const parameters: unknown[] = []
  const give = giveTo(parameters)
  const held = inHand.filter((row) => row.destination === destination && row.key !== undefined).map(({ key }) => key)
  const owned = partitions.length === partitionCount ? 'true' : 'o.partition IN (SELECT mine.partition FROM owned AS mine)'
  const nextOwned = `coalesce((SELECT min(mine.partition) FROM owned AS mine WHERE mine.partition > o.partition), ${lastPartition})`
  const parked = `(SELECT p.seq FROM ${outbox} AS p INDEXED BY ${indexedBy(outbox, 'parked_keys')}
    WHERE p.ordering_key IS NOT NULL AND p.state = 'parked' AND p.destination = o.destination AND p.partition = o.partition
      AND p.ordering_key = o.ordering_key ORDER BY p.seq LIMIT 1)`
  const gives = [owned, due, 'o.ordering_key NOT IN (SELECT held.ordering_key FROM held)']
  if (behindParked === 'kept') gives.push(`coalesce(o.seq < ${parked}, true)`)
  const sql = `WITH RECURSIVE
owned(partition) AS MATERIALIZED (SELECT value FROM json_each(${give(JSON.stringify(partitions))})),
held(ordering_key) AS MATERIALIZED (SELECT value FROM json_each(${give(JSON.stringify(held))})),
walk(jump, heads, seq, seek_partition, seek_key) AS (
  SELECT 0, 0, NULL, ${give(part.after?.partition ?? -1)}, ${part.after === undefined ? behindAll : give(part.after.key)}
  UNION ALL
  SELECT before.jump + 1, before.heads + (${gives.join(' AND ')}), o.seq,
    CASE WHEN ${owned} THEN o.partition ELSE ${nextOwned} - 1 END, CASE WHEN ${owned} THEN o.ordering_key ELSE ${behindAll} END
  FROM walk AS before CROSS JOIN ${outbox} AS o ON o.seq = (
    SELECT next.seq FROM ${outbox} AS next INDEXED BY ${indexedBy(outbox, 'keys')}
    WHERE ${keyed('next')} AND next.destination = ${give(destination)}
      AND (next.partition, next.ordering_key) > (before.seek_partition, before.seek_key)
    ORDER BY next.partition, next.ordering_key, next.seq LIMIT 1)
  WHERE before.heads < ${give(part.most)} AND before.jump < ${give(part.jumps)}
    AND (o.partition, o.ordering_key) <= (${give(part.upTo?.partition ?? lastPartition)}, ${part.upTo === undefined ? behindAll : give(part.upTo.key)})
)
SELECT CAST(o.seq AS TEXT) AS seq, o.partition, o.ordering_key, o.state, o.attempts, walk.heads,
  CAST(${behindParked === 'given' ? 'NULL' : parked} AS TEXT) AS parked
FROM walk CROSS JOIN ${outbox} AS o ON o.seq = walk.seq ORDER BY walk.jump`
  return { sql, parameters }
}

/** What comes after these rows in their keys, up to the first that may not be given yet. Gives the number of the run with each. */
export function followSql({ outbox }: Tables, { behindParked }: OwnedClaimOptions, asks: readonly RunAsk[]): FilterSql {
  const given = asks.map(({ head, after, most }) => [after, most, behindParked === 'kept' ? (head.parked ?? null) : null])
  const sql = `WITH RECURSIVE
run(number, seq, most, parked) AS (
  SELECT key, CAST(value ->> 0 AS INTEGER), value ->> 1, CAST(value ->> 2 AS INTEGER) FROM json_each(?)
  UNION ALL
  SELECT run.number, o.seq, run.most - 1, run.parked
  FROM run CROSS JOIN ${outbox} AS head ON head.seq = run.seq CROSS JOIN ${outbox} AS o ON o.seq = (
    SELECT next.seq FROM ${outbox} AS next INDEXED BY ${indexedBy(outbox, 'keys')}
    WHERE ${keyed('next')} AND next.destination = head.destination AND next.partition = head.partition AND next.ordering_key = head.ordering_key
      AND next.seq > head.seq
    ORDER BY next.seq LIMIT 1)
  WHERE run.most > 0 AND ${due} AND (run.parked IS NULL OR o.seq < run.parked)
)
SELECT run.number, CAST(o.seq AS TEXT) AS seq, o.state, o.attempts FROM run CROSS JOIN ${outbox} AS o ON o.seq = run.seq ORDER BY run.number, o.seq`
  return { sql, parameters: [JSON.stringify(given)] }
}

/** Rows without a key that come after the floor, within the window. */
export function freshSql(tables: Tables, options: OwnedClaimOptions, place: ReadPosition, most: number): FilterSql {
  const { sql, parameters } = windowSql(tables, options, place, 'o.seq, o.state, o.attempts, o.partition, o.ordering_key, o.lease_until')
  const mine = mineSql(options)
  return {
    sql: `SELECT CAST(o.seq AS TEXT) AS seq, o.state, o.attempts FROM (${sql}) AS o WHERE ${mine.sql} ORDER BY o.seq LIMIT ?`,
    parameters: [...parameters, ...mine.parameters, most],
  }
}

/** How much the window has, and the last of it. */
export function windowEndSql(tables: Tables, options: OwnedClaimOptions, place: ReadPosition): FilterSql {
  const { sql, parameters } = windowSql(tables, options, place, 'o.seq')
  return { sql: `SELECT count(*) AS count, CAST(max(o.seq) AS TEXT) AS last FROM (${sql}) AS o`, parameters }
}

/** Rows without a key in a part below the floor. */
export function sweptSql({ outbox }: Tables, options: OwnedClaimOptions, { destination, sweep }: ReadPosition, most: number): FilterSql {
  const mine = mineSql(options)
  const free = notHeldSql(options)
  return {
    sql: `SELECT CAST(o.seq AS TEXT) AS seq, o.state, o.attempts FROM ${outbox} AS o INDEXED BY ${indexedBy(outbox, 'ready')}
WHERE o.state = 'ready' AND o.destination = ? AND o.seq > CAST(? AS INTEGER) AND o.seq <= CAST(? AS INTEGER) AND ${mine.sql} AND ${free.sql}
ORDER BY o.seq LIMIT ?`,
    parameters: [destination, ...sweep, ...mine.parameters, ...free.parameters, most],
  }
}

/** Rows without a key that have waited long enough, in the order of their times. */
export function retriedSql({ outbox }: Tables, options: OwnedClaimOptions, { destination }: ReadPosition, most: number): FilterSql {
  const mine = mineSql(options)
  const free = notHeldSql(options)
  return {
    sql: `SELECT CAST(o.seq AS TEXT) AS seq, o.state, o.attempts FROM ${outbox} AS o INDEXED BY ${indexedBy(outbox, 'waiting_plain')}
WHERE o.state = 'waiting' AND o.destination = ? AND o.available_at <= ${now} AND ${mine.sql} AND ${free.sql}
ORDER BY o.available_at, o.seq LIMIT ?`,
    parameters: [destination, ...mine.parameters, ...free.parameters, most],
  }
}

/** Rows with their sizes; data and attributes are null where they are larger than the first parameter, if that is not null. Their seqs, as JSON. */
export function contentsSql({ outbox }: Tables): string {
  const small = (column: string) => `CASE WHEN ?1 IS NULL OR ${bytes} <= ?1 THEN ${column} END AS ${column}`
  return `SELECT CAST(seq AS TEXT) AS seq, state, destination, ${small('data')}, ${small('attributes')}, attempts, created_at, partition, ordering_key,
  ${bytes} AS bytes FROM ${outbox}
WHERE seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?2))`
}

function windowSql({ outbox }: Tables, options: OwnedClaimOptions, { destination, floor }: ReadPosition, columns: string): FilterSql {
  const free = notHeldSql(options)
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

function notHeldSql({ inHand }: OwnedClaimOptions): FilterSql {
  const held = inHand.filter(({ key }) => key === undefined).map(({ seq }) => seq)
  if (held.length === 0) return { sql: 'true', parameters: [] }
  return { sql: 'o.seq NOT IN (SELECT CAST(value AS INTEGER) FROM json_each(?))', parameters: [JSON.stringify(held)] }
}

/** Adds values to parameters, in the order in which they stand in the text. */
function giveTo(parameters: unknown[]): (value: unknown) => string {
  return (value) => {
    parameters.push(value)
    return '?'
  }
}
