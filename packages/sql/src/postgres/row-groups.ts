import type { Outcome } from '@ackord/outbox'

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
export function seqsSql(seqs: readonly string[], list: string): string {
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
