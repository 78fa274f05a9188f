import type { Outcome } from '@ackord/outbox'
import type { RunStatement } from '../contract/driver.ts'
import type { ClaimedPlace } from '../records/claim-token.ts'
import { fromNow, groupBy, joinParts, keysSql, type RowKey, type SqlPart } from './sql-text.ts'

/** The rows whose claim holds: by their keys, with the token that fences them and time left. */
function holdsSql(places: readonly ClaimedPlace[]): SqlPart {
  const fenced = groupBy(places, ({ token }) => token).map((group) => {
    const { sql, parameters } = keysSql(group)
    return { sql: `(o.lease_token = ? AND ${sql})`, parameters: [group[0].token, ...parameters] }
  })
  const { sql, parameters } = joinParts(fenced, ' OR ')
  return { sql: `(${sql}) AND o.lease_until > UTC_TIMESTAMP(6)`, parameters }
}

/** The seqs whose claim holds; locked, in the order of the key, if they are to be changed. */
export function heldSql(table: string, places: readonly ClaimedPlace[], { lock }: { readonly lock: boolean }): SqlPart {
  const { sql, parameters } = holdsSql(places)
  return {
    sql: `SELECT CAST(o.seq AS CHAR) AS seq FROM ${table} AS o FORCE INDEX (PRIMARY) WHERE ${sql}${lock ? ' FOR UPDATE' : ''}`,
    parameters,
  }
}

export function renewSql(table: string, places: readonly ClaimedPlace[], lease: number): SqlPart {
  const { sql, parameters } = holdsSql(places)
  return { sql: `UPDATE ${table} AS o FORCE INDEX (PRIMARY) SET o.lease_until = ${fromNow(lease)} WHERE ${sql}`, parameters }
}

/** Gives leases back, with the attempt. */
export function releaseSql(table: string, places: readonly ClaimedPlace[]): SqlPart {
  const { sql, parameters } = holdsSql(places)
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

/** Applies outcomes that all failed, or are all parked. `counts`: with one attempt more. */
function failSql(
  table: string,
  result: 'failed' | 'parked',
  outcomes: readonly KeyedOutcome[],
  { counts }: { readonly counts: boolean },
): SqlPart {
  const errors = outcomes.map(({ seq, outcome }) => ({
    sql: `WHEN ${seq} THEN ?`,
    parameters: [outcome.result === 'published' ? null : outcome.error],
  }))
  const { sql, parameters } = joinParts(errors, ' ')
  const next = outcomes.map(({ seq, outcome }) => `WHEN ${seq} THEN ${fromNow(outcome.result === 'failed' ? outcome.retryAfter : 0)}`)
  const change =
    result === 'failed'
      ? `o.state = 'waiting', o.available_at = CASE o.seq ${next.join(' ')} END`
      : `o.state = 'parked', o.parked_at = UTC_TIMESTAMP(6)`
  const counted = counts ? ', o.attempts = o.attempts + 1' : ''
  return moveSql(table, outcomes, { sql: `${change}${counted}, o.last_error = CASE o.seq ${sql} END`, parameters })
}

function moveSql(table: string, keys: readonly RowKey[], change: SqlPart): SqlPart {
  const { sql, parameters } = keysSql(keys)
  return {
    sql: `UPDATE ${table} AS o FORCE INDEX (PRIMARY) SET ${change.sql}, o.lease_token = NULL, o.lease_until = NULL WHERE ${sql}`,
    parameters: [...change.parameters, ...parameters],
  }
}

export type KeyedOutcome = RowKey & { readonly outcome: Outcome }

/** Errors are long texts: this many fit into a statement. */
const failuresAtOnce = 100

/** Applies outcomes to rows that are locked. `counts`: those that failed or are parked have one attempt more. */
export async function applyOutcomes(
  run: RunStatement,
  table: string,
  outcomes: readonly KeyedOutcome[],
  { retain, counts }: { readonly retain: boolean; readonly counts: boolean },
): Promise<void> {
  const resultsIn = (result: Outcome['result']) => outcomes.filter(({ outcome }) => outcome.result === result)
  const published = resultsIn('published')
  if (published.length > 0) {
    const { sql, parameters } = retain ? keepSql(table, published) : deleteSql(table, published)
    await run(sql, parameters)
  }
  for (const result of ['failed', 'parked'] as const) {
    const failures = resultsIn(result)
    for (let start = 0; start < failures.length; start += failuresAtOnce) {
      const { sql, parameters } = failSql(table, result, failures.slice(start, start + failuresAtOnce), { counts })
      await run(sql, parameters)
    }
  }
}
