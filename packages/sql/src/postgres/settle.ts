import { maxHistoryLength, type Outcome } from '@ackord/outbox'
import type { ClaimedOutcome } from '../contract/store-dialect.ts'
import { type ClaimedRowKey, type FailedOutcome, lineOf } from '../records/claimed-record.ts'
import { bindTo, instant, numberArray } from './sql-text.ts'

export interface ClaimStatement {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/**
 * Identifies the claims. Shared values once: $1 states, $2 destinations, $3 tokens; then for each claim, sorted by seq so that no two callers
 * deadlock, $4 the seq and $5 the number of its shared values.
 */
const claimed = `(
  SELECT ($1::text[])[kind] AS state, ($2::text[])[kind] AS destination, ($3::uuid[])[kind] AS token, seq
  FROM unnest($4::bigint[], $5::integer[]) AS given(seq, kind)
) AS claim`

/** Arrays of numbers are formatted here: drivers inspect every element, and there are hundreds. */
function claimParameters<Row extends ClaimedRowKey>(rows: readonly Row[], { groups, numbers }: GroupedRows<Row>): unknown[] {
  return [
    groups.map(([{ state }]) => state),
    groups.map(([{ destination }]) => destination),
    groups.map(([{ token }]) => token),
    numberArray(rows.map(({ seq }) => seq)),
    numberArray(numbers),
  ]
}

function grouped<Row extends ClaimedRowKey>(rows: readonly Row[]): GroupedRows<Row> {
  return groupRows(rows, ({ token, state, destination }) => `${token} ${state} ${destination}`)
}

/** The whole key, because no index has seq alone; then the fence. */
function holds(claim: string): string {
  return `o.state = ${claim}.state AND o.destination = ${claim}.destination AND o.seq = ${claim}.seq
    AND o.lease_token = ${claim}.token AND o.lease_until > clock_timestamp()`
}

/** Extends leases. Returns the seqs whose claim was valid. */
export function renewal(table: string, rows: readonly ClaimedRowKey[], lease: number): ClaimStatement {
  const sql = `UPDATE ${table} AS o SET lease_until = clock_timestamp() + $6::float8 * interval '1 millisecond'
FROM ${claimed}
WHERE ${holds('claim')}
RETURNING o.seq::text AS seq`
  return { sql, parameters: [...claimParameters(rows, grouped(rows)), lease] }
}

/** Releases leases and uncounts the attempt. */
export function releasing(table: string, rows: readonly ClaimedRowKey[]): ClaimStatement {
  const sql = `UPDATE ${table} AS o SET lease_token = NULL, lease_until = NULL, attempts = o.attempts - 1
FROM ${claimed}
WHERE ${holds('claim')}`
  return { sql, parameters: claimParameters(rows, grouped(rows)) }
}

/** The history of the row `o` with one more line. */
export function historySql(line: string): string {
  return `right(concat_ws(chr(10), o.history, concat((${instant('clock_timestamp()')})::bigint, ' ', ${line})), ${maxHistoryLength})`
}

/** The changes of the row `o` by an `outcome` with the columns of `resultColumns()`. */
export function outcomeChanges({ failures }: ResultOptions): string {
  const kept = `
    cause = CASE outcome.result WHEN 'published' THEN o.cause ELSE outcome.cause END,
    history = CASE outcome.result WHEN 'published' THEN o.history ELSE ${historySql('outcome.line')} END,`
  return `    state = CASE outcome.result WHEN 'failed' THEN 'waiting' ELSE outcome.result END,
    available_at = CASE outcome.result WHEN 'failed' THEN clock_timestamp() + outcome.retry_after * interval '1 millisecond' ELSE o.available_at END,
    last_error = coalesce(outcome.error, o.last_error),${failures ? kept : ''}
    parked_at = CASE outcome.result WHEN 'parked' THEN clock_timestamp() END,
    published_at = CASE outcome.result WHEN 'published' THEN clock_timestamp() END,
    lease_token = NULL, lease_until = NULL`
}

/** `failures`: whether cause and history are written too. */
export interface ResultOptions {
  readonly failures: boolean
}

export interface SettleOptions extends ResultOptions {
  readonly retain: boolean
}

/**
 * Applies outcomes. Returns the seqs whose claim was valid, as one string. One statement: published rows are deleted, or kept with `retain`; the
 * others change their state.
 */
export function settlement(table: string, outcomes: readonly ClaimedOutcome[], options: SettleOptions): ClaimStatement {
  const { retain } = options
  const kinds = grouped(outcomes)
  const { groups } = kinds
  if (!retain && isDeletable(outcomes, groups)) {
    const parameters: unknown[] = []
    const bind = bindTo(parameters)
    const conditions = groups.map((group) => {
      const [{ state, destination, token }] = group
      const seqs = group.map(({ seq }) => seq)
      return `o.state = ${bind(state, 'text')} AND o.destination = ${bind(destination, 'text')} AND ${seqsSql(seqs, bind(numberArray(seqs), 'bigint[]'))}
    AND o.lease_token = ${bind(token, 'uuid')} AND o.lease_until > clock_timestamp()`
    })
    return { sql: `WITH ${deleteGroupsSql(table, conditions)}`, parameters }
  }
  return { sql: settleSql(table, options), parameters: [...claimParameters(outcomes, kinds), ...resultColumns(outcomes, options)] }
}

/** The claims as above, and the columns of `resultColumns()` from $6 on. */
function settleSql(table: string, options: SettleOptions): string {
  const { retain } = options
  const { arrays, names } = resultsSql(6, options)
  const update = `UPDATE ${table} AS o SET
${outcomeChanges(options)}
  FROM outcome
  WHERE ${retain ? '' : `outcome.result <> 'published' AND `}${holds('outcome')}
  RETURNING o.seq`
  const remove = `DELETE FROM ${table} AS o USING outcome
  WHERE outcome.result = 'published' AND ${holds('outcome')}
  RETURNING o.seq`
  return `WITH outcome AS MATERIALIZED (
  SELECT ($1::text[])[kind] AS state, ($2::text[])[kind] AS destination, ($3::uuid[])[kind] AS token, given.*
  FROM unnest($4::bigint[], $5::integer[], ${arrays}) AS given(seq, kind, ${names})
),
changed AS (${update})${retain ? '' : `,\nremoved AS (${remove})`}
${settledSql(retain ? ['changed'] : ['changed', 'removed'])}`
}

/** Rows that share values. At least one. */
type RowGroup<Row> = [first: Row, ...rest: Row[]]

export interface GroupedRows<Row> {
  readonly groups: readonly RowGroup<Row>[]
  /** The number of its group for each row, starting with 1. */
  readonly numbers: readonly number[]
}

/** Groups rows by shared values: values common to hundreds of rows are sent once. */
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

/** The maximum number of groups with their own part of the statement. */
const maxParts = 8

/**
 * Whether all rows are published and in few groups, so that each group is deleted by its own part of the statement, for which the planner uses the
 * key.
 */
export function isDeletable(outcomes: readonly { readonly outcome: Outcome }[], groups: readonly unknown[]): boolean {
  return groups.length <= maxParts && outcomes.every(({ outcome }) => outcome.result === 'published')
}

/** Parts of a statement that each delete a group, and the deleted seqs as one string: hundreds of rows would cost more. */
export function deleteGroupsSql(table: string, conditions: readonly string[]): string {
  const names = conditions.map((_, index) => `removed_${index}`)
  const parts = conditions.map((condition, index) => `${names[index]} AS (DELETE FROM ${table} AS o WHERE ${condition} RETURNING o.seq)`)
  return `${parts.join(',\n')}\n${settledSql(names)}`
}

/** In a range with more rows than this per wanted row, rows are looked up one by one. */
const maxBetween = 4n

/**
 * The rows `o` with these sorted seqs; `list` is the array. They are mostly adjacent: reading their range costs a fraction of looking each up in the
 * key.
 */
function seqsSql(seqs: readonly string[], list: string): string {
  const between = BigInt(seqs.at(-1) ?? 0) - BigInt(seqs[0] ?? 0)
  if (between > BigInt(seqs.length) * maxBetween) return `o.seq = ANY(${list})`
  // Adding 0 keeps the planner from looking them up one by one.
  return `o.seq BETWEEN (${list})[1] AND (${list})[${seqs.length}] AND o.seq + 0 = ANY(${list})`
}

/** The seqs returned by the parts of a statement, as one string. */
export function settledSql(parts: readonly string[]): string {
  return `SELECT string_agg(seq::text, ',') AS seqs FROM (${parts.map((name) => `SELECT seq FROM ${name}`).join(' UNION ALL ')}) AS settled`
}

export function settledSeqs([row]: readonly Readonly<Record<string, unknown>>[]): ReadonlySet<string> {
  const seqs = row?.['seqs']
  return new Set(typeof seqs === 'string' ? seqs.split(',') : [])
}

/** Results, errors and milliseconds until the next attempt, and with `failures` causes and lines of the history, as the columns of a statement. */
export function resultColumns(outcomes: readonly { readonly outcome: Outcome }[], { failures }: ResultOptions): readonly unknown[] {
  const column = (read: (failure: FailedOutcome) => unknown) =>
    outcomes.map(({ outcome }) => (outcome.result === 'published' ? null : read(outcome)))
  return [
    outcomes.map(({ outcome }) => outcome.result),
    column(({ error }) => error),
    column((failure) => (failure.result === 'failed' ? failure.retryAfter : null)),
    ...(failures ? [column(({ cause = null }) => cause), column(({ error }) => lineOf(error))] : []),
  ]
}

/** The same columns as arguments of `unnest()`, from this parameter on, and their names. */
export function resultsSql(from: number, { failures }: ResultOptions): { readonly arrays: string; readonly names: string } {
  const types = ['text', 'text', 'float8', ...(failures ? ['text', 'text'] : [])]
  return {
    arrays: types.map((type, index) => `$${from + index}::${type}[]`).join(', '),
    names: `result, error, retry_after${failures ? ', cause, line' : ''}`,
  }
}
