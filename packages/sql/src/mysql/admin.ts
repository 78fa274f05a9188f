import type { OutboxFilter, OutboxReference, OutboxState } from '@ackord/outbox'
import type { RunStatement } from '../contract/driver.ts'
import type { AdminStatements, ChosenRows, GroupedBy, ListedRows, Rearm, StorePort } from '../contract/store-dialect.ts'
import { bySeq, lineOf } from '../records/claimed-record.ts'
import { type OutboxRow, writtenSource } from '../records/outbox-row.ts'
import type { Row } from '../records/row.ts'
import { findDestinations, readEach, type StateAndDestination } from './destinations.ts'
import { LimitedStats } from './limited-stats.ts'
import { deleteSql, historySql } from './settle.ts'
import {
  asText,
  columnsWithoutData,
  fromNow,
  instant,
  joinParts,
  keyOf,
  keysSql,
  type RowKey,
  readRow,
  recordColumns,
  type SqlPart,
} from './sql-text.ts'
import { storeTransaction } from './transaction-control.ts'

const allStates = ['parked', 'published', 'ready', 'waiting']

export function mysqlAdministration({ driver, table, keepsFailures }: StorePort): AdminStatements {
  const run: RunStatement = (sql, parameters = []) => driver.run(driver.pool, sql, parameters)
  const limitedStats = new LimitedStats(table, allStates)

  /**
   * No index is ordered by seq with the state as prefix: each pair of state and destination yields a page of keys, and the first of all of them are
   * read. A message id has an index of its own.
   */
  async function keysOfPage(matching: SqlPart, filter: OutboxFilter, range: SeqRange, limit: number): Promise<readonly RowKey[]> {
    if (filter.messageId !== undefined) return (await rowsOf(run, messageSql(table, matching, range.after, limit))).map(keyOf)
    const pairs = await findDestinations(run, table, statesOf(filter))
    const wanted = pairs.filter(({ destination }) => filter.destination === undefined || destination === filter.destination)
    const page = (pair: StateAndDestination) => pageSql(table, pair, matching, range, limit)
    const keys = (await readEach(run, wanted, limit * wanted.length, page)).map(keyOf)
    return keys.sort(bySeq).slice(0, limit)
  }

  /** Where a search has to end so that it reads at most `maxRead` rows; `undefined` if it may read all that have the states and the destination. */
  async function searchEnd(filter: OutboxFilter, after: string, maxRead: number): Promise<ListedRows['searched']> {
    if (filter.state !== undefined || filter.destination !== undefined) {
      const [counted] = await rowsOf(run, countSql(table, filter, maxRead))
      if (Number(counted?.['count']) < maxRead) return undefined
    }
    const [end] = await rowsOf(run, { sql: endSql(table, after, maxRead), parameters: [] })
    return end === undefined ? undefined : { seq: String(end['seq']), at: Number(end['created_at']) }
  }

  return {
    async list(filter, { after, limit, payloads, maxRead, indexed }) {
      const failures = await keepsFailures()
      const matching = filterSql(filter, failures)
      const searched = indexed ? undefined : await searchEnd(filter, after, maxRead)
      const rows: Row[] = []
      for (let from = after; rows.length < limit; ) {
        const wanted = limit - rows.length
        const keys = await keysOfPage(matching, filter, { after: from, upTo: searched?.seq }, wanted)
        const last = keys.at(-1)
        if (last !== undefined) rows.push(...(await rowsOf(run, rowsSql(table, keys, matching, columnsOf(failures, payloads)))))
        // A relay may have changed some rows since their keys were read. Rows behind these take their place: a page is full unless its search has ended.
        if (last === undefined || keys.length < wanted) break
        from = last.seq
      }
      return { rows, searched }
    },

    async get(seq) {
      const { rows } = await run(getSql(table, columnsOf(await keepsFailures()), seq))
      return rows.map(readRow)[0]
    },

    async history(seq) {
      if (!(await keepsFailures())) return undefined
      const { rows } = await run(getSql(table, 'CAST(o.history AS BINARY) AS history', seq))
      return rows.map(readRow)[0]
    },

    async rearm(which, edit, options) {
      const chosen = whichSql(which, await keepsFailures())
      if (edit === undefined) {
        const { sql, parameters } = rearmSql(table, chosen, options)
        return await storeTransaction(driver, async (inside) => (await inside(sql, parameters)).count)
      }
      return await storeTransaction(driver, async (inside) => {
        const rows = await rowsOf(inside, chosenSql(table, options.state, chosen))
        for (const row of rows) {
          const { sql, parameters } = rearmAsSql(table, keyOf(row), edit(row), options)
          await inside(sql, parameters)
        }
        return rows.length
      })
    },

    async park(ids, reason, cause) {
      const failures = await keepsFailures()
      return await storeTransaction(driver, async (inside) => {
        const rows = await rowsOf(inside, pendingSql(table, ids))
        if (rows.length === 0) return []
        const { sql, parameters } = parkSql(table, rows.map(keyOf), failures ? { reason, cause } : { reason })
        await inside(sql, parameters)
        return rows.map(({ seq, id, type }) => ({ seq, id, type }))
      })
    },

    discard: (ids) =>
      storeTransaction(driver, async (inside) => {
        const rows = await rowsOf(inside, chosenSql(table, 'parked', idsSql(ids)))
        await remove(inside, table, rows)
        return rows.map(({ seq, id, type }) => ({ seq, id, type }))
      }),

    cancelWaiting: (ids) =>
      storeTransaction(driver, async (inside) => {
        const rows = await rowsOf(inside, notDueSql(table, ids))
        await remove(inside, table, rows)
        return rows.map(({ seq, id, type }) => ({ seq, id, type }))
      }),

    async stats(limit) {
      if (limit !== undefined) return await limitedStats.read(run, (pair) => limitedStatsSql(table, pair, limit))
      return { rows: await rowsOf(run, { sql: statsSql(table), parameters: [] }), requests: 1 }
    },

    async groups(by, filter, limit) {
      const failures = await keepsFailures()
      return by === 'failure' && !failures ? [] : await rowsOf(run, groupsSql(table, by, filter, { failures, limit }))
    },

    deletePublished: (olderThan, limit) =>
      storeTransaction(driver, async (inside) => {
        const rows = await rowsOf(inside, { sql: oldSql(table, olderThan, limit), parameters: [] })
        await remove(inside, table, rows)
        return rows.length
      }),
  }
}

