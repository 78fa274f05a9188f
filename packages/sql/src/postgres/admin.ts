import { rootContext } from '@ackord/core'
import type { OutboxFilter, OutboxReference, OutboxState } from '@ackord/outbox'
import type { RunStatement, Statement } from '../contract/driver.ts'
import type { AdminStatements, ChosenRows, GroupedBy, ListedPage, Rearm, StorePort } from '../contract/store-dialect.ts'
import type { Tables } from '../contract/tables.ts'
import { lineOf } from '../records/claimed-record.ts'
import { type OutboxRow, writtenSource } from '../records/outbox-row.ts'
import type { Row } from '../records/row.ts'
import { historySql } from './settle.ts'
import { instant } from './sql-text.ts'

export function postgresAdministration({ driver, table, keepsFailures }: StorePort): AdminStatements {
  const run: RunStatement = (sql, parameters = []) => driver.run(driver.pool, sql, parameters)
  return {
    async list(filter, page) {
      const { sql, parameters } = listSql(table, filter, await keepsFailures(), page)
      const { rows } = await run(sql, [page.after, page.limit, ...parameters])
      const { searched_seq: seq, searched_at: at } = rows[0] ?? {}
      return {
        rows: rows.filter((row) => row['seq'] !== null),
        searched: seq === null || seq === undefined ? undefined : { seq: String(seq), at: Number(at) },
      }
    },

    async get(seq) {
      return (await run(getSql(table, columnsOf(await keepsFailures())), [seq])).rows[0]
    },

    async history(seq) {
      return (await keepsFailures()) ? (await run(getSql(table, 'o.history'), [seq])).rows[0] : undefined
    },

    async rearm(which, edit, options) {
      const chosen = chosenSql(table, options.state, which, await keepsFailures())
      return await driver.transaction([], (session) => rearm(session.run, table, chosen, edit, options), rootContext().signal)
    },

    async park(ids, reason, cause) {
      return (await run(...parkStatement(table, { ids, reason, cause, failures: await keepsFailures() }))).rows
    },

    async discard(ids) {
      const { sql, parameters } = chosenSql(table, 'parked', { ids }, false)
      return (await run(`DELETE FROM ${table} WHERE ctid = ANY(ARRAY(${sql})) RETURNING seq::text AS seq, id, type`, parameters)).rows
    },

    async cancelWaiting(ids) {
      return (await run(cancelWaitingSql(table), [ids])).rows
    },

    async stats(limit) {
      const { rows } = await (limit === undefined ? run(statsSql(table)) : run(limitedStatsSql(table), [limit]))
      return { rows, requests: 1 }
    },

    async groups(by, filter, limit) {
      const failures = await keepsFailures()
      if (by === 'failure' && !failures) return []
      const { sql, parameters } = groupsSql(table, by, filter, failures)
      return (await run(sql, [limit, ...parameters])).rows
    },

    async deletePublished(olderThan, limit) {
      return (await run(deletePublishedSql(table), [olderThan, limit])).count
    },
  }
}

async function rearm(
  run: RunStatement,
  table: string,
  { sql, parameters }: FilterSql,
  edit: ((row: Row) => OutboxRow) | undefined,
  { delay, keepAttempts }: Rearm,
): Promise<number> {
  const ready = `state = '${delay > 0 ? 'waiting' : 'ready'}', ${keepAttempts ? '' : 'attempts = 0, '}parked_at = NULL, published_at = NULL,
available_at = clock_timestamp() + interval '${delay} milliseconds'`
  if (edit === undefined) {
    const { count } = await run(`UPDATE ${table} SET ${ready} WHERE ctid = ANY(ARRAY(${sql}))`, parameters)
    return count
  }
  const { rows } = await run(
    `SELECT ctid::text AS location, destination, id, type, data, attributes FROM ${table} WHERE ctid = ANY(ARRAY(${sql}))`,
    parameters,
  )
  for (const row of rows) {
    const to = edit(row)
    await run(
      `UPDATE ${table} SET ${ready}, destination = $2, data = $3::bytea, id = $4, type = $5, content_type = $6, ordering_key = $7,
partition = $8::smallint, attributes = $9 WHERE ctid = $1::tid`,
      [row['location'], to.destination, to.data, to.id, to.type, to.contentType, to.orderingKey, to.partition, to.attributes],
    )
  }
  return rows.length
}

