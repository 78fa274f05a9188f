import type { Row } from './row.ts'

/**
 * The bytes of claimed rows, as `ClaimOptions.maxBytes` counts them: data and attributes. A row that was not read because of its size uses up the
 * whole claim.
 */
export function bytesOf(rows: readonly Row[]): number {
  return rows.reduce((sum, { data, attributes, bytes }) => {
    if (bytes !== undefined) return sum + Number(bytes)
    return sum + (data === null ? Infinity : lengthOf(data) + lengthOf(attributes))
  }, 0)
}

export interface ByteLimit {
  readonly maxBytes?: number | undefined
  /** Bytes used so far. */
  readonly spent: number
}

/** The first values that fit, by their sizes in bytes. The very first one always fits, unless bytes were used before. */
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
 * Decides at random, by the token of the claim, whether waiting or ready rows are counted first. With a fixed order, a row of the other kind that is
 * larger than a whole claim would never be claimed.
 */
export function inAnyOrder<T>(waiting: readonly T[], ready: readonly T[], token: string): readonly T[] {
  return Number.parseInt(token.slice(-4), 16) % 2 === 0 ? [...waiting, ...ready] : [...ready, ...waiting]
}

/**
 * Adds the contents of rows that a claim returned without them, because they are large: their data is null. They are read after the claim is
 * committed, so that the attempt is counted even if reading the record crashes the process. A row without remaining attempts gets empty data. A row
 * that no longer exists is omitted.
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

/** The key of a row. */
export interface RowKey {
  readonly state: string
  readonly destination: string
  readonly seq: string
}

/** Rows up to this size are read together with their sizes: all of them together do not exceed the limit of a claim. */
export function inlineBytes(maxBytes: number | undefined, limit: number): number | undefined {
  return maxBytes === undefined ? undefined : Math.floor(maxBytes / limit)
}

/**
 * The number of rows that a claim examines, for databases that must read a whole value to know its length: after a claim that reached its byte limit
 * not many more than it returned, and twice as many after each claim that did not.
 */
export class ClaimWidth {
  #width = Infinity

  of(limit: number): number {
    return Math.min(limit, this.#width)
  }

  /** A claim examined `found` rows, and its byte limit allowed `taken` of them. */
  record(found: number, taken: number): void {
    if (taken < found) this.#width = Math.max(1, taken) * 4
    else this.#width *= 2
  }
}

function lengthOf(value: unknown): number {
  if (value instanceof Uint8Array) return value.byteLength
  return typeof value === 'string' ? Buffer.byteLength(value) : 0
}
