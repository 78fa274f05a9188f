import type { Row } from '../driver.ts'

/** What a claim reads of a row, named `o`. Bytes, where a character set could change them. Rows go through `readRow`. */
export const claimedColumns: string = `CAST(o.seq AS CHAR) AS seq, o.state, o.destination, o.id, o.type, o.data,
  CAST(o.attributes AS BINARY) AS attributes, o.attempts, ${instant('o.created_at')} AS created_at`

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
