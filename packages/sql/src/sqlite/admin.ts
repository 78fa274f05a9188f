import { rootContext } from '@ackord/core'
import type { OutboxFilter, OutboxReference, OutboxState } from '@ackord/outbox'
import type { RunStatement, Statement } from '../contract/driver.ts'
import type { AdminStatements, ChosenRows, GroupedBy, ListedPage, ListedRows, Rearm, StorePort } from '../contract/store-dialect.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import type { Row } from '../records/row.ts'
import { destinationsSql } from './claims.ts'
import { failureParameters, failureSql } from './settle.ts'
import { indexedBy, now } from './sql-text.ts'

export function sqliteAdministration({ driver, table, keepsFailures }: StorePort): AdminStatements {
  const run: RunStatement = (sql, parameters = []) => driver.run(driver.pool, sql, parameters)
  return {
    async list(filter, page) {
      const searched = page.indexed && hasIndex(filter) ? undefined : await searchEnd(run, table, filter, page)
      const { sql, parameters } = listSql(table, filter, await keepsFailures(), { ...page, upTo: searched?.seq })
      return { rows: (await run(sql, parameters)).rows, searched }
    },

    async get(seq) {
      return (await run(getSql(table, columnsOf(await keepsFailures())), [seq])).rows[0]
    },

    async history(seq) {
      return (await keepsFailures()) ? (await run(getSql(table, 'history'), [seq])).rows[0] : undefined
    },

    async rearm(which, edit, options) {
      const chosen = chosenRowsSql(options.state, which, await keepsFailures())
      return await driver.transaction([], (session) => rearm(session.run, table, chosen, edit, options), rootContext().signal)
    },

    async park(ids, reason, cause) {
      const failures = await keepsFailures()
      return (await run(parkSql(table, failures), [...failureParameters(reason, cause, failures), JSON.stringify(ids)])).rows
    },

    async discard(ids) {
      const { sql, parameters } = chosenRowsSql('parked', { ids }, false)
      return (await run(`DELETE FROM ${table} WHERE ${sql} RETURNING CAST(seq AS TEXT) AS seq, id, type`, parameters)).rows
    },

    async cancelWaiting(ids) {
      return (await run(cancelWaitingSql(table), [JSON.stringify(ids)])).rows
    },

    async stats(limit) {
      return { rows: limit === undefined ? (await run(statsSql(table))).rows : await limitedStats(run, table, limit), requests: 1 }
    },

    async groups(by, filter, limit) {
      const failures = await keepsFailures()
      if (by === 'failure' && !failures) return []
      const { sql, parameters } = groupsSql(table, by, filter, { failures, limit })
      return (await run(sql, parameters)).rows
    },

    async deletePublished(olderThan, limit) {
      return (await run(deletePublishedSql(table), [olderThan, limit])).count
    },
  }
}

/** Of the rows that other databases have in an index by state and destination: here only parked rows have one. */
function hasIndex({ state, destination, messageId }: OutboxFilter): boolean {
  return messageId !== undefined || state === 'parked' || (state === undefined && destination === undefined)
}

/** Where a search has to end so that it reads at most `maxRead` rows; `undefined` if it may read all rows of the state, which an index has. */
async function searchEnd(
  run: RunStatement,
  table: string,
  { state }: OutboxFilter,
  { after, maxRead }: Pick<ListedPage, 'after' | 'maxRead'>,
): Promise<ListedRows['searched']> {
  if (state === 'waiting' || state === 'published') {
    const [counted] = (await run(countSql(table, state), [maxRead])).rows
    if (Number(counted?.['count']) < maxRead) return undefined
  }
  const [end] = (await run(endSql(table, state), [after, maxRead - 1])).rows
  return end === undefined ? undefined : { seq: String(end['seq']), at: Number(end['created_at']) }
}

async function limitedStats(run: RunStatement, table: string, limit: number): Promise<readonly Row[]> {
  const parts = [...(['ready', 'waiting', 'parked'] as const).map((state) => limitedStatsSql(table, state)), limitedPublishedSql(table)]
  const { rows } = await run(parts.join('\nUNION ALL\n'), [limit])
  // The published rows that were not read may be of any destination.
  const isReached = rows.some(({ shown_state: state, reached }) => state === 'published' && Number(reached) === 1)
  return isReached ? rows.map((row) => ({ ...row, reached: 1 })) : rows
}