async function rowsOf(run: RunStatement, { sql, parameters }: SqlPart): Promise<readonly Row[]> {
  const { rows } = await run(sql, parameters)
  return rows.map(readRow)
}

async function remove(run: RunStatement, table: string, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return
  const { sql, parameters } = deleteSql(table, rows.map(keyOf))
  await run(sql, parameters)
}

function columnsOf(failures: boolean, payloads = true): string {
  return `${payloads ? recordColumns : columnsWithoutData}, CAST(o.last_error AS BINARY) AS last_error, ${failures ? 'o.cause, ' : ''}${stateOf('o')} AS shown_state,
  ${instant('o.available_at')} AS available_at, ${instant('o.lease_until')} AS lease_until,
  ${instant('o.published_at')} AS published_at, ${instant('o.parked_at')} AS parked_at`
}

interface SeqRange {
  readonly after: string
  /** Default: no end. */
  readonly upTo: string | undefined
}

/** Counts the rows that have the states and the destination of a filter, up to `limit`, in an index. */
function countSql(table: string, filter: OutboxFilter, limit: number): SqlPart {
  const { destination } = filter
  const states = statesOf(filter)
  return {
    sql: `SELECT COUNT(*) AS \`count\` FROM (
  SELECT 1 FROM ${table} AS o FORCE INDEX (due) WHERE o.state IN (${states.map((state) => `'${state}'`).join(', ')})${destination === undefined ? '' : ' AND o.destination = ?'}
  LIMIT ${limit}
) AS o`,
    parameters: destination === undefined ? [] : [destination],
  }
}

/** The row that is so many rows behind this seq. Reads index entries, and one row. */
function endSql(table: string, after: string, count: number): string {
  return `SELECT CAST(o.seq AS CHAR) AS seq, ${instant('o.created_at')} AS created_at FROM ${table} AS o
JOIN (SELECT state, destination, seq FROM ${table} FORCE INDEX (seq) WHERE seq > ${after} ORDER BY seq LIMIT 1 OFFSET ${count - 1}) AS last
  ON last.state = o.state AND last.destination = o.destination AND last.seq = o.seq`
}

