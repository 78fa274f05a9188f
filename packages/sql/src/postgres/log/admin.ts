import { rootContext } from '@ackord/core'
import type { OutboxFilter } from '@ackord/outbox'
import type { RunStatement } from '../../contract/driver.ts'
import type { AdminStatements, ChosenRows, ListedRows, OwnershipPort } from '../../contract/store-dialect.ts'
import { compareSeq } from '../../records/claimed-record.ts'
import { partitionCount } from '../../records/outbox-row.ts'
import type { Row } from '../../records/row.ts'
import { cancelWaitingSql, limitedStatsSql, parkStatement, postgresAdministration, statsSql } from '../admin.ts'
import { type BindParameter, bindTo, instant, numberArray } from '../sql-text.ts'
import { transactionSettings } from '../transaction-control.ts'
import { recordColumns } from './log-sql.ts'

/**
 * The operators' statements in log mode. Records of the log are ready, or published if they are kept. An action that changes one moves it to the outbox table first; if the action
 * then fails, the record is still in the same state.
 */
export function postgresLogAdministration(port: OwnershipPort): AdminStatements {
  const { driver, tables, retain, keepsFailures } = port
  const table = postgresAdministration(port)
  // READ COMMITTED: with a snapshot from before a truncation, it would see neither the truncated cursors nor where they were carried over to, and take published records for pending ones.
  const settings = transactionSettings({ isolation: 'read committed' })
  const inTransaction = <T>(work: (run: RunStatement) => Promise<T>): Promise<T> =>
    driver.inTransaction(driver.pool) === true
      ? work((sql, parameters = []) => driver.run(driver.pool, sql, parameters))
      : driver.transaction(settings, (session) => work(session.run), rootContext().signal)
  const run: RunStatement = (sql, parameters) => inTransaction((inside) => inside(sql, parameters))

  async function moveToTable(inside: RunStatement, state: 'ready' | 'published', which: ChosenRows): Promise<void> {
    const { outbox, taken } = tables
    const parameters: unknown[] = []
    const bind = bindTo(parameters)
    const chosen =
      'ids' in which ? { sql: `l.seq = ANY(${bind(numberArray(which.ids), 'bigint[]')})` } : { sql: filterSql(which.filter, bind) }
    await inside(
      `WITH ${logSql(port)},
chosen AS MATERIALIZED (SELECT l.* FROM log AS l WHERE l.state = '${state}' AND ${chosen.sql}),
taken AS (INSERT INTO ${taken} (seq) SELECT seq FROM chosen ON CONFLICT DO NOTHING)
INSERT INTO ${outbox} (seq, state, ${recordColumns()}, available_at, published_at) OVERRIDING SYSTEM VALUE
SELECT l.seq, l.state, ${recordColumns('l.')}, l.created_at, CASE l.state WHEN 'published' THEN l.created_at END FROM chosen AS l ON CONFLICT DO NOTHING`,
      parameters,
    )
  }

  return {
    ...table,

    async list(filter, page) {
      const { after, limit, payloads } = page
      if (!mayBeInLog(filter, retain)) return await table.list(filter, page)
      // The log first: a record that is moved meanwhile is found twice, not missed.
      const parameters: unknown[] = []
      const bind = bindTo(parameters)
      const { rows } = await run(
        `WITH ${logSql(port, bind(after, 'bigint'))}
SELECT ${columnsOf(payloads)} FROM log AS l WHERE l.seq > ${bind(after, 'bigint')} AND ${filterSql(filter, bind)} ORDER BY l.seq LIMIT ${bind(limit, 'bigint')}`,
        parameters,
      )
      return merged(await table.list(filter, page), rows, limit)
    },

    async get(seq) {
      const found = await table.get(seq)
      if (found !== undefined) return found
      return (await run(`WITH ${logSql(port, '$1::bigint - 1')} SELECT ${columnsOf(true)} FROM log AS l WHERE l.seq = $1::bigint`, [seq]))
        .rows[0]
    },

    async rearm(which, edit, options) {
      if (options.state === 'published' && retain) await moveToTable(run, 'published', which)
      return await table.rearm(which, edit, options)
    },

    async park(ids, reason, cause) {
      const failures = await keepsFailures()
      // In one transaction: while a record is ready in the table, a relay could claim it from there that has read it from the log, too.
      return await inTransaction(async (inside) => {
        await moveToTable(inside, 'ready', { ids })
        return (await inside(...parkStatement(port.table, { ids, reason, cause, failures }))).rows
      })
    },

    async discard(ids) {
      // Otherwise it would be listed, and could be re-armed, as published.
      if (retain)
        await run(
          `INSERT INTO ${tables.taken} (seq) SELECT l.seq FROM ${tables.log} AS l WHERE l.seq = ANY($1::bigint[])
  AND EXISTS (SELECT FROM ${tables.outbox} AS o WHERE o.state = 'parked' AND o.destination = l.destination AND o.seq = l.seq) ON CONFLICT DO NOTHING`,
          [numberArray(ids)],
        )
      return await table.discard(ids)
    },

    async cancelWaiting(ids) {
      return (await run(cancelWaitingSql(tables.outbox, tables), [ids])).rows
    },

    async stats(limit) {
      const isLimited = limit !== undefined
      const counts = (retain ? (['ready', 'published'] as const) : (['ready'] as const)).map((state) => countSql(port, state, isLimited))
      const ofTable = isLimited ? limitedStatsSql(tables.outbox) : statsSql(tables.outbox)
      const parts = [
        ...counts.map((sql) => `SELECT c.*, true AS is_log FROM (${sql}) AS c`),
        `SELECT c.*, ${isLimited ? '' : 'false, '}false FROM (${ofTable}) AS c`,
      ]
      const { rows } = await run(parts.join('\nUNION ALL\n'), isLimited ? [limit] : [])
      // Records of other destinations may be further back in the log.
      const reached = rows.some((row) => row['is_log'] === true && row['reached'] === true)
      return { rows: rows.map((row) => (reached ? { ...row, reached } : row)), requests: 1 }
    },
  }
}