async function rearm(
  run: RunStatement,
  table: string,
  { sql, parameters }: FilterSql,
  edit: ((row: Row) => OutboxRow) | undefined,
  { delay, keepAttempts }: Rearm,
): Promise<number> {
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

function columnsOf(failures: boolean, payloads = true): string {
  const data = payloads ? 'data' : `x'' AS data`
  return `CAST(seq AS TEXT) AS seq, state, destination, id, type, ${data}, attributes, attempts, last_error, ${failures ? 'cause, ' : ''}${shownState} AS shown_state,
  created_at, available_at, lease_until, published_at, parked_at`
}

export interface FilterSql {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/** Rows that match a filter, ordered by seq: with `upTo` by the index that `endSql()` counts in, because another one may lead to more rows. */
export function listSql(
  table: string,
  filter: OutboxFilter,
  failures: boolean,
  { after, upTo, limit, payloads }: Pick<ListedPage, 'after' | 'limit' | 'payloads'> & { readonly upTo?: string | undefined },
): FilterSql {
  const { sql, parameters } = filterSql(filter, failures)
  const [source, end] =
    upTo === undefined ? [table, ''] : [`${table} ${orderedBySeq(table, filter.state)}`, ' AND seq <= CAST(? AS INTEGER)']
  return {
    sql: `SELECT ${columnsOf(failures, payloads)} FROM ${source} WHERE seq > CAST(? AS INTEGER)${end} AND ${sql} ORDER BY ${table}.seq LIMIT ?`,
    parameters: [after, ...(upTo === undefined ? [] : [upTo]), ...parameters, limit],
  }
}

/** The index that is ordered by seq: that of parked rows, or the table itself. */
function orderedBySeq(table: string, state: OutboxState | undefined): string {
  return state === 'parked' ? `INDEXED BY ${indexedBy(table, 'parked')}` : 'NOT INDEXED'
}

/** The row that is behind so many others, of the parked rows or of all. Seq, number of rows. */
function endSql(table: string, state: OutboxState | undefined): string {
  return `SELECT CAST(seq AS TEXT) AS seq, created_at FROM ${table} ${orderedBySeq(table, state)}
WHERE seq > CAST(? AS INTEGER)${state === 'parked' ? ` AND state = 'parked'` : ''} ORDER BY ${table}.seq LIMIT 1 OFFSET ?`
}

/** Counts the rows in a state, in its index. Limit. */
function countSql(table: string, state: 'waiting' | 'published'): string {
  return `SELECT count(*) AS count FROM (SELECT 1 FROM ${table} INDEXED BY ${indexedBy(table, state)} WHERE state = '${state}' LIMIT ?)`
}

/** One row. Seq. */
function getSql(table: string, columns: string): string {
  return `SELECT ${columns} FROM ${table} WHERE seq = CAST(? AS INTEGER)`
}

/** The condition for parked or published rows, of these seqs or of a filter. */
function chosenRowsSql(chosenState: 'parked' | 'published', which: ChosenRows, failures: boolean): FilterSql {
  const { sql, parameters } =
    'ids' in which
      ? { sql: 'seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?))', parameters: [JSON.stringify(which.ids)] }
      : filterSql(which.filter, failures)
  return { sql: `state = '${chosenState}' AND ${sql}`, parameters }
}

/** Parks rows that are ready or waiting and not leased. Parameters of the failure, seqs as JSON. */
function parkSql(table: string, failures: boolean): string {
  return `UPDATE ${table} SET state = 'parked', parked_at = ${now}, ${failureSql(failures)}, lease_token = NULL, lease_until = NULL
WHERE state IN ('ready', 'waiting') AND ${unleased} AND seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?))
RETURNING CAST(seq AS TEXT) AS seq, id, type`
}

/** Deletes rows that are not due yet and not leased. Seqs as JSON. */
function cancelWaitingSql(table: string): string {
  return `DELETE FROM ${table}
WHERE state = 'waiting' AND available_at > ${now} AND ${unleased} AND seq IN (SELECT CAST(value AS INTEGER) FROM json_each(?))
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

/** The same for one state, reading at most this many rows of each destination. Limit. SQLite has no lateral joins, except with the rows that it makes of JSON. */
export function limitedStatsSql(table: string, state: 'ready' | 'waiting' | 'parked'): string {
  return `SELECT found.destination, one.value ->> 0 AS shown_state, one.value ->> 1 AS count, one.value ->> 2 AS age, one.value ->> 3 AS reached
FROM (${destinationsSql(table, state)}) AS found, json_each((
  SELECT json_group_array(json_array(counted.shown_state, counted.count, counted.age, counted.reached)) FROM (
    SELECT shown_state, count(*) AS count, ${now} - min(created_at) AS age, sum(count(*)) OVER () >= ?1 AS reached FROM (
      SELECT ${shownState} AS shown_state, created_at FROM ${table} WHERE state = '${state}' AND destination = found.destination LIMIT ?1
    ) GROUP BY shown_state
  ) AS counted
)) AS one`
}

/** The same for published rows, which have no index by destination: reads at most this many in all. */
function limitedPublishedSql(table: string): string {
  return `SELECT destination, 'published' AS shown_state, count(*) AS count, NULL AS age, sum(count(*)) OVER () >= ?1 AS reached
FROM (SELECT destination FROM ${table} INDEXED BY ${indexedBy(table, 'published')} WHERE state = 'published' LIMIT ?1) GROUP BY destination`
}

const groupColumns = { failure: 'cause', type: 'type', destination: 'destination' } as const

/**
 * Counts parked and waiting rows by what they have in common, reading at most `limit` rows of each state. The filter is applied to the rows that were
 * read.
 */
export function groupsSql(
  table: string,
  by: GroupedBy,
  { state, ...filter }: OutboxFilter,
  { failures, limit }: { readonly failures: boolean; readonly limit: number },
): FilterSql {
  const { sql, parameters } = filterSql(filter, failures)
  const { destination } = filter
  const states = state === undefined ? ['parked', 'waiting'] : [state]
  const rowsSql = (one: string) => `SELECT * FROM (
    SELECT state, destination, id, type, ordering_key, last_error, created_at, parked_at${failures ? ', cause' : ''} FROM ${table}
    ${destination === undefined ? `INDEXED BY ${indexedBy(table, one)} WHERE` : 'WHERE destination = ? AND'} state = '${one}' LIMIT ${limit})`
  return {
    sql: `SELECT state, CASE WHEN ${sql} THEN ${groupColumns[by]} END AS name, count(*) AS count, min(created_at) AS first, max(created_at) AS last
FROM (${states.map(rowsSql).join('\n  UNION ALL ')}) GROUP BY 1, 2`,
    parameters: destination === undefined ? parameters : [...parameters, ...states.map(() => destination)],
  }
}

/** Deletes published rows. Milliseconds, limit. */
export function deletePublishedSql(table: string): string {
  return `DELETE FROM ${table} WHERE seq IN (
  SELECT seq FROM ${table} WHERE state = 'published' AND published_at <= ${now} - ? ORDER BY published_at LIMIT ?)`
}

function filterSql(filter: OutboxFilter, failures: boolean): FilterSql {
  const { state, destination, type, orderingKey, messageId, cause, error, minAge, maxAge, minParkedAge } = filter
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
  if (cause !== undefined && failures) where('cause = ?', cause)
  else if (cause !== undefined) conditions.push('false')
  // Without an extension, SQLite knows the case of ASCII letters only.
  if (error !== undefined) where('instr(lower(last_error), lower(?)) > 0', error)
  if (minAge !== undefined) where(`created_at <= ${now} - ?`, minAge)
  if (maxAge !== undefined) where(`created_at >= ${now} - ?`, maxAge)
  if (minParkedAge !== undefined) where(`parked_at <= ${now} - ?`, minParkedAge)
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
