import type { OutboxFilter, OutboxState } from '@ackord/outbox'
import type { OutboxRow } from '../outbox-row.ts'
import type { ParkedRows } from '../store-dialect.ts'
import { claimedColumns, fromNow, instant } from './outbox-rows.ts'
import type { Place } from './places.ts'
import { keysSql, type RowKey } from './row-keys.ts'
import type { SqlPart } from './sql-part.ts'

const columns = `${claimedColumns}, CAST(o.last_error AS BINARY) AS last_error, ${stateOf('o')} AS shown_state,
  ${instant('o.available_at')} AS available_at, ${instant('o.lease_until')} AS lease_until,
  ${instant('o.published_at')} AS published_at, ${instant('o.parked_at')} AS parked_at`

/** The keys of a filter in a place, by seq, those after this one. Locks nothing. */
export function pageSql(table: string, { state, destination }: Place, filter: OutboxFilter, after: string, limit: number): SqlPart {
  const { sql, parameters } = filterSql(filter)
  return {
    sql: `SELECT CAST(o.seq AS CHAR) AS seq, o.state, o.destination FROM ${table} AS o FORCE INDEX (PRIMARY)
WHERE o.state = ? AND o.destination = ? AND o.seq > ${after} AND ${sql} ORDER BY o.seq LIMIT ${limit}`,
    parameters: [state, destination, ...parameters],
  }
}

/** Rows by their keys, by seq. */
export function rowsSql(table: string, keys: readonly RowKey[]): SqlPart {
  const { sql, parameters } = keysSql(keys)
  return { sql: `SELECT ${columns} FROM ${table} AS o FORCE INDEX (PRIMARY) WHERE ${sql} ORDER BY o.seq`, parameters }
}

/** One row. */
export function getSql(table: string, seq: string): string {
  return `SELECT ${columns} FROM ${table} AS o FORCE INDEX (seq) WHERE o.seq = ${seq}`
}

/** The parked rows of these seqs, or of a filter, locked. */
export function parkedSql(table: string, which: ParkedRows): SqlPart {
  const { sql, parameters } = whichSql(which)
  return { sql: `SELECT ${claimedColumns} FROM ${table} AS o WHERE o.state = 'parked' AND ${sql} ORDER BY o.seq FOR UPDATE`, parameters }
}

/** Makes parked rows ready, as they are. */
export function rearmSql(table: string, which: ParkedRows): SqlPart {
  const { sql, parameters } = whichSql(which)
  return { sql: `UPDATE ${table} AS o SET ${ready()} WHERE o.state = 'parked' AND ${sql}`, parameters }
}

/** Makes a parked row ready, with what it is changed to. */
export function rearmAsSql(table: string, key: RowKey, to: OutboxRow): SqlPart {
  const { sql, parameters } = keysSql([key])
  return {
    sql: `UPDATE ${table} AS o FORCE INDEX (PRIMARY) SET ${ready()}, o.destination = ?, o.data = ?, o.id = ?, o.type = ?, o.content_type = ?,
  o.ordering_key = ?, o.\`partition\` = ?, o.attributes = ? WHERE ${sql}`,
    parameters: [to.destination, to.data, to.id, to.type, to.contentType, to.orderingKey, to.partition, to.attributes, ...parameters],
  }
}

/** Counts by destination and state, and the age of the oldest that is not done. Reads the whole table. */
export function statsSql(table: string): string {
  return `SELECT o.destination, ${stateOf('o')} AS shown_state, COUNT(*) AS \`count\`,
  TIMESTAMPDIFF(MICROSECOND, MIN(o.created_at), UTC_TIMESTAMP(6)) / 1000 AS age
FROM ${table} AS o GROUP BY o.destination, shown_state ORDER BY o.destination, shown_state`
}

/** The keys of published rows that are older than so many milliseconds. Locks them, skips what another cleanup has locked. */
export function oldSql(table: string, olderThan: number, limit: number): string {
  return `SELECT CAST(o.seq AS CHAR) AS seq, o.state, o.destination FROM ${table} AS o FORCE INDEX (published)
WHERE o.published_at <= ${fromNow(-olderThan)} AND o.state = 'published' ORDER BY o.published_at LIMIT ${limit} FOR UPDATE SKIP LOCKED`
}

/** In which column values the states that operators see are found. */
export const storedStates: Readonly<Record<OutboxState, readonly string[]>> = {
  ready: ['ready', 'waiting'],
  waiting: ['waiting'],
  leased: ['ready', 'waiting'],
  parked: ['parked'],
  published: ['published'],
}

function whichSql(which: ParkedRows): SqlPart {
  if ('filter' in which) return filterSql(which.filter)
  return { sql: which.ids.length === 0 ? 'FALSE' : `o.seq IN (${which.ids.join(', ')})`, parameters: [] }
}

function filterSql(filter: OutboxFilter): SqlPart {
  const parameters: unknown[] = []
  const conditions = ['TRUE']
  const equals = (column: string, value: string | undefined) => {
    if (value === undefined) return
    conditions.push(`${column} = ?`)
    parameters.push(value)
  }
  equals(`(${stateOf('o')})`, filter.state)
  equals('o.destination', filter.destination)
  equals('o.type', filter.type)
  equals('o.ordering_key', filter.orderingKey)
  return { sql: conditions.join(' AND '), parameters }
}

function ready(): string {
  return "o.state = 'ready', o.attempts = 0, o.parked_at = NULL, o.available_at = UTC_TIMESTAMP(6)"
}

/** A lease and the time that has come are no column values, but operators want to see them. */
function stateOf(row: string): string {
  return `CASE WHEN ${row}.state IN ('parked', 'published') THEN ${row}.state
    WHEN ${row}.lease_until > UTC_TIMESTAMP(6) THEN 'leased'
    WHEN ${row}.state = 'waiting' AND ${row}.available_at > UTC_TIMESTAMP(6) THEN 'waiting' ELSE 'ready' END`
}