/**
 * Counts records of the log. With a limit, which is $1, reads at most so many of them, the first ones of all destinations. Published ones do not count towards the limit of the
 * others.
 */
function countSql({ tables }: OwnershipPort, state: 'ready' | 'published', isLimited: boolean): string {
  const [limited, reached] = isLimited ? ['ORDER BY l.seq LIMIT $1::bigint', '(sum(count(*)) OVER ()) >= $1::bigint'] : ['', 'false']
  return `WITH ${logSql({ tables, retain: state === 'published' })}
SELECT l.destination, l.state AS shown_state, count(*)::float8 AS count, (extract(epoch FROM clock_timestamp() - min(l.created_at)) * 1000)::float8 AS age, ${reached} AS reached
FROM (SELECT l.destination, l.state, l.created_at FROM log AS l WHERE l.state = '${state}' ${limited}) AS l GROUP BY 1, 2`
}

/**
 * `log`: the records of the log that are not published, and with `retain` those that are, with their `state`. Reads after this seq, or after one before which everything is published.
 */
function logSql({ tables, retain }: Pick<OwnershipPort, 'tables' | 'retain'>, after?: string): string {
  const { log, cursors, taken, outbox } = tables
  const isDone = `pg_visible_in_snapshot(l.xid, last.snapshot) OR l.seq = ANY(last.done)
      OR EXISTS (SELECT FROM moved WHERE moved.seq = l.seq AND moved.member = last.member AND moved.generation >= last.noted)
      OR coalesce(l.seq <= last.seq AND pg_visible_in_snapshot(l.xid, last.until), false)`
  const isPending = `(last.snapshot IS NULL OR l.seq = ANY(last.open) OR NOT (${isDone}))`
  // A record that was moved to the outbox table is done for the log, but need not be published.
  const isOnlyHere = `NOT EXISTS (SELECT FROM ${outbox} AS o WHERE o.state = ANY('{ready,waiting,parked,published}'::text[]) AND o.destination = l.destination AND o.seq = l.seq)`
  const lowest = `(SELECT least(min(coalesce(last.floor, 0)), (SELECT min(opened.number) - 1 FROM last AS others CROSS JOIN unnest(others.open) AS opened(number)),
      (SELECT min(running.seq) - 1 FROM ${log} AS running WHERE running.xid = ANY(ARRAY(SELECT pg_snapshot_xip(snapshot) FROM last AS others)))) FROM last)`
  const from = retain ? (after ?? '0') : after === undefined ? lowest : `greatest(${after}, ${lowest})`
  return `last AS MATERIALIZED (
  SELECT p.partition, c.* FROM generate_series(0, ${partitionCount - 1}) AS p(partition) LEFT JOIN LATERAL (
    SELECT c.member, coalesce(c.noted, c.generation) AS noted, c.snapshot, c.floor, c.until, c.seq, c.open, c.done FROM ${cursors} AS c
    WHERE c.kind = 'd' AND get_bit(c.partitions, p.partition) = 1 ORDER BY c.generation DESC LIMIT 1
  ) AS c ON true
),
moved AS MATERIALIZED (
  SELECT r.member, r.generation, moved.seq FROM ${cursors} AS r CROSS JOIN unnest(r.done) AS moved(seq)
  WHERE r.kind = 'r' AND r.generation >= (SELECT min(noted) FROM last)
),
log AS (
  SELECT l.*, ${retain ? `CASE WHEN ${isPending} THEN 'ready' ELSE 'published' END` : `'ready'`} AS state
  FROM ${log} AS l JOIN last ON last.partition = l.partition
  WHERE l.seq > ${from} AND ${retain ? isOnlyHere : isPending} AND NOT EXISTS (SELECT FROM ${taken} AS t WHERE t.seq = l.seq)
)`
}

