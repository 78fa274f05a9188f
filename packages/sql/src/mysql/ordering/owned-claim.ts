import type { InFlightRow, OwnedClaimOptions, ReadPosition } from '../../contract/ownership-statements.ts'
import type { Tables } from '../../contract/tables.ts'
import type { RunAsk } from '../../ordering/owned-claim.ts'
import { partitionCount } from '../../records/outbox-row.ts'
import { claimedColumns, keysSql, type RowKey, type SqlPart } from '../sql-text.ts'

export type PendingState = 'ready' | 'waiting'

/** Where a walk through the keys of a partition continues: after this key. `undefined`: from the beginning. */
export interface KeySeek {
  readonly partition: number
  readonly after: string | undefined
}

/** A relay without order may still have leased it while the order of a table is being changed. */
const unleased = '(o.lease_until IS NULL OR o.lease_until <= UTC_TIMESTAMP(6))'

const allPartitions = Array.from({ length: partitionCount }, (_, partition) => partition)

/** The status of a live member and of the others; `free` only if requested. */
export function statusSql({ relays, partitions }: Tables, { member, discover }: OwnedClaimOptions): SqlPart {
  const free = `, (SELECT COUNT(*) FROM ${partitions} AS p LEFT JOIN ${relays} AS r ON r.member = p.owner WHERE r.member IS NULL) AS free`
  return {
    sql: `SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), me.alive_until) / 1000 AS remaining,
  (SELECT COUNT(*) FROM ${relays} WHERE alive_until > UTC_TIMESTAMP(6)) AS live,
  (SELECT COUNT(*) FROM ${relays} WHERE alive_until <= UTC_TIMESTAMP(6)) AS gone${discover ? free : ''}
FROM ${relays} AS me WHERE me.member = ? AND me.alive_until > UTC_TIMESTAMP(6)`,
    parameters: [member],
  }
}

/** A row with a key in this state and destination, if any. Rows without a key come first in every partition, so each partition is searched. */
export function anyKeySql(table: string, state: PendingState, destination: string): SqlPart {
  return {
    sql: `SELECT 1 AS found FROM ${table} AS o FORCE INDEX (ordered)
WHERE o.state = '${state}' AND o.destination = ? AND o.\`partition\` IN (${allPartitions.join(', ')}) AND o.ordering_key >= '' LIMIT 1`,
    parameters: [destination],
  }
}

/** The first rows with a key in this state and destination, by partition, key and seq. */
export function firstKeysSql(table: string, state: PendingState, destination: string, options: OwnedClaimOptions, max: number): SqlPart {
  return {
    sql: `SELECT ${keyColumns(table, state, options)} FROM ${table} AS o FORCE INDEX (ordered)
WHERE o.state = '${state}' AND o.destination = ? AND o.\`partition\` IN (${options.partitions.join(', ')}) AND o.ordering_key >= ''
ORDER BY o.\`partition\`, o.ordering_key, o.seq LIMIT ${max}`,
    parameters: [destination],
  }
}

/** The first row of the next key of a partition: reads one index entry, however many rows the previous key has. */
export function nextKeySql(
  table: string,
  state: PendingState,
  destination: string,
  options: OwnedClaimOptions,
  { partition, after }: KeySeek,
): SqlPart {
  return {
    sql: `SELECT ${keyColumns(table, state, options)} FROM ${table} AS o FORCE INDEX (ordered)
WHERE o.state = '${state}' AND o.destination = ? AND o.\`partition\` = ${partition} AND o.ordering_key ${after === undefined ? ">= ''" : '> ?'}
ORDER BY o.ordering_key, o.seq LIMIT 1`,
    parameters: [destination, ...(after === undefined ? [] : [after])],
  }
}

/** The rows after a row of a key in one state, due or not. The number identifies the run. */
export function nextRowsSql(table: string, state: PendingState, { head, after, max }: RunAsk, number: number): SqlPart {
  return {
    sql: `SELECT ${number} AS number, CAST(o.seq AS CHAR) AS seq, o.state, o.attempts, ${dueSql(state)} AS due FROM ${table} AS o FORCE INDEX (ordered)
WHERE o.state = '${state}' AND o.destination = ? AND o.\`partition\` = ${head.partition} AND o.ordering_key = ? AND o.seq > ${after}
ORDER BY o.seq LIMIT ${max}`,
    parameters: [head.destination, head.key],
  }
}

