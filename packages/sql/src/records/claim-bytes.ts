import type { Row } from './row.ts'

/** The bytes of claimed rows, as `ClaimOptions.maxBytes` counts them: data and attributes. What was not read, because it is too large, is all that a claim may have. */
export function bytesOf(rows: readonly Row[]): number {
  return rows.reduce((sum, { data, attributes, bytes }) => {
    if (bytes !== undefined) return sum + Number(bytes)
    return sum + (data === null ? Infinity : lengthOf(data) + lengthOf(attributes))
  }, 0)
}

export interface ByteLimit {
  readonly maxBytes?: number | undefined
  /** What was taken before. */
  readonly spent: number
}

/** The first of these that fit, by their sizes in bytes. The very first one fits in any case, unless something was taken before. */
export function withinBytes<T>(found: readonly T[], { maxBytes, spent }: ByteLimit, sizeOf: (one: T) => number): readonly T[] {
  if (maxBytes === undefined) return found
  let bytes = spent
  const end = found.findIndex((one) => {
    const isFirst = bytes === 0
    bytes += sizeOf(one)
    return bytes > maxBytes && !isFirst
  })
  return end === -1 ? found : found.slice(0, end)
}

/**
 * Which rows are counted first: what waits or what is ready, by the token of the claim, which is random. If it were always the same, a row of the others that is larger
 * than a whole claim would never be taken.
 */
export function inAnyOrder<T>(waiting: readonly T[], ready: readonly T[], token: string): readonly T[] {
  return Number.parseInt(token.slice(-4), 16) % 2 === 0 ? [...waiting, ...ready] : [...ready, ...waiting]
}

/**
 * Adds the contents of rows that a claim gave without them, because they are large: their data is null. They are read when the claim is committed, so that a
 * record that ends the process which reads it has had its attempt counted. One that has none left comes with empty data. A row that is not there any more is left out.
 */
export async function withContents(
  rows: readonly Row[],
  read: (large: readonly RowKey[]) => Promise<readonly Row[]>,
  isExhausted: (row: Row) => boolean,
): Promise<readonly Row[]> {
  if (rows.every((row) => row['data'] !== null)) return rows
  if (rows.some((row) => row['data'] === null && isExhausted(row))) {
    const emptied = rows.map((row) => (row['data'] === null && isExhausted(row) ? { ...row, data: new Uint8Array() } : row))
    return await withContents(emptied, read, isExhausted)
  }
  const large = rows.filter((row) => row['data'] === null)
  const keys = large.map((row) => ({ state: String(row['state']), destination: String(row['destination']), seq: String(row['seq']) }))
  const contents = new Map((await read(keys)).map((row) => [String(row['seq']), row]))
  return rows.flatMap((row) => {
    if (row['data'] !== null) return [row]
    const found = contents.get(String(row['seq']))
    return found === undefined ? [] : [{ ...row, data: found['data'], attributes: found['attributes'] }]
  })
}

/** Where a row is. */
export interface RowKey {
  readonly state: string
  readonly destination: string
  readonly seq: string
}

/** Rows up to this size are read together with their sizes: all of them together are no more than a claim may have. */
export function inlineBytes(maxBytes: number | undefined, limit: number): number | undefined {
  return maxBytes === undefined ? undefined : Math.floor(maxBytes / limit)
}

/**
 * How many rows a claim looks at, for databases that have to read a whole value to know its length: after a claim that was cut off by its bytes not many more
 * than it gave, and twice as many after each that was not.
 */
export class ClaimWidth {
  #width = Infinity

  of(limit: number): number {
    return Math.min(limit, this.#width)
  }

  /** A claim looked at `found` rows, and its bytes allowed `taken` of them. */
  note(found: number, taken: number): void {
    if (taken < found) this.#width = Math.max(1, taken) * 4
    else this.#width *= 2
  }
}

function lengthOf(value: unknown): number {
  if (value instanceof Uint8Array) return value.byteLength
  return typeof value === 'string' ? Buffer.byteLength(value) : 0
}
