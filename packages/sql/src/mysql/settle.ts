import { groupBy } from '@ackord/core/internal'
import { maxHistoryLength, type Outcome } from '@ackord/outbox'
import type { RunStatement } from '../contract/driver.ts'
import { type ClaimedRowKey, type FailedOutcome, lineOf } from '../records/claimed-record.ts'
import { asText, fromNow, instant, joinParts, keysSql, type RowKey, type SqlPart } from './sql-text.ts'

/** The rows whose claim is valid: by key, with the token that fences them and an unexpired lease. */
function holdsSql(rows: readonly ClaimedRowKey[]): SqlPart {
  const fenced = groupBy(rows, ({ token }) => token).map(([token, group]) => {
    const { sql, parameters } = keysSql(group)
    return { sql: `(o.lease_token = ? AND ${sql})`, parameters: [token, ...parameters] }
  })
  const { sql, parameters } = joinParts(fenced, ' OR ')
  return { sql: `(${sql}) AND o.lease_until > UTC_TIMESTAMP(6)`, parameters }
}

/** The seqs whose claim is valid; locked in key order if they are to be changed. */
export function heldSql(table: string, rows: readonly ClaimedRowKey[], { lock }: { readonly lock: boolean }): SqlPart {
  const { sql, parameters } = holdsSql(rows)
  return {
    sql: `SELECT CAST(o.seq AS CHAR) AS seq FROM ${table} AS o FORCE INDEX (PRIMARY) WHERE ${sql}${lock ? ' FOR UPDATE' : ''}`,
    parameters,
  }
}

export function renewSql(table: string, rows: readonly ClaimedRowKey[], lease: number): SqlPart {
  const { sql, parameters } = holdsSql(rows)
  return { sql: `UPDATE ${table} AS o FORCE INDEX (PRIMARY) SET o.lease_until = ${fromNow(lease)} WHERE ${sql}`, parameters }
}

/** Releases leases and uncounts the attempt. */
export function releaseSql(table: string, rows: readonly ClaimedRowKey[]): SqlPart {
  const { sql, parameters } = holdsSql(rows)
  return {
    sql: `UPDATE ${table} AS o FORCE INDEX (PRIMARY) SET o.lease_token = NULL, o.lease_until = NULL, o.attempts = o.attempts - 1 WHERE ${sql}`,
    parameters,
  }
}

export function deleteSql(table: string, keys: readonly RowKey[]): SqlPart {
  const { sql, parameters } = keysSql(keys)
  return { sql: `DELETE o FROM ${table} AS o FORCE INDEX (PRIMARY) WHERE ${sql}`, parameters }
}

/** Keeps published rows. */
function keepSql(table: string, keys: readonly RowKey[]): SqlPart {
  return moveSql(table, keys, { sql: `o.state = 'published', o.published_at = UTC_TIMESTAMP(6)`, parameters: [] })
}

/** The history of the row `o` with one more line, the value of an expression. */
export function historySql(line: string): string {
  const time = `FLOOR(${instant('UTC_TIMESTAMP(6)')})`
  return `RIGHT(CONCAT_WS(CHAR(10 USING utf8mb4), o.history, CONCAT(${time}, ' ', ${asText(line)})), ${maxHistoryLength})`
}

type KeyedFailure = RowKey & { readonly outcome: FailedOutcome }

/** Applies outcomes that are all `failed` or all `parked`. `counts`: with one more attempt. */
function failSql(
  table: string,
  result: 'failed' | 'parked',
  outcomes: readonly KeyedFailure[],
  { counts, failures }: Omit<SettleOptions, 'retain'>,
): SqlPart {
  const bySeq = (read: (outcome: FailedOutcome) => unknown): SqlPart => ({
    sql: `CASE o.seq ${outcomes.map(({ seq }) => `WHEN ${seq} THEN ?`).join(' ')} END`,
    parameters: outcomes.map(({ outcome }) => read(outcome)),
  })
  const texts: SqlPart[] = [
    assign(
      'last_error',
      bySeq(({ error }) => error),
    ),
  ]
  if (failures) {
    const lines = bySeq(({ error }) => lineOf(error))
    texts.push(
      assign(
        'cause',
        bySeq(({ cause = null }) => cause),
      ),
      assign('history', { ...lines, sql: historySql(lines.sql) }),
    )
  }
  const { sql, parameters } = joinParts(texts, ', ')
  const next = outcomes.map(({ seq, outcome }) => `WHEN ${seq} THEN ${fromNow(outcome.result === 'failed' ? outcome.retryAfter : 0)}`)
  const change =
    result === 'failed'
      ? `o.state = 'waiting', o.available_at = CASE o.seq ${next.join(' ')} END`
      : `o.state = 'parked', o.parked_at = UTC_TIMESTAMP(6)`
  const counted = counts ? ', o.attempts = o.attempts + 1' : ''
  return moveSql(table, outcomes, { sql: `${change}${counted}, ${sql}`, parameters })
}

function assign(column: string, { sql, parameters }: SqlPart): SqlPart {
  return { sql: `o.${column} = ${sql}`, parameters }
}

function moveSql(table: string, keys: readonly RowKey[], change: SqlPart): SqlPart {
  const { sql, parameters } = keysSql(keys)
  return {
    sql: `UPDATE ${table} AS o FORCE INDEX (PRIMARY) SET ${change.sql}, o.lease_token = NULL, o.lease_until = NULL WHERE ${sql}`,
    parameters: [...change.parameters, ...parameters],
  }
}

export type KeyedOutcome = RowKey & { readonly outcome: Outcome }

/** Errors are long strings: this many fit into a statement. */
const failureBatchSize = 100

export interface SettleOptions {
  readonly retain: boolean
  /** Whether failed and parked rows get one more attempt. */
  readonly counts: boolean
  /** Whether cause and history are written too. */
  readonly failures: boolean
}

/** Applies outcomes to locked rows. */
export async function applyOutcomes(
  run: RunStatement,
  table: string,
  outcomes: readonly KeyedOutcome[],
  { retain, ...failing }: SettleOptions,
): Promise<void> {
  const resultsIn = (result: Outcome['result']) => outcomes.filter(({ outcome }) => outcome.result === result)
  const published = resultsIn('published')
  if (published.length > 0) {
    const { sql, parameters } = retain ? keepSql(table, published) : deleteSql(table, published)
    await run(sql, parameters)
  }
  for (const result of ['failed', 'parked'] as const) {
    // Chosen by their result.
    const failed = resultsIn(result) as readonly KeyedFailure[]
    for (let start = 0; start < failed.length; start += failureBatchSize) {
      const { sql, parameters } = failSql(table, result, failed.slice(start, start + failureBatchSize), failing)
      await run(sql, parameters)
    }
  }
}
