import type { Outcome } from '@ackord/outbox'
import type { PlacedOutcome } from '../contract/store-dialect.ts'
import type { ClaimedPlace } from '../records/claim-token.ts'
import { giveTo, numberArray } from './sql-text.ts'

export interface ClaimStatement {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/**
 * Names the claims. What they share once: $1 states, $2 destinations, $3 tokens; then for each, sorted by seq so that no two callers wait for each other in a
 * circle, $4 the seq and $5 the number of what it shares.
 */
const claimed = `(
  SELECT ($1::text[])[kind] AS state, ($2::text[])[kind] AS destination, ($3::uuid[])[kind] AS token, seq
  FROM unnest($4::bigint[], $5::integer[]) AS given(seq, kind)
) AS claim`

/** Arrays of numbers are written by hand: drivers look at every element, and there are hundreds. */
function claimParameters<Place extends ClaimedPlace>(places: readonly Place[], { groups, numbers }: GroupedRows<Place>): unknown[] {
  return [
    groups.map(([{ state }]) => state),
    groups.map(([{ destination }]) => destination),
    groups.map(([{ token }]) => token),
    numberArray(places.map(({ seq }) => seq)),
    numberArray(numbers),
  ]
}

function grouped<Place extends ClaimedPlace>(places: readonly Place[]): GroupedRows<Place> {
  return groupRows(places, ({ token, state, destination }) => `${token} ${state} ${destination}`)
}

/** The whole key, because nothing indexes seq alone; then the fence. */
function holds(claim: string): string {
  return `o.state = ${claim}.state AND o.destination = ${claim}.destination AND o.seq = ${claim}.seq
    AND o.lease_token = ${claim}.token AND o.lease_until > clock_timestamp()`
}

/** Extends leases. Gives the seqs whose claim held. */
export function renewal(table: string, places: readonly ClaimedPlace[], lease: number): ClaimStatement {
  const sql = `UPDATE ${table} AS o SET lease_until = clock_timestamp() + $6::float8 * interval '1 millisecond'
FROM ${claimed}
WHERE ${holds('claim')}
RETURNING o.seq::text AS seq`
  return { sql, parameters: [...claimParameters(places, grouped(places)), lease] }
}

/** Gives leases back, with the attempt. */
export function releasing(table: string, places: readonly ClaimedPlace[]): ClaimStatement {
  const sql = `UPDATE ${table} AS o SET lease_token = NULL, lease_until = NULL, attempts = o.attempts - 1
FROM ${claimed}
WHERE ${holds('claim')}`
  return { sql, parameters: claimParameters(places, grouped(places)) }
}

/** What an `outcome` with a result, an error and a time to retry after makes of the row `o`. */
export const outcomeChanges = `    state = CASE outcome.result WHEN 'failed' THEN 'waiting' ELSE outcome.result END,
    available_at = CASE outcome.result WHEN 'failed' THEN clock_timestamp() + outcome.retry_after * interval '1 millisecond' ELSE o.available_at END,
    last_error = coalesce(outcome.error, o.last_error),
    parked_at = CASE outcome.result WHEN 'parked' THEN clock_timestamp() END,
    published_at = CASE outcome.result WHEN 'published' THEN clock_timestamp() END,
    lease_token = NULL, lease_until = NULL`

/**
 * Applies outcomes. Gives the seqs whose claim held, as one text. One statement: what is published is deleted, or kept with `retain`; the rest changes its state.
 */
export function settlement(table: string, retain: boolean, outcomes: readonly PlacedOutcome[]): ClaimStatement {
  const kinds = grouped(outcomes)
  const { groups } = kinds
  if (!retain && isDeletable(outcomes, groups)) {
    const parameters: unknown[] = []
    const give = giveTo(parameters)
    const conditions = groups.map((group) => {
      const [{ state, destination, token }] = group
      const seqs = group.map(({ seq }) => seq)
      return `o.state = ${give(state, 'text')} AND o.destination = ${give(destination, 'text')} AND ${seqsSql(seqs, give(numberArray(seqs), 'bigint[]'))}
    AND o.lease_token = ${give(token, 'uuid')} AND o.lease_until > clock_timestamp()`
    })
    return { sql: `WITH ${deleteGroupsSql(table, conditions)}`, parameters }
  }
  return { sql: settleSql(table, retain), parameters: [...claimParameters(outcomes, kinds), ...resultColumns(outcomes)] }
}

/** The claims as above, $6 results, $7 errors, $8 milliseconds until the next attempt. */
function settleSql(table: string, retain: boolean): string {
  const update = `UPDATE ${table} AS o SET
${outcomeChanges}
  FROM outcome
  WHERE ${retain ? '' : `outcome.result <> 'published' AND `}${holds('outcome')}
  RETURNING o.seq`
  const remove = `DELETE FROM ${table} AS o USING outcome
  WHERE outcome.result = 'published' AND ${holds('outcome')}
  RETURNING o.seq`
  return `WITH outcome AS MATERIALIZED (
  SELECT ($1::text[])[kind] AS state, ($2::text[])[kind] AS destination, ($3::uuid[])[kind] AS token, given.*
  FROM unnest($4::bigint[], $5::integer[], $6::text[], $7::text[], $8::float8[]) AS given(seq, kind, result, error, retry_after)
),
changed AS (${update})${retain ? '' : `,\nremoved AS (${remove})`}
${settledSql(retain ? ['changed'] : ['changed', 'removed'])}`
}

/** Rows that have something in common. There is at least one. */
type RowGroup<Row> = [first: Row, ...rest: Row[]]

export interface GroupedRows<Row> {
  readonly groups: readonly RowGroup<Row>[]
  /** For each row that of its group, from 1 on. */
  readonly numbers: readonly number[]
}

/** Rows by what they have in common: what is the same for hundreds of rows is sent once. */
export function groupRows<Row>(rows: readonly Row[], kindOf: (row: Row) => string): GroupedRows<Row> {
  const known = new Map<string, number>()
  const groups: RowGroup<Row>[] = []
  const numbers = rows.map((row) => {
    const kind = kindOf(row)
    const number = known.get(kind)
    if (number !== undefined) {
      groups[number - 1]?.push(row)
      return number
    }
    known.set(kind, groups.push([row]))
    return groups.length
  })
  return { groups, numbers }
}

/** How many groups a statement has a part for. */
const mostParts = 8

/** Whether all of it is published and of few groups, so that each is deleted by a part of the statement, which the planner finds by the key alone. */
export function isDeletable(outcomes: readonly { readonly outcome: Outcome }[], groups: readonly unknown[]): boolean {
  return groups.length <= mostParts && outcomes.every(({ outcome }) => outcome.result === 'published')
}

/** Parts of a statement that each delete a group, and what they deleted, as one text: hundreds of rows would cost more. */
export function deleteGroupsSql(table: string, conditions: readonly string[]): string {
  const names = conditions.map((_, index) => `removed_${index}`)
  const parts = conditions.map((condition, index) => `${names[index]} AS (DELETE FROM ${table} AS o WHERE ${condition} RETURNING o.seq)`)
  return `${parts.join(',\n')}\n${settledSql(names)}`
}

/** In a range that has more rows for each of those that are wanted, these are looked up one by one. */
const mostBetween = 4n

/** The rows `o` with these sorted seqs, of which `list` stands for the array. They mostly lie together: to read their range costs a fraction of looking each up in the key. */
function seqsSql(seqs: readonly string[], list: string): string {
  const between = BigInt(seqs.at(-1) ?? 0) - BigInt(seqs[0] ?? 0)
  if (between > BigInt(seqs.length) * mostBetween) return `o.seq = ANY(${list})`
  // The sum keeps the planner from looking them up after all.
  return `o.seq BETWEEN (${list})[1] AND (${list})[${seqs.length}] AND o.seq + 0 = ANY(${list})`
}

/** The seqs that the parts of a statement give, as one text. */
export function settledSql(parts: readonly string[]): string {
  return `SELECT string_agg(seq::text, ',') AS seqs FROM (${parts.map((name) => `SELECT seq FROM ${name}`).join(' UNION ALL ')}) AS settled`
}

export function settledSeqs([row]: readonly Readonly<Record<string, unknown>>[]): ReadonlySet<string> {
  const seqs = row?.['seqs']
  return new Set(typeof seqs === 'string' ? seqs.split(',') : [])
}

/** Results, errors and milliseconds until the next attempt, as the columns of a statement. */
export function resultColumns(outcomes: readonly { readonly outcome: Outcome }[]): readonly unknown[] {
  return [
    outcomes.map(({ outcome }) => outcome.result),
    outcomes.map(({ outcome }) => (outcome.result === 'published' ? null : outcome.error)),
    outcomes.map(({ outcome }) => (outcome.result === 'failed' ? outcome.retryAfter : null)),
  ]
}