/** Rows without a key after the floor, within the window. The number identifies the position. */
export function freshSql(table: string, options: OwnedClaimOptions, position: ReadPosition, max: number, number: number): SqlPart {
  const { sql, parameters } = windowSql(
    table,
    options,
    position,
    'o.seq, o.state, o.attempts, o.`partition`, o.ordering_key IS NULL AS plain, o.lease_until',
  )
  return {
    sql: `SELECT ${plainColumns('fresh', number)} FROM (${sql}) AS o
WHERE o.plain AND ${unleased} AND ${ownedSql(options)} ORDER BY o.seq LIMIT ${max}`,
    parameters,
  }
}

/** The number of rows in the window, and the last seq. */
export function windowEndSql(table: string, options: OwnedClaimOptions, position: ReadPosition, number: number): SqlPart {
  const { sql, parameters } = windowSql(table, options, position, 'o.seq')
  return { sql: `SELECT ${number} AS number, COUNT(*) AS \`count\`, CAST(MAX(o.seq) AS CHAR) AS last FROM (${sql}) AS o`, parameters }
}

/** Rows without a key in a range below the floor. */
export function sweptSql(
  table: string,
  options: OwnedClaimOptions,
  { destination, sweep }: ReadPosition,
  max: number,
  number: number,
): SqlPart {
  const [after, to] = sweep
  return {
    sql: `SELECT ${plainColumns('swept', number)} FROM ${table} AS o FORCE INDEX (PRIMARY)
WHERE o.state = 'ready' AND o.destination = ? AND o.seq > ${after} AND o.seq <= ${to} AND ${mineSql(options)} ORDER BY o.seq LIMIT ${max}`,
    parameters: [destination],
  }
}

/** Rows without a key whose retry is due, in the order of their times. */
export function retriedSql(table: string, options: OwnedClaimOptions, { destination }: ReadPosition, max: number, number: number): SqlPart {
  return {
    sql: `SELECT ${plainColumns('retried', number)} FROM ${table} AS o FORCE INDEX (due)
WHERE o.state = 'waiting' AND o.destination = ? AND o.available_at <= UTC_TIMESTAMP(6) AND ${mineSql(options)}
ORDER BY o.available_at, o.seq LIMIT ${max}`,
    parameters: [destination],
  }
}

/** Rows with their sizes; data and attributes are null if they are larger than `inline`. */
export function contentsSql(table: string, keys: readonly RowKey[], inline?: number | undefined): SqlPart {
  const { sql, parameters } = keysSql(keys)
  return {
    sql: `SELECT ${claimedColumns(inline)}, o.\`partition\`, o.ordering_key FROM ${table} AS o FORCE INDEX (PRIMARY) WHERE ${sql}`,
    parameters,
  }
}

/** The columns that a walk reads of the first row of a key. */
function keyColumns(table: string, state: PendingState, { behindParked }: OwnedClaimOptions): string {
  const parked =
    behindParked === 'given'
      ? 'NULL'
      : `(SELECT CAST(p.seq AS CHAR) FROM ${table} AS p FORCE INDEX (ordered) WHERE p.state = 'parked' AND p.destination = o.destination
  AND p.\`partition\` = o.\`partition\` AND p.ordering_key = o.ordering_key ORDER BY p.seq LIMIT 1)`
  return `o.\`partition\`, o.ordering_key, CAST(o.seq AS CHAR) AS seq, o.state, o.attempts, ${dueSql(state)} AS due, ${parked} AS parked`
}

function dueSql(state: PendingState): string {
  return state === 'ready' ? unleased : `(o.available_at <= UTC_TIMESTAMP(6) AND ${unleased})`
}

function plainColumns(kind: string, number: number): string {
  return `'${kind}' AS kind, ${number} AS number, CAST(o.seq AS CHAR) AS seq, o.state, o.attempts`
}

function windowSql(table: string, options: OwnedClaimOptions, { destination, floor }: ReadPosition, columns: string): SqlPart {
  return {
    sql: `SELECT ${columns} FROM ${table} AS o FORCE INDEX (PRIMARY)
  WHERE o.state = 'ready' AND o.destination = ? AND o.seq > ${floor} AND ${notInFlightSql(options.inFlight)} ORDER BY o.seq LIMIT ${options.window}`,
    parameters: [destination],
  }
}

function mineSql(options: OwnedClaimOptions): string {
  return `o.ordering_key IS NULL AND ${unleased} AND ${ownedSql(options)} AND ${notInFlightSql(options.inFlight)}`
}

function ownedSql({ partitions }: OwnedClaimOptions): string {
  return partitions.length === partitionCount ? 'TRUE' : `o.\`partition\` IN (${partitions.join(', ')})`
}

/** Seqs are numbers from the database. */
function notInFlightSql(inFlight: readonly InFlightRow[]): string {
  const seqs = inFlight.filter(({ key }) => key === undefined).map(({ seq }) => seq)
  return seqs.length === 0 ? 'TRUE' : `o.seq NOT IN (${seqs.join(', ')})`
}