/** Records of the log have not failed, and are not parked. */
function mayBeInLog({ state, cause, error, minParkedAge }: OutboxFilter, retain: boolean): boolean {
  return (
    cause === undefined &&
    error === undefined &&
    minParkedAge === undefined &&
    (state === undefined || state === 'ready' || (state === 'published' && retain))
  )
}

function filterSql(filter: OutboxFilter, bind: BindParameter): string {
  const { state, destination, type, orderingKey, messageId, minAge, maxAge } = filter
  const ago = (age: number) => `(SELECT clock_timestamp()) - ${bind(age, 'float8')} * interval '1 millisecond'`
  const conditions = [
    mayBeInLog(filter, true) ? 'true' : 'false',
    ...(state === undefined ? [] : [`l.state = ${bind(state, 'text')}`]),
    ...(destination === undefined ? [] : [`l.destination = ${bind(destination, 'text')}`]),
    ...(type === undefined ? [] : [`l.type = ${bind(type, 'text')}`]),
    ...(orderingKey === undefined ? [] : [`l.ordering_key = ${bind(orderingKey, 'text')}`]),
    ...(messageId === undefined ? [] : [`l.id = ${bind(messageId, 'text')}`]),
    ...(minAge === undefined ? [] : [`l.created_at <= ${ago(minAge)}`]),
    ...(maxAge === undefined ? [] : [`l.created_at >= ${ago(maxAge)}`]),
  ]
  return conditions.join(' AND ')
}

function columnsOf(payloads: boolean): string {
  return `l.seq::text AS seq, l.state, l.destination, l.id, l.type, ${payloads ? 'l.data' : `''::bytea AS data`}, l.attributes, 0 AS attempts, NULL::text AS last_error,
  l.state AS shown_state, ${instant('l.created_at')} AS created_at, ${instant('l.created_at')} AS available_at, NULL::float8 AS lease_until,
  CASE l.state WHEN 'published' THEN ${instant('l.created_at')} END AS published_at, NULL::float8 AS parked_at`
}

/** If the search of the table ended early, rows of the log behind its end belong to the next page. */
function merged({ rows, searched }: ListedRows, ofLog: readonly Row[], limit: number): ListedRows {
  const seqOf = (row: Row) => String(row['seq'])
  const inTable = new Set(rows.map(seqOf))
  const reached = ofLog.filter((row) => !inTable.has(seqOf(row)) && (searched === undefined || compareSeq(seqOf(row), searched.seq) <= 0))
  const all = [...rows, ...reached].sort((one, other) => compareSeq(seqOf(one), seqOf(other))).slice(0, limit)
  return { rows: all, searched: all.length === limit ? undefined : searched }
}
