import type { Tables } from '../../contract/database-options.ts'
import type { InHand, OwnedClaimOptions, ReadPosition } from '../../contract/store-dialect.ts'
import type { RunAsk } from '../../ordering/owned-claim.ts'
import { partitionCount } from '../../records/partition.ts'
import { claimedColumnsUpTo, keysSql, type RowKey, type SqlPart } from '../sql-text.ts'

export type PendingState = 'ready' | 'waiting'

/** Where a walk through the keys of a partition goes on: behind this key. `undefined`: from the beginning. */
export interface KeySeek {
  readonly partition: number
  readonly after: string | undefined
}

/** A relay without order may have it still, while the order of a table is changed. */
const unleased = '(o.lease_until IS NULL OR o.lease_until <= UTC_TIMESTAMP(6))'

const allPartitions = Array.from({ length: partitionCount }, (_, partition) => partition)

/** How it is with a member that lives, and with the others; `free` if it is to be looked for. */
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

/** A row with a key in a place, if there is one. What has none comes before them in every partition, so each is looked into. */
export function anyKeySql(table: string, state: PendingState, destination: string): SqlPart {
  return {
    sql: `SELECT 1 AS found FROM ${table} AS o FORCE INDEX (ordered)
WHERE o.state = '${state}' AND o.destination = ? AND o.\`partition\` IN (${allPartitions.join(', ')}) AND o.ordering_key >= '' LIMIT 1`,
    parameters: [destination],
  }
}

/** The first rows with a key in a place, by partition, key and seq. */
export function firstKeysSql(table: string, state: PendingState, destination: string, options: OwnedClaimOptions, most: number): SqlPart {
  return {
    sql: `SELECT ${keyColumns(table, state, options)} FROM ${table} AS o FORCE INDEX (ordered)
WHERE o.state = '${state}' AND o.destination = ? AND o.\`partition\` IN (${options.partitions.join(', ')}) AND o.ordering_key >= ''
ORDER BY o.\`partition\`, o.ordering_key, o.seq LIMIT ${most}`,
    parameters: [destination],
  }
}

/** The first row of the next key of a partition: one entry is read, however long the key before is. */
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

/** What comes after a row of a key in one state, whether or not its time has come. The number tells the run. */
export function nextRowsSql(table: string, state: PendingState, { head, after, most }: RunAsk, number: number): SqlPart {
  return {
    sql: `SELECT ${number} AS number, CAST(o.seq AS CHAR) AS seq, o.state, o.attempts, ${dueSql(state)} AS due FROM ${table} AS o FORCE INDEX (ordered)
WHERE o.state = '${state}' AND o.destination = ? AND o.\`partition\` = ${head.partition} AND o.ordering_key = ? AND o.seq > ${after}
ORDER BY o.seq LIMIT ${most}`,
    parameters: [head.destination, head.key],
  }
}

/** Rows without a key that come after the floor, within the window. The number tells the place. */
export function freshSql(table: string, options: OwnedClaimOptions, place: ReadPosition, most: number, number: number): SqlPart {
  const { sql, parameters } = windowSql(
    table,
    options,
    place,
    'o.seq, o.state, o.attempts, o.`partition`, o.ordering_key IS NULL AS plain, o.lease_until',
  )
  return {
    sql: `SELECT ${plainColumns('fresh', number)} FROM (${sql}) AS o
WHERE o.plain AND ${unleased} AND ${ownedSql(options)} ORDER BY o.seq LIMIT ${most}`,
    parameters,
  }
}

/** How much the window has, and the last of it. */
export function windowEndSql(table: string, options: OwnedClaimOptions, place: ReadPosition, number: number): SqlPart {
  const { sql, parameters } = windowSql(table, options, place, 'o.seq')
  return { sql: `SELECT ${number} AS number, COUNT(*) AS \`count\`, CAST(MAX(o.seq) AS CHAR) AS last FROM (${sql}) AS o`, parameters }
}

/** Rows without a key in a part below the floor. */
export function sweptSql(
  table: string,
  options: OwnedClaimOptions,
  { destination, sweep }: ReadPosition,
  most: number,
  number: number,
): SqlPart {
  const [after, to] = sweep
  return {
    sql: `SELECT ${plainColumns('swept', number)} FROM ${table} AS o FORCE INDEX (PRIMARY)
WHERE o.state = 'ready' AND o.destination = ? AND o.seq > ${after} AND o.seq <= ${to} AND ${mineSql(options)} ORDER BY o.seq LIMIT ${most}`,
    parameters: [destination],
  }
}

/** Rows without a key that have waited long enough, in the order of their times. */
export function retriedSql(
  table: string,
  options: OwnedClaimOptions,
  { destination }: ReadPosition,
  most: number,
  number: number,
): SqlPart {
  return {
    sql: `SELECT ${plainColumns('retried', number)} FROM ${table} AS o FORCE INDEX (due)
WHERE o.state = 'waiting' AND o.destination = ? AND o.available_at <= UTC_TIMESTAMP(6) AND ${mineSql(options)}
ORDER BY o.available_at, o.seq LIMIT ${most}`,
    parameters: [destination],
  }
}

/** Rows with their sizes; data and attributes are null where they are larger than `inline`. */
export function contentsSql(table: string, keys: readonly RowKey[], inline?: number | undefined): SqlPart {
  const { sql, parameters } = keysSql(keys)
  return {
    sql: `SELECT ${claimedColumnsUpTo(inline)}, o.\`partition\`, o.ordering_key FROM ${table} AS o FORCE INDEX (PRIMARY) WHERE ${sql}`,
    parameters,
  }
}

/** What a walk reads of the first row of a key. */
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
  WHERE o.state = 'ready' AND o.destination = ? AND o.seq > ${floor} AND ${notHeldSql(options.inHand)} ORDER BY o.seq LIMIT ${options.window}`,
    parameters: [destination],
  }
}

function mineSql(options: OwnedClaimOptions): string {
  return `o.ordering_key IS NULL AND ${unleased} AND ${ownedSql(options)} AND ${notHeldSql(options.inHand)}`
}

function ownedSql({ partitions }: OwnedClaimOptions): string {
  return partitions.length === partitionCount ? 'TRUE' : `o.\`partition\` IN (${partitions.join(', ')})`
}

/** Seqs are the database's own numbers. */
function notHeldSql(inHand: readonly InHand[]): string {
  const held = inHand.filter(({ key }) => key === undefined).map(({ seq }) => seq)
  return held.length === 0 ? 'TRUE' : `o.seq NOT IN (${held.join(', ')})`
}
