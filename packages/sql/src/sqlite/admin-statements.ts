import type { OutboxFilter, OutboxState } from '@ackord/outbox'
import type { ParkedRows } from '../store-dialect.ts'
import { now } from './clock.ts'

/** A lease and the time that has come are no column values, but operators want to see them. */
const shownState = `CASE WHEN state IN ('parked', 'published') THEN state
  WHEN lease_until > ${now} THEN 'leased'
  WHEN state = 'waiting' AND available_at > ${now} THEN 'waiting' ELSE 'ready' END`

const columns = `CAST(seq AS TEXT) AS seq, state, destination, id, type, data, attributes, attempts, last_error, ${shownState} AS shown_state,
  created_at, available_at, lease_until, published_at, parked_at`

export interface FilterSql {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/** Rows of a filter, by seq. */
export function listSql(table: string, filter: OutboxFilter, after: string, limit: number): FilterSql {
  const { sql, parameters } = filterSql(filter)
  return {
    sql: `SELECT ${columns} FROM ${table} WHERE seq > CAST(? AS INTEGER) AND ${sql} ORDER BY ${table}.seq LIMIT ?`,
    parameters: [after, ...parameters, limit],
  }
}

/** One row. Seq. */
export function getSql(table: string): string {
  return `SELECT ${columns} FROM ${table} WHERE seq = CAST(? AS INTEGER)`
}

/** Which rows are parked and of these seqs, or of a filter. */
export function parkedRowsSql(which: ParkedRows): FilterSql {
  const { sql, parameters } =
    'ids' in which
      ? { sql: 'seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?))', parameters: [JSON.stringify(which.ids)] }
      : filterSql(which.filter)
  return { sql: `state = 'parked' AND ${sql}`, parameters }
}

/** Counts by destination and state, and the age of the oldest. Reads the whole table. */
export function statsSql(table: string): string {
  return `SELECT destination, ${shownState} AS shown_state, count(*) AS count, ${now} - min(created_at) AS age
FROM ${table} GROUP BY 1, 2 ORDER BY 1, 2`
}

/** Deletes published rows. Milliseconds, limit. */
export function deletePublishedSql(table: string): string {
  return `DELETE FROM ${table} WHERE seq IN (
  SELECT seq FROM ${table} WHERE state = 'published' AND published_at <= ${now} - ? ORDER BY published_at LIMIT ?)`
}

function filterSql({ state, destination, type, orderingKey }: OutboxFilter): FilterSql {
  const parameters: unknown[] = []
  const conditions = ['true']
  const where = (condition: string, value: unknown) => {
    conditions.push(condition)
    parameters.push(value)
  }
  if (state !== undefined) where(`${storedStates[state]} AND ${shownState} = ?`, state)
  if (destination !== undefined) where('destination = ?', destination)
  if (type !== undefined) where('type = ?', type)
  if (orderingKey !== undefined) where('ordering_key = ?', orderingKey)
  return { sql: conditions.join(' AND '), parameters }
}

/** In which column values the states that operators see are found. */
const storedStates: Readonly<Record<OutboxState, string>> = {
  ready: "state IN ('ready', 'waiting')",
  waiting: "state = 'waiting'",
  leased: "state IN ('ready', 'waiting')",
  parked: "state = 'parked'",
  published: "state = 'published'",
}
