import { InvalidOptionError } from '@ackord/core'
import { checkName, groupBy } from '@ackord/core/internal'
import type { RowKey } from '../records/claim-bytes.ts'
import type { Row } from '../records/row.ts'
import { problemOf } from '../records/text-limits.ts'

/** In characters. */
const maxNameLength = 64

/**
 * The only function that puts names into statements. Every name is valid that is not too long, does not end in whitespace and stays in the Basic
 * Multilingual Plane.
 */
export function quoteIdentifier(option: string, name: string): string {
  checkName(option, name)
  const problem = problemOf(name) ?? problemOfName(name)
  if (problem !== undefined) throw new InvalidOptionError(option, `${problem}.`)
  return `\`${name.replaceAll('`', '``')}\``
}

function problemOfName(name: string): string | undefined {
  if (name.length > maxNameLength) return `is longer than ${maxNameLength} characters`
  if (/[ \t\n\v\f\r]$/.test(name)) return 'ends with whitespace'
  return /[\u{10000}-\u{10FFFF}]/u.test(name) ? 'contains a character that MySQL does not allow in names' : undefined
}

/** A string as hexadecimal bytes, independent of the connection's character set and its backslash setting. */
export function quoteLiteral(text: string): string {
  return `X'${Buffer.from(text).toString('hex')}'`
}

/** A parameter as characters: clients send strings as bytes, and functions would count and compare these. */
export function asText(parameter: string): string {
  return `CONVERT(${parameter} USING utf8mb4)`
}

/** A part of a statement, with the values for its question marks. */
export interface SqlPart {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

export function joinParts(parts: readonly SqlPart[], separator: string): SqlPart {
  return { sql: parts.map(({ sql }) => sql).join(separator), parameters: parts.flatMap(({ parameters }) => parameters) }
}

/**
 * Splits a script of the library into statements: clients send one at a time unless configured otherwise. Quotes and names may contain semicolons.
 */
export function splitScript(sql: string): readonly string[] {
  const parts = sql.match(/(?:`(?:[^`]|``)*`|'(?:[^']|'')*'|[^;`'])+/g) ?? []
  return parts.map((part) => part.trim()).filter((part) => part !== '')
}

/** The columns of a record, in a row named `o`. As bytes where a character set could change them. Rows must be passed to `readRow`. */
export const recordColumns: string = recordColumnsWith('o.data')

/** The same without the payload. */
export const columnsWithoutData: string = recordColumnsWith(`X'' AS data`)

function recordColumnsWith(data: string): string {
  return `CAST(o.seq AS CHAR) AS seq, o.state, o.destination, o.id, o.type, ${data},
  CAST(o.attributes AS BINARY) AS attributes, o.attempts, ${instant('o.created_at')} AS created_at`
}

/**
 * The columns that a claim reads: the same and `age`. With `inline` also `bytes`, the size of the contents; where that exceeds `inline`, data and
 * attributes are null.
 */
export function claimedColumns(inline: number | undefined): string {
  const age = 'TIMESTAMPDIFF(MICROSECOND, o.created_at, UTC_TIMESTAMP(6)) / 1000 AS age'
  if (inline === undefined) return `${recordColumns}, ${age}`
  const bytes = 'OCTET_LENGTH(o.data) + OCTET_LENGTH(o.attributes)'
  const small = (column: string) => `IF(${bytes} <= ${inline}, ${column}, NULL)`
  return `CAST(o.seq AS CHAR) AS seq, o.state, o.destination, o.id, o.type, ${small('o.data')} AS data,
  ${small('CAST(o.attributes AS BINARY)')} AS attributes, o.attempts, ${instant('o.created_at')} AS created_at, ${age}, ${bytes} AS bytes`
}

/** Milliseconds since the epoch. */
export function instant(column: string): string {
  return `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${column}) / 1000`
}

/** An instant this many milliseconds from now, by the database's clock. Independent of the session's time zone. */
export function fromNow(milliseconds: number): string {
  return `UTC_TIMESTAMP(6) + INTERVAL ${Math.round(milliseconds * 1000)} MICROSECOND`
}

/** Strings are stored as bytes. */
export function readRow(row: Row): Row {
  const read: Record<string, unknown> = {}
  for (const column in row) {
    const value = row[column]
    read[column] = value instanceof Uint8Array && column !== 'data' ? Buffer.from(value).toString() : value
  }
  return read
}

export type { RowKey }

/** The rows of these keys. Each row is addressed by its whole key; not with row constructors, which not every optimizer resolves with the index. */
export function keysSql(keys: readonly RowKey[]): SqlPart {
  const groups = groupBy(keys, ({ state, destination }) => `${state}/${destination}`).map(([, group]) => ({
    sql: `(o.state = ? AND o.destination = ? AND o.seq IN (${group.map(({ seq }) => seq).join(', ')}))`,
    parameters: [group[0].state, group[0].destination],
  }))
  const { sql, parameters } = joinParts(groups, ' OR ')
  return { sql: `(${sql})`, parameters }
}

/** The key of a row read by `readRow`. Its seq is a number from the database. */
export function keyOf(row: Row): RowKey {
  return { state: String(row['state']), destination: String(row['destination']), seq: String(row['seq']) }
}