/** The keys that match a filter for one state and destination, in a range of seqs, ordered by seq. Takes no locks. */
function pageSql(
  table: string,
  { state, destination }: StateAndDestination,
  { sql, parameters }: SqlPart,
  { after, upTo }: SeqRange,
  limit: number,
): SqlPart {
  return {
    sql: `SELECT CAST(o.seq AS CHAR) AS seq, o.state, o.destination FROM ${table} AS o FORCE INDEX (PRIMARY)
WHERE o.state = ? AND o.destination = ? AND o.seq > ${after}${upTo === undefined ? '' : ` AND o.seq <= ${upTo}`} AND ${sql} ORDER BY o.seq LIMIT ${limit}`,
    parameters: [state, destination, ...parameters],
  }
}

/** The keys that match a filter with a message id, after this seq, ordered by seq. Takes no locks. */
function messageSql(table: string, { sql, parameters }: SqlPart, after: string, limit: number): SqlPart {
  return {
    sql: `SELECT CAST(o.seq AS CHAR) AS seq, o.state, o.destination FROM ${table} AS o FORCE INDEX (message)
WHERE o.seq > ${after} AND ${sql} ORDER BY o.seq LIMIT ${limit}`,
    parameters,
  }
}

/** Rows by key that match a filter, ordered by seq. */
function rowsSql(table: string, keys: readonly RowKey[], matching: SqlPart, columns: string): SqlPart {
  const { sql, parameters } = joinParts([keysSql(keys), matching], ' AND ')
  return { sql: `SELECT ${columns} FROM ${table} AS o FORCE INDEX (PRIMARY) WHERE ${sql} ORDER BY o.seq`, parameters }
}

/** One row. */
function getSql(table: string, columns: string, seq: string): string {
  return `SELECT ${columns} FROM ${table} AS o FORCE INDEX (seq) WHERE o.seq = ${seq}`
}

/** The parked or published rows of these seqs, or of a filter, locked. */
function chosenSql(table: string, state: 'parked' | 'published', { sql, parameters }: SqlPart): SqlPart {
  return { sql: `SELECT ${recordColumns} FROM ${table} AS o WHERE o.state = '${state}' AND ${sql} ORDER BY o.seq FOR UPDATE`, parameters }
}

/** The rows of these seqs that are ready or waiting and not leased, locked. */
function pendingSql(table: string, ids: readonly string[]): SqlPart {
  const { sql, parameters } = idsSql(ids)
  return {
    sql: `SELECT ${recordColumns} FROM ${table} AS o WHERE o.state IN ('ready', 'waiting') AND ${unleased} AND ${sql} ORDER BY o.seq FOR UPDATE`,
    parameters,
  }
}

/** The rows of these seqs that are not due yet and not leased, locked. */
function notDueSql(table: string, ids: readonly string[]): SqlPart {
  const { sql, parameters } = idsSql(ids)
  return {
    sql: `SELECT ${recordColumns} FROM ${table} AS o
WHERE o.state = 'waiting' AND o.available_at > UTC_TIMESTAMP(6) AND ${unleased} AND ${sql} ORDER BY o.seq FOR UPDATE`,
    parameters,
  }
}

/** Parks rows by their keys. The cause, and a line of the history, are written if there is a cause. */
function parkSql(
  table: string,
  keys: readonly RowKey[],
  { reason, cause }: { readonly reason: string; readonly cause?: string | undefined },
): SqlPart {
  const { sql, parameters } = keysSql(keys)
  const kept = cause === undefined ? '' : ` o.cause = ?, o.history = ${historySql('?')},`
  return {
    sql: `UPDATE ${table} AS o FORCE INDEX (PRIMARY) SET o.state = 'parked', o.parked_at = UTC_TIMESTAMP(6), o.last_error = ?,${kept}
  o.lease_token = NULL, o.lease_until = NULL WHERE ${sql}`,
    parameters: [reason, ...(cause === undefined ? [] : [cause, lineOf(reason)]), ...parameters],
  }
}

