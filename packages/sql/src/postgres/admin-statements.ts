import type { OutboxFilter, OutboxState } from '@ackord/outbox'
import type { ParkedRows } from '../store-dialect.ts'
import { instant } from './instant.ts'

const columns = `o.seq::text AS seq, o.state, o.destination, o.id, o.type, o.data, o.attributes, o.attempts, o.last_error,
  ${stateOf('o')} AS shown_state,
  ${instant('o.created_at')} AS created_at, ${instant('o.available_at')} AS available_at, ${instant('o.lease_until')} AS lease_until,
  ${instant('o.published_at')} AS published_at, ${instant('o.parked_at')} AS parked_at`

/**
 * Rows of a filter, by seq. Parameters: after which seq, how many, then those of the filter. Locks nothing.
 * Goes from one (state, destination) to the next in the key and takes a page of each, as nothing is ordered by seq alone.
 */
export function listSql(table: string, filter: OutboxFilter): { readonly sql: string; readonly parameters: readonly unknown[] } {
  const { sql, parameters } = filterSql(filter, 3)
  return {
    parameters,
    sql: `${placesSql(table)}
SELECT page.* FROM places CROSS JOIN LATERAL (
  SELECT ${columns} FROM ${table} AS o
  WHERE o.state = places.state AND o.destination = places.destination AND o.seq > $1::bigint AND ${sql}
  ORDER BY o.seq LIMIT $2
) AS page ORDER BY page.seq::bigint LIMIT $2`,
  }
}

/** One row. $1 seq. */
export function getSql(table: string): string {
  return `${placesSql(table)}
SELECT ${columns} FROM places JOIN ${table} AS o ON o.state = places.state AND o.destination = places.destination AND o.seq = $1::bigint`
}

/** The parked rows of these seqs, $1, or of a filter: their ctids, locked. */
export function parkedSql(table: string, which: ParkedRows): { readonly sql: string; readonly parameters: readonly unknown[] } {
  const { sql, parameters } = 'ids' in which ? { sql: 'o.seq = ANY($1::bigint[])', parameters: [which.ids] } : filterSql(which.filter, 1)
  return { parameters, sql: `SELECT o.ctid FROM ${table} AS o WHERE o.state = 'parked' AND ${sql} ORDER BY o.seq FOR UPDATE` }
}

/** Counts by destination and state, and the age of the oldest that is not done. Reads the whole table. */
export function statsSql(table: string): string {
  return `SELECT o.destination, ${stateOf('o')} AS shown_state, count(*)::float8 AS count,
  (extract(epoch FROM clock_timestamp() - min(o.created_at)) * 1000)::float8 AS age
FROM ${table} AS o GROUP BY 1, 2 ORDER BY 1, 2`
}

/** Deletes published rows. $1 milliseconds, $2 limit. Skips what another cleanup has locked. */
export function deletePublishedSql(table: string): string {
  return `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${table}
  WHERE state = 'published' AND published_at <= (SELECT clock_timestamp() - $1::float8 * interval '1 millisecond')
  ORDER BY published_at LIMIT $2 FOR UPDATE SKIP LOCKED))`
}

function placesSql(table: string): string {
  return `WITH RECURSIVE places(state, destination) AS (
  (SELECT state, destination FROM ${table} ORDER BY state, destination LIMIT 1)
  UNION ALL
  SELECT place.state, place.destination FROM places AS before CROSS JOIN LATERAL (
    SELECT o.state, o.destination FROM ${table} AS o
    WHERE (o.state, o.destination) > (before.state, before.destination) ORDER BY o.state, o.destination LIMIT 1
  ) AS place
)`
}

function filterSql(filter: OutboxFilter, from: number): { readonly sql: string; readonly parameters: readonly unknown[] } {
  const parameters: unknown[] = []
  const next = (value: unknown) => `$${from - 1 + parameters.push(value)}`
  const conditions = ['true']
  if (filter.state !== undefined) conditions.push(storedStates[filter.state], `${stateOf('o')} = ${next(filter.state)}`)
  if (filter.destination !== undefined) conditions.push(`o.destination = ${next(filter.destination)}`)
  if (filter.type !== undefined) conditions.push(`o.type = ${next(filter.type)}`)
  if (filter.orderingKey !== undefined) conditions.push(`o.ordering_key = ${next(filter.orderingKey)}`)
  return { sql: conditions.join(' AND '), parameters }
}

/** In which column values the states that operators see are found. */
const storedStates: Readonly<Record<OutboxState, string>> = {
  ready: "o.state IN ('ready', 'waiting')",
  waiting: "o.state = 'waiting'",
  leased: "o.state IN ('ready', 'waiting')",
  parked: "o.state = 'parked'",
  published: "o.state = 'published'",
}

/** A lease and the time that has come are no column values, but operators want to see them. */
function stateOf(row: string): string {
  return `CASE WHEN ${row}.state IN ('parked', 'published') THEN ${row}.state
    WHEN ${row}.lease_until > clock_timestamp() THEN 'leased'
    WHEN ${row}.state = 'waiting' AND ${row}.available_at > clock_timestamp() THEN 'waiting' ELSE 'ready' END`
}
