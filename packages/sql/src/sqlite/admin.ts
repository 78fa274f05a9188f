import { rootContext } from '@ackord/core'
import type { OutboxFilter, OutboxReference, OutboxState } from '@ackord/outbox'
import type { RunStatement, Statement } from '../contract/driver.ts'
import type { AdminStatements, ChosenRows, Rearm, StorePort } from '../contract/store-dialect.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import type { Row } from '../records/row.ts'
import { now } from './sql-text.ts'

export function sqliteAdministration({ driver, table }: StorePort): AdminStatements {
  const run: RunStatement = (sql, parameters = []) => driver.run(driver.pool, sql, parameters)
  return {
    async list(filter, after, limit) {
      const { sql, parameters } = listSql(table, filter, after, limit)
      return (await run(sql, parameters)).rows
    },

    async get(seq) {
      return (await run(getSql(table), [seq])).rows[0]
    },

    rearm: (which, edit, options) =>
      driver.transaction([], (session) => rearm(session.run, table, which, edit, options), rootContext().signal),

    async park(ids, reason) {
      return (await run(parkSql(table), [reason, JSON.stringify(ids)])).rows
    },

    async discard(ids) {
      const { sql, parameters } = chosenRowsSql('parked', { ids })
      return (await run(`DELETE FROM ${table} WHERE ${sql} RETURNING CAST(seq AS TEXT) AS seq, id, type`, parameters)).rows
    },

    async stats() {
      return (await run(statsSql(table))).rows
    },

    async deletePublished(olderThan, limit) {
      return (await run(deletePublishedSql(table), [olderThan, limit])).count
    },
  }
}

async function rearm(
  run: RunStatement,
  table: string,
  which: ChosenRows,
  edit: ((row: Row) => OutboxRow) | undefined,
  { state, delay, keepAttempts }: Rearm,
): Promise<number> {
  const { sql, parameters } = chosenRowsSql(state, which)
  const ready = `state = '${delay > 0 ? 'waiting' : 'ready'}', ${keepAttempts ? '' : 'attempts = 0, '}parked_at = NULL, published_at = NULL,
available_at = ${now} + ${delay}`
  if (edit === undefined) return (await run(`UPDATE ${table} SET ${ready} WHERE ${sql}`, parameters)).count
  const { rows } = await run(
    `SELECT CAST(seq AS TEXT) AS seq, destination, id, type, data, attributes FROM ${table} WHERE ${sql}`,
    parameters,
  )
  for (const row of rows) {
    const to = edit(row)
    await run(
      `UPDATE ${table} SET ${ready}, destination = ?, data = coalesce(?, zeroblob(0)), id = ?, type = ?, content_type = ?, ordering_key = ?,
partition = ?, attributes = ? WHERE seq = CAST(? AS INTEGER)`,
      [to.destination, to.data, to.id, to.type, to.contentType, to.orderingKey, to.partition, to.attributes, row['seq']],
    )
  }
  return rows.length
}

/** Leases and due times are not column values, but operators need to see them. */
const shownState = `CASE WHEN state IN ('parked', 'published') THEN state
  WHEN lease_until > ${now} THEN 'leased'
  WHEN state = 'waiting' AND available_at > ${now} THEN 'waiting' ELSE 'ready' END`

const columns = `CAST(seq AS TEXT) AS seq, state, destination, id, type, data, attributes, attempts, last_error, ${shownState} AS shown_state,
  created_at, available_at, lease_until, published_at, parked_at`

export interface FilterSql {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/** Rows that match a filter, ordered by seq. */
export function listSql(table: string, filter: OutboxFilter, after: string, limit: number): FilterSql {
  const { sql, parameters } = filterSql(filter)
  return {
    sql: `SELECT ${columns} FROM ${table} WHERE seq > CAST(? AS INTEGER) AND ${sql} ORDER BY ${table}.seq LIMIT ?`,
    parameters: [after, ...parameters, limit],
  }
}

/** One row. Seq. */
function getSql(table: string): string {
  return `SELECT ${columns} FROM ${table} WHERE seq = CAST(? AS INTEGER)`
}

/** The condition for parked or published rows, of these seqs or of a filter. */
function chosenRowsSql(chosenState: 'parked' | 'published', which: ChosenRows): FilterSql {
  const { sql, parameters } =
    'ids' in which
      ? { sql: 'seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?))', parameters: [JSON.stringify(which.ids)] }
      : filterSql(which.filter)
  return { sql: `state = '${chosenState}' AND ${sql}`, parameters }
}

/** Parks rows that are ready or waiting and not leased. Reason, seqs as JSON. */
function parkSql(table: string): string {
  return `UPDATE ${table} SET state = 'parked', parked_at = ${now}, last_error = ?, lease_token = NULL, lease_until = NULL
WHERE state IN ('ready', 'waiting') AND ${unleased} AND seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?))
RETURNING CAST(seq AS TEXT) AS seq, id, type`
}

/** Deletes the referenced rows that are not due yet. The source is read only from the attributes of rows whose id matches. */
export function cancelSql(table: string, references: readonly OutboxReference[]): Statement {
  const names = references.map(({ destination, id, source }) => [destination, id, source])
  return {
    sql: `DELETE FROM ${table} WHERE state = 'waiting' AND id IN (SELECT value ->> 1 FROM json_each(?1)) AND available_at > ${now} AND ${unleased}
AND CASE WHEN id IN (SELECT value ->> 1 FROM json_each(?1)) THEN (destination, id, attributes ->> 'source')
  IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)) ELSE false END`,
    parameters: [JSON.stringify(names)],
  }
}

const unleased = `(lease_until IS NULL OR lease_until <= ${now})`

/** Counts by destination and state, and the age of the oldest row. Reads the whole table. */
function statsSql(table: string): string {
  return `SELECT destination, ${shownState} AS shown_state, count(*) AS count, ${now} - min(created_at) AS age
FROM ${table} GROUP BY 1, 2 ORDER BY 1, 2`
}

/** Deletes published rows. Milliseconds, limit. */
export function deletePublishedSql(table: string): string {
  return `DELETE FROM ${table} WHERE seq IN (
  SELECT seq FROM ${table} WHERE state = 'published' AND published_at <= ${now} - ? ORDER BY published_at LIMIT ?)`
}

function filterSql({ state, destination, type, orderingKey, messageId }: OutboxFilter): FilterSql {
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
  if (messageId !== undefined) where('id = ?', messageId)
  return { sql: conditions.join(' AND '), parameters }
}

/** The column values that correspond to the states shown to operators. */
const storedStates: Readonly<Record<OutboxState, string>> = {
  ready: "state IN ('ready', 'waiting')",
  waiting: "state = 'waiting'",
  leased: "state IN ('ready', 'waiting')",
  parked: "state = 'parked'",
  published: "state = 'published'",
}
