import { InvalidOptionError } from '@ackord/core'
import { checkName } from '@ackord/core/internal'
import type { RowKey } from '../records/claim-bytes.ts'
import { problemOf } from '../records/inbox-key.ts'
import type { Row } from '../records/row.ts'

/** In characters. */
const longestName = 64

/** The one place where names get into statements. Every name can be one that is not too long, ends in no blank and stays in the basic plane. */
export function quoteIdentifier(option: string, name: string): string {
  checkName(option, name)
  const problem = problemOf(name) ?? problemOfName(name)
  if (problem !== undefined) throw new InvalidOptionError(option, `${problem}.`)
  return `\`${name.replaceAll('`', '``')}\``
}

function problemOfName(name: string): string | undefined {
  if (name.length > longestName) return `is longer than ${longestName} characters`
  if (/[ \t\n\v\f\r]$/.test(name)) return 'ends in a blank'
  return /[\u{10000}-\u{10FFFF}]/u.test(name) ? 'holds a character that MySQL takes in no name' : undefined
}

/** A text in a statement as its bytes, whatever the connection's character set and its setting for backslashes. */
export function quoteLiteral(text: string): string {
  return `X'${Buffer.from(text).toString('hex')}'`
}

/** A piece of a statement, with the values for its question marks. */
export interface SqlPart {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

export function joinParts(parts: readonly SqlPart[], separator: string): SqlPart {
  return { sql: parts.map(({ sql }) => sql).join(separator), parameters: parts.flatMap(({ parameters }) => parameters) }
}

/** Groups by a text, in the order of first appearance. */
export function groupBy<T>(values: readonly T[], keyOf: (value: T) => string): readonly (readonly [T, ...T[]])[] {
  const groups = new Map<string, [T, ...T[]]>()
  for (const value of values) {
    const key = keyOf(value)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [value])
    else group.push(value)
  }
  return [...groups.values()]
}

/** The statements of a script of ours: clients send one at a time unless they are told otherwise. Quotes and names may hold semicolons. */
export function splitScript(sql: string): readonly string[] {
  const parts = sql.match(/(?:`(?:[^`]|``)*`|'(?:[^']|'')*'|[^;`'])+/g) ?? []
  return parts.map((part) => part.trim()).filter((part) => part !== '')
}

/** What a claim reads of a row, named `o`. Bytes, where a character set could change them. Rows go through `readRow`. */
export const claimedColumns: string = `CAST(o.seq AS CHAR) AS seq, o.state, o.destination, o.id, o.type, o.data,
  CAST(o.attributes AS BINARY) AS attributes, o.attempts, ${instant('o.created_at')} AS created_at`

/** The same and `bytes`, the size of the contents. Where that is more than `inline`, data and attributes are null. */
export function claimedColumnsUpTo(inline: number | undefined): string {
  if (inline === undefined) return claimedColumns
  const bytes = 'OCTET_LENGTH(o.data) + OCTET_LENGTH(o.attributes)'
  const small = (column: string) => `IF(${bytes} <= ${inline}, ${column}, NULL)`
  return `CAST(o.seq AS CHAR) AS seq, o.state, o.destination, o.id, o.type, ${small('o.data')} AS data,
  ${small('CAST(o.attributes AS BINARY)')} AS attributes, o.attempts, ${instant('o.created_at')} AS created_at, ${bytes} AS bytes`
}

/** Milliseconds since the epoch. */
export function instant(column: string): string {
  return `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${column}) / 1000`
}

/** An instant so many milliseconds from now, by the database's clock. Without a time zone, whatever the session's is. */
export function fromNow(milliseconds: number): string {
  return `UTC_TIMESTAMP(6) + INTERVAL ${Math.round(milliseconds * 1000)} MICROSECOND`
}

/** Texts are stored as bytes. */
export function readRow(row: Row): Row {
  const read: Record<string, unknown> = {}
  for (const column in row) {
    const value = row[column]
    read[column] = value instanceof Uint8Array && column !== 'data' ? Buffer.from(value).toString() : value
  }
  return read
}

export type { RowKey }

/** The rows of these keys. Each is named by its whole key and found there; not by rows of values, which not every optimizer looks up. */
export function keysSql(keys: readonly RowKey[]): SqlPart {
  const groups = groupBy(keys, ({ state, destination }) => `${state}/${destination}`).map((group) => ({
    sql: `(o.state = ? AND o.destination = ? AND o.seq IN (${group.map(({ seq }) => seq).join(', ')}))`,
    parameters: [group[0].state, group[0].destination],
  }))
  const { sql, parameters } = joinParts(groups, ' OR ')
  return { sql: `(${sql})`, parameters }
}

/** The key of a row that `readRow` has read. Its seq is a number of the database's own. */
export function keyOf(row: Row): RowKey {
  return { state: String(row['state']), destination: String(row['destination']), seq: String(row['seq']) }
}