function columnsOf(failures: boolean, payloads = true): string {
  const data = payloads ? 'o.data' : `''::bytea AS data`
  return `o.seq::text AS seq, o.state, o.destination, o.id, o.type, ${data}, o.attributes, o.attempts, o.last_error,${failures ? ' o.cause,' : ''}
  ${stateOf('o')} AS shown_state,
  ${instant('o.created_at')} AS created_at, ${instant('o.available_at')} AS available_at, ${instant('o.lease_until')} AS lease_until,
  ${instant('o.published_at')} AS published_at, ${instant('o.parked_at')} AS parked_at`
}

interface FilterSql {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/**
 * Rows that match a filter, ordered by seq. Parameters: after which seq, limit, then those of the filter. Takes no locks. Steps from one (state,
 * destination) to the next in the key and reads a page of each, because no index is ordered by seq alone. Few rows have the same message id, so these
 * are sorted instead. Unless the index leads to matching rows alone, every row has the end of the search (`searched_seq`, `searched_at`); there is one without a `seq` if none matches.
 */
export function listSql(
  table: string,
  filter: OutboxFilter,
  failures: boolean,
  { payloads, maxRead, indexed }: Pick<ListedPage, 'payloads' | 'maxRead' | 'indexed'>,
): FilterSql {
  const columns = columnsOf(failures, payloads)
  const { sql, parameters } = filterSql(filter, 3, failures)
  if (filter.messageId !== undefined)
    return { parameters, sql: `SELECT ${columns} FROM ${table} AS o WHERE o.seq > $1::bigint AND ${sql} ORDER BY o.seq LIMIT $2` }
  const { destination } = filter
  const wanted = `${targetsSql(table)}, ${wantedSql(filter, parameters.length + 3)}`
  const searched = indexed ? undefined : searchedSql(table, maxRead)
  const rows = `SELECT page.* FROM wanted CROSS JOIN LATERAL (
  SELECT ${columns} FROM ${table} AS o
  WHERE ${inWanted} AND o.seq > $1::bigint${searched === undefined ? '' : ` AND o.seq <= (SELECT coalesce(seq, ${maxSeq}) FROM searched)`} AND ${sql}
  ORDER BY o.seq LIMIT $2
) AS page`
  return {
    parameters: destination === undefined ? parameters : [...parameters, destination],
    sql:
      searched === undefined
        ? `${wanted}\n${rows} ORDER BY page.seq::bigint LIMIT $2`
        : `${wanted}, ${searched}
SELECT searched.seq::text AS searched_seq, ${instant('searched.at')} AS searched_at, page.*
FROM searched LEFT JOIN (${rows}) AS page ON true ORDER BY page.seq::bigint LIMIT $2`,
  }
}

const maxSeq = '9223372036854775807'

/** The rows of one (state, destination), in the order of the key. */
const inWanted = 'o.state = wanted.state AND o.destination = wanted.destination'

/**
 * The states and destinations that a filter selects; the parameter with this number is the destination. The states are always named: without a condition
 * the planner would assume 100 destinations, and compile the statement, which takes longer than to run it.
 */
function wantedSql({ state, destination }: OutboxFilter, parameter: number): string {
  const states = state === undefined ? `'ready', 'waiting', 'parked', 'published'` : storedStates[state]
  const ofDestination = destination === undefined ? '' : ` AND destination = $${parameter}`
  return `wanted AS (SELECT state, destination FROM targets WHERE state IN (${states})${ofDestination})`
}

/**
 * The last seq to search, so that at most `maxRead` rows are read, and when the last row until there was stored; null if there are not so many rows. $1 after
 * which seq. So many consecutive numbers are not more rows. Where numbers are missing, because rows were deleted, an equal number of rows of each state and
 * destination reaches further: these are counted in the index.
 */
function searchedSql(table: string, maxRead: number): string {
  const nextSql = `SELECT o.seq FROM ${table} AS o WHERE ${inWanted} AND o.seq > $1::bigint ORDER BY o.seq`
  return `searched AS (
  SELECT ends.seq, (
    SELECT last.created_at FROM wanted CROSS JOIN LATERAL (
      SELECT o.seq, o.created_at FROM ${table} AS o WHERE ${inWanted} AND o.seq <= ends.seq ORDER BY o.seq DESC LIMIT 1
    ) AS last ORDER BY last.seq DESC LIMIT 1
  ) AS at FROM (
    SELECT CASE WHEN count(share.seq) > 0 THEN greatest(min(share.seq), min(first.seq) + ${maxRead - 1}) END AS seq
    FROM wanted CROSS JOIN LATERAL (${nextSql} LIMIT 1) AS first
    LEFT JOIN LATERAL (${nextSql} OFFSET (SELECT greatest(${maxRead} / count(*), 1) - 1 FROM wanted) LIMIT 1) AS share ON true
  ) AS ends
)`
}

/** One row. $1 seq. */
function getSql(table: string, columns: string): string {
  return `${targetsSql(table)}
SELECT ${columns} FROM targets JOIN ${table} AS o ON o.state = targets.state AND o.destination = targets.destination AND o.seq = $1::bigint`
}

/** The parked or published rows of these seqs, $1, or of a filter: their ctids, locked. */
function chosenSql(table: string, state: 'parked' | 'published', which: ChosenRows, failures: boolean): FilterSql {
  const { sql, parameters } =
    'ids' in which ? { sql: 'o.seq = ANY($1::bigint[])', parameters: [which.ids] } : filterSql(which.filter, 1, failures)
  return { parameters, sql: `SELECT o.ctid FROM ${table} AS o WHERE o.state = '${state}' AND ${sql} ORDER BY o.seq FOR UPDATE` }
}

interface ParkOptions {
  readonly ids: readonly string[]
  readonly reason: string
  readonly cause: string
  /** Whether the table keeps causes and histories. */
  readonly failures: boolean
}

/** The arguments of `run`. */
export function parkStatement(table: string, { ids, reason, cause, failures }: ParkOptions): readonly [string, readonly unknown[]] {
  return [parkSql(table, failures), failures ? [ids, reason, cause, lineOf(reason)] : [ids, reason]]
}

/**
 * Parks rows of these seqs, $1, with the reason $2, and with `failures` the cause $3 and the line of the history $4, unless they are leased. Locks them in
 * the order of seq.
 */
function parkSql(table: string, failures: boolean): string {
  const kept = failures ? `cause = $3, history = ${historySql('$4::text')}, ` : ''
  return `UPDATE ${table} AS o SET state = 'parked', parked_at = clock_timestamp(), last_error = $2, ${kept}lease_token = NULL, lease_until = NULL
WHERE o.ctid = ANY(ARRAY(SELECT p.ctid FROM ${table} AS p
  WHERE p.state IN ('ready', 'waiting') AND p.seq = ANY($1::bigint[]) AND (p.lease_until IS NULL OR p.lease_until <= clock_timestamp())
  ORDER BY p.seq FOR UPDATE))
RETURNING o.seq::text AS seq, o.id, o.type`
}

const notDue = `p.state = 'waiting' AND p.available_at > clock_timestamp() AND (p.lease_until IS NULL OR p.lease_until <= clock_timestamp())`

/**
 * Deletes rows, locked in the order of seq. In log mode a row may have been moved from the log, where it would count as published from now on: it is marked as taken from there, in the
 * same statement.
 */
function deleteNotDueSql(table: string, condition: string, log: LogTables | undefined): string {
  const chosen = (columns: string) =>
    `SELECT ${columns} FROM ${table} AS p\n  WHERE ${notDue} AND ${condition}\n  ORDER BY p.seq FOR UPDATE`
  if (log === undefined) return `DELETE FROM ${table} AS o WHERE o.ctid = ANY(ARRAY(${chosen('p.ctid')}))`
  return `WITH chosen AS MATERIALIZED (${chosen('p.ctid, p.seq')}),
marked AS (INSERT INTO ${log.taken} (seq) SELECT l.seq FROM ${log.log} AS l WHERE l.seq = ANY(ARRAY(SELECT seq FROM chosen)) ON CONFLICT DO NOTHING)
DELETE FROM ${table} AS o WHERE o.ctid = ANY(ARRAY(SELECT ctid FROM chosen))`
}

type LogTables = Pick<Tables, 'log' | 'taken'>

/** Deletes rows of these seqs, $1, that are not due yet and not leased. */
export function cancelWaitingSql(table: string, log?: LogTables): string {
  return `${deleteNotDueSql(table, 'p.seq = ANY($1::bigint[])', log)} RETURNING o.seq::text AS seq, o.id, o.type`
}

/**
 * Deletes the referenced rows that are not due yet. A claim skips them until the transaction ends, even if they become due meanwhile. The source is
 * read only from the attributes of rows that match otherwise: those of other rows might not be JSON, or be JSON that the server refuses to read.
 */
export function cancelSql(table: string, references: readonly OutboxReference[], log?: LogTables): Statement {
  const sql = deleteNotDueSql(
    table,
    `p.id = ANY($2::text[]) AND CASE WHEN p.id = ANY($2::text[]) THEN EXISTS (
      SELECT FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS one(destination, id, source, written)
      WHERE CASE WHEN (one.destination, one.id) <> (p.destination, p.id) THEN false
        WHEN position('"source":"' IN p.attributes) > 0 THEN position(one.written IN p.attributes) > 0
        ELSE p.attributes::json ->> 'source' = one.source END
    ) ELSE false END`,
    log,
  )
  return {
    // Prisma counts the rows of a statement that begins with WITH.
    sql: log === undefined ? sql : `${sql} RETURNING 1 AS deleted`,
    parameters: [
      references.map(({ destination }) => destination),
      references.map(({ id }) => id),
      references.map(({ source }) => (source.includes('\0') ? null : source)),
      references.map(writtenSource),
    ],
  }
}

/** Counts by destination and state, and the age of the oldest pending row. Reads the whole table. */
export function statsSql(table: string): string {
  return `SELECT o.destination, ${stateOf('o')} AS shown_state, count(*)::float8 AS count,
  (extract(epoch FROM clock_timestamp() - min(o.created_at)) * 1000)::float8 AS age
FROM ${table} AS o GROUP BY 1, 2 ORDER BY 1, 2`
}

/**
 * The same, reading at most $1 rows of each state and destination, the oldest first. Parked and published rows are counted in the index alone: nothing else of them is needed, and
 * there may be many. The states are named for the planner, as in `wantedSql()`.
 */
export function limitedStatsSql(table: string): string {
  return `${targetsSql(table)}
SELECT targets.destination, counted.* FROM targets CROSS JOIN LATERAL (
  SELECT o.shown_state, count(*)::float8 AS count, (extract(epoch FROM clock_timestamp() - min(o.created_at)) * 1000)::float8 AS age,
    sum(count(*)) OVER () >= $1 AS reached
  FROM (
    SELECT ${stateOf('o')} AS shown_state, o.created_at FROM ${table} AS o
    WHERE o.state = targets.state AND o.destination = targets.destination ORDER BY o.seq LIMIT (SELECT $1::bigint)
  ) AS o GROUP BY o.shown_state
) AS counted WHERE targets.state IN ('ready', 'waiting')
UNION ALL
SELECT targets.destination, targets.state, counted.* FROM targets CROSS JOIN LATERAL (
  SELECT count(*)::float8, NULL::float8, count(*) >= $1 FROM (
    SELECT FROM ${table} AS o
    WHERE o.state = targets.state AND o.destination = targets.destination ORDER BY o.seq LIMIT (SELECT $1::bigint)
  ) AS o HAVING count(*) > 0
) AS counted WHERE targets.state IN ('parked', 'published')`
}

const groupColumns = { failure: 'cause', type: 'type', destination: 'destination' } as const

/**
 * Counts parked and waiting rows by what they have in common. $1 the number of rows to read of each state, then the parameters of the filter, which is applied to
 * the rows that were read.
 */
function groupsSql(table: string, by: GroupedBy, { state, ...filter }: OutboxFilter, failures: boolean): FilterSql {
  const { sql, parameters } = filterSql(filter, 2, failures)
  const { destination } = filter
  const ofDestination = destination === undefined ? '' : ` AND targets.destination = $${parameters.length + 2}`
  const columns = `o.state, o.destination, o.id, o.type, o.ordering_key, o.last_error, o.created_at, o.parked_at${failures ? ', o.cause' : ''}`
  // Steps through the key, as a list does. The limits are subqueries: if the planner knew them, it might read and sort all rows of the destination.
  const rowsOf = (one: string) => `(SELECT page.* FROM targets CROSS JOIN LATERAL (
    SELECT ${columns} FROM ${table} AS o
    WHERE o.state = targets.state AND o.destination = targets.destination ORDER BY o.seq LIMIT (SELECT $1::bigint)
  ) AS page WHERE targets.state = '${one}'${ofDestination} LIMIT $1)`
  const states = state === undefined ? ['parked', 'waiting'] : [state]
  return {
    sql: `${targetsSql(table)}
SELECT o.state, CASE WHEN ${sql} THEN o.${groupColumns[by]} END AS name, count(*)::float8 AS count,
  ${instant('min(o.created_at)')} AS first, ${instant('max(o.created_at)')} AS last
FROM (${states.map(rowsOf).join('\n  UNION ALL\n  ')}) AS o GROUP BY 1, 2`,
    parameters: destination === undefined ? parameters : [...parameters, destination],
  }
}

/** Deletes published rows. $1 milliseconds, $2 limit. Skips rows locked by another cleanup. */
function deletePublishedSql(table: string): string {
  return `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${table}
  WHERE state = 'published' AND published_at <= (SELECT clock_timestamp() - $1::float8 * interval '1 millisecond')
  ORDER BY published_at LIMIT $2 FOR UPDATE SKIP LOCKED))`
}

function targetsSql(table: string): string {
  return `WITH RECURSIVE targets(state, destination) AS (
  (SELECT state, destination FROM ${table} ORDER BY state, destination LIMIT 1)
  UNION ALL
  SELECT target.state, target.destination FROM targets AS before CROSS JOIN LATERAL (
    SELECT o.state, o.destination FROM ${table} AS o
    WHERE (o.state, o.destination) > (before.state, before.destination) ORDER BY o.state, o.destination LIMIT 1
  ) AS target
)`
}

function filterSql(filter: OutboxFilter, from: number, failures: boolean): FilterSql {
  const parameters: unknown[] = []
  const next = (value: unknown) => `$${from - 1 + parameters.push(value)}`
  const conditions = ['true']
  if (filter.state !== undefined) conditions.push(rowsIn[filter.state])
  if (filter.destination !== undefined) conditions.push(`o.destination = ${next(filter.destination)}`)
  if (filter.type !== undefined) conditions.push(`o.type = ${next(filter.type)}`)
  if (filter.orderingKey !== undefined) conditions.push(`o.ordering_key = ${next(filter.orderingKey)}`)
  if (filter.messageId !== undefined) conditions.push(`o.id = ${next(filter.messageId)}`)
  if (filter.cause !== undefined) conditions.push(failures ? `o.cause = ${next(filter.cause)}` : 'false')
  if (filter.error !== undefined) conditions.push(`position(lower(${next(filter.error)}::text) IN lower(o.last_error)) > 0`)
  const ago = (age: number) => `(SELECT clock_timestamp()) - ${next(age)}::float8 * interval '1 millisecond'`
  if (filter.minAge !== undefined) conditions.push(`o.created_at <= ${ago(filter.minAge)}`)
  if (filter.maxAge !== undefined) conditions.push(`o.created_at >= ${ago(filter.maxAge)}`)
  if (filter.minParkedAge !== undefined) conditions.push(`o.parked_at <= ${ago(filter.minParkedAge)}`)
  return { sql: conditions.join(' AND '), parameters }
}

const [isLeased, isFree] = ['o.lease_until > clock_timestamp()', '(o.lease_until IS NULL OR o.lease_until <= clock_timestamp())']

/**
 * The rows in a state that is shown to operators, as `stateOf()` says. Written as conditions on columns: of an expression the planner would assume that it selects hardly any row,
 * and spend half a second on compiling the statement of a large table.
 */
const rowsIn: Readonly<Record<OutboxState, string>> = {
  ready: `o.state IN ('ready', 'waiting') AND ${isFree} AND (o.state = 'ready' OR o.available_at <= clock_timestamp())`,
  waiting: `o.state = 'waiting' AND ${isFree} AND o.available_at > clock_timestamp()`,
  leased: `o.state IN ('ready', 'waiting') AND ${isLeased}`,
  parked: "o.state = 'parked'",
  published: "o.state = 'published'",
}

/** The column values that correspond to the states shown to operators. */
const storedStates: Readonly<Record<OutboxState, string>> = {
  ready: `'ready', 'waiting'`,
  waiting: `'waiting'`,
  leased: `'ready', 'waiting'`,
  parked: `'parked'`,
  published: `'published'`,
}

/** Leases and due times are not column values, but operators need to see them. */
function stateOf(row: string): string {
  return `CASE WHEN ${row}.state IN ('parked', 'published') THEN ${row}.state
    WHEN ${row}.lease_until > clock_timestamp() THEN 'leased'
    WHEN ${row}.state = 'waiting' AND ${row}.available_at > clock_timestamp() THEN 'waiting' ELSE 'ready' END`
}