/**
 * Deletes the referenced rows that are not due yet. A claim skips them until the transaction ends, even if they become due meanwhile. The source is
 * read only from the attributes of rows whose id matches: those of other rows might not be JSON, or be JSON that the server refuses to read.
 */
export function cancelSql(table: string, references: readonly OutboxReference[]): SqlPart {
  const ids = references.map(() => '?').join(', ')
  const same = `destination = ? AND id = ? AND CASE WHEN LOCATE('"source":"', attributes) > 0 THEN LOCATE(?, attributes) > 0
    ELSE CAST(JSON_UNQUOTE(JSON_EXTRACT(attributes, '$.source')) AS BINARY) = ? END`
  return {
    sql: `DELETE FROM ${table} WHERE state = 'waiting' AND id IN (${ids}) AND available_at > UTC_TIMESTAMP(6)
  AND (lease_until IS NULL OR lease_until <= UTC_TIMESTAMP(6))
  AND CASE WHEN id IN (${ids}) THEN ${references.map(() => `(${same})`).join(' OR ')} ELSE FALSE END`,
    parameters: [
      ...references.map(({ id }) => id),
      ...references.map(({ id }) => id),
      ...references.flatMap((one) => [one.destination, one.id, writtenSource(one), one.source]),
    ],
  }
}

/** Makes parked or published rows ready, unchanged. */
function rearmSql(table: string, { sql, parameters }: SqlPart, options: Rearm): SqlPart {
  return { sql: `UPDATE ${table} AS o SET ${ready(options)} WHERE o.state = '${options.state}' AND ${sql}`, parameters }
}

/** Makes a row ready, with its new content. */
function rearmAsSql(table: string, key: RowKey, to: OutboxRow, options: Rearm): SqlPart {
  const { sql, parameters } = keysSql([key])
  return {
    sql: `UPDATE ${table} AS o FORCE INDEX (PRIMARY) SET ${ready(options)}, o.destination = ?, o.data = ?, o.id = ?, o.type = ?, o.content_type = ?,
  o.ordering_key = ?, o.\`partition\` = ?, o.attributes = ? WHERE ${sql}`,
    parameters: [to.destination, to.data, to.id, to.type, to.contentType, to.orderingKey, to.partition, to.attributes, ...parameters],
  }
}

/** Counts by destination and state, and the age of the oldest pending row. Reads the whole table. */
function statsSql(table: string): string {
  return `SELECT o.destination, ${stateOf('o')} AS shown_state, COUNT(*) AS \`count\`,
  TIMESTAMPDIFF(MICROSECOND, MIN(o.created_at), UTC_TIMESTAMP(6)) / 1000 AS age
FROM ${table} AS o GROUP BY o.destination, shown_state ORDER BY o.destination, shown_state`
}

/** The same for one state and destination, reading at most `limit` rows, the oldest first. */
function limitedStatsSql(table: string, { state, destination }: StateAndDestination, limit: number): SqlPart {
  return {
    sql: `SELECT o.destination, o.shown_state, COUNT(*) AS \`count\`, TIMESTAMPDIFF(MICROSECOND, MIN(o.created_at), UTC_TIMESTAMP(6)) / 1000 AS age,
  SUM(COUNT(*)) OVER () >= ${limit} AS reached
FROM (
  SELECT o.destination, ${stateOf('o')} AS shown_state, o.created_at FROM ${table} AS o FORCE INDEX (PRIMARY)
  WHERE o.state = ? AND o.destination = ? ORDER BY o.seq LIMIT ${limit}
) AS o GROUP BY o.destination, o.shown_state`,
    parameters: [state, destination],
  }
}

const groupColumns = { failure: 'cause', type: 'type', destination: 'destination' } as const

/**
 * Counts parked and waiting rows by what they have in common, reading at most `limit` rows of each state. The filter is applied to the rows that were
 * read.
 */
function groupsSql(
  table: string,
  by: GroupedBy,
  { state, ...filter }: OutboxFilter,
  { failures, limit }: { readonly failures: boolean; readonly limit: number },
): SqlPart {
  const matching = filterSql(filter, failures)
  const { destination } = filter
  const states = state === undefined ? ['parked', 'waiting'] : [state]
  const rows = states.map((one) => ({
    sql: `(SELECT o.state, o.destination, o.id, o.type, o.ordering_key, o.last_error, o.created_at, o.parked_at${failures ? ', o.cause' : ''}
  FROM ${table} AS o FORCE INDEX (PRIMARY) WHERE o.state = ?${destination === undefined ? '' : ' AND o.destination = ?'}
  ORDER BY o.destination, o.seq LIMIT ${limit})`,
    parameters: destination === undefined ? [one] : [one, destination],
  }))
  const read = joinParts(rows, '\n  UNION ALL\n  ')
  return {
    sql: `SELECT o.state, CASE WHEN ${matching.sql} THEN o.${groupColumns[by]} END AS name, COUNT(*) AS \`count\`,
  ${instant('MIN(o.created_at)')} AS first, ${instant('MAX(o.created_at)')} AS last
FROM (${read.sql}) AS o GROUP BY o.state, name`,
    parameters: [...matching.parameters, ...read.parameters],
  }
}

/** The keys of published rows older than this many milliseconds. Locks them and skips rows locked by another cleanup. */
function oldSql(table: string, olderThan: number, limit: number): string {
  return `SELECT CAST(o.seq AS CHAR) AS seq, o.state, o.destination FROM ${table} AS o FORCE INDEX (published)
WHERE o.published_at <= ${fromNow(-olderThan)} AND o.state = 'published' ORDER BY o.published_at LIMIT ${limit} FOR UPDATE SKIP LOCKED`
}

/** The column values that correspond to the states shown to operators. */
const storedStates: Readonly<Record<OutboxState, readonly string[]>> = {
  ready: ['ready', 'waiting'],
  waiting: ['waiting'],
  leased: ['ready', 'waiting'],
  parked: ['parked'],
  published: ['published'],
}

function statesOf({ state }: OutboxFilter): readonly string[] {
  return state === undefined ? allStates : storedStates[state]
}

const unleased = '(o.lease_until IS NULL OR o.lease_until <= UTC_TIMESTAMP(6))'

function whichSql(which: ChosenRows, failures: boolean): SqlPart {
  return 'filter' in which ? filterSql(which.filter, failures) : idsSql(which.ids)
}

function idsSql(ids: readonly string[]): SqlPart {
  return { sql: ids.length === 0 ? 'FALSE' : `o.seq IN (${ids.join(', ')})`, parameters: [] }
}

function filterSql(filter: OutboxFilter, failures: boolean): SqlPart {
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
  equals('o.id', filter.messageId)
  if (failures) equals('o.cause', filter.cause)
  else if (filter.cause !== undefined) conditions.push('FALSE')
  if (filter.error !== undefined) {
    conditions.push(`LOCATE(LOWER(${asText('?')}), LOWER(o.last_error)) > 0`)
    parameters.push(filter.error)
  }
  if (filter.minAge !== undefined) conditions.push(`o.created_at <= ${fromNow(-filter.minAge)}`)
  if (filter.maxAge !== undefined) conditions.push(`o.created_at >= ${fromNow(-filter.maxAge)}`)
  if (filter.minParkedAge !== undefined) conditions.push(`o.parked_at <= ${fromNow(-filter.minParkedAge)}`)
  return { sql: conditions.join(' AND '), parameters }
}

function ready({ delay, keepAttempts }: Rearm): string {
  return `o.state = '${delay > 0 ? 'waiting' : 'ready'}', ${keepAttempts ? '' : 'o.attempts = 0, '}o.parked_at = NULL, o.published_at = NULL,
  o.available_at = ${fromNow(delay)}`
}

/** Leases and due times are not column values, but operators need to see them. */
function stateOf(row: string): string {
  return `CASE WHEN ${row}.state IN ('parked', 'published') THEN ${row}.state
    WHEN ${row}.lease_until > UTC_TIMESTAMP(6) THEN 'leased'
    WHEN ${row}.state = 'waiting' AND ${row}.available_at > UTC_TIMESTAMP(6) THEN 'waiting' ELSE 'ready' END`
}
